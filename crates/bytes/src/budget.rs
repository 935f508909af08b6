use std::{
    fmt,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{Gate, Limits, ReadError, ReadErrorKind};

/// Memory in bytes that a file of any size may use.
const FLOOR: u64 = 64 << 20;
/// Additional memory in bytes per byte of the file. Metadata of ordinary files needs a fraction of it; only structures that
/// are stored once and referenced many times need more.
const FACTOR: u64 = 32;
/// Memory in bytes that is charged to the gate at once.
const STEP: u64 = 64 << 10;
/// Largest charge in bytes: larger ones count as this. More than any memory, and small enough that concurrent charges do not
/// overflow their sum.
const MAX_BYTES: u64 = 1 << 56;

/// The memory that a file, together with the files that it refers to, may use for its metadata, as read and as parsed. The
/// bound is [`Limits::metadata_bytes`] and a multiple of the size of the files: a small file cannot use much memory by
/// referring to one structure many times. After the first refusal, every request is refused.
pub struct Budget<'a> {
    gate: Option<&'a dyn Gate>,
    metadata_bytes: u64,
    file_bytes: AtomicU64,
    held: AtomicU64,
    /// Bytes of `held` that are not charged to the gate yet.
    uncharged: AtomicU64,
    refused: OnceLock<ReadError>,
}

impl<'a> Budget<'a> {
    /// Creates a budget for files that are added later.
    pub fn new(limits: &Limits, gate: Option<&'a dyn Gate>) -> Self {
        Self {
            gate,
            metadata_bytes: limits.metadata_bytes,
            file_bytes: AtomicU64::new(0),
            held: AtomicU64::new(0),
            uncharged: AtomicU64::new(0),
            refused: OnceLock::new(),
        }
    }

    /// Creates a budget for one file of `size` bytes.
    pub fn of_file(limits: &Limits, size: u64) -> Self {
        let budget = Self::new(limits, None);
        budget.add_file(size);
        budget
    }

    /// Raises the budget for another file of `size` bytes.
    pub fn add_file(&self, size: u64) {
        self.file_bytes.fetch_add(size, Ordering::Relaxed);
    }

    /// Charges `bytes` for `what`, a noun in the plural for the error message.
    ///
    /// # Errors
    /// The budget is exhausted, or the gate refuses.
    pub fn take(&self, what: &str, bytes: u64) -> Result<(), ReadError> {
        if let Some(refused) = self.refused.get() {
            return Err(refused.clone());
        }
        let bytes = bytes.min(MAX_BYTES);
        let held = self.held.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let uncharged = self.uncharged.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let taken = if held > self.limit() { Err(self.exhausted(what)) } else { self.charge(uncharged) };
        taken.map_err(|error| self.refused.get_or_init(|| error).clone())
    }

    /// Checks whether to continue.
    ///
    /// # Errors
    /// The budget is exhausted, or the gate refuses.
    pub fn go_on(&self) -> Result<(), ReadError> {
        match (self.refused.get(), self.gate) {
            (Some(refused), _) => Err(refused.clone()),
            (None, Some(gate)) => gate
                .pass(self.uncharged.swap(0, Ordering::Relaxed))
                .map_err(|error| self.refused.get_or_init(|| error).clone()),
            (None, None) => Ok(()),
        }
    }

    /// Returns the first refusal.
    pub fn refused(&self) -> Option<&ReadError> {
        self.refused.get()
    }

    /// Returns the remaining memory in bytes.
    pub fn left(&self) -> u64 {
        self.limit().saturating_sub(self.held.load(Ordering::Relaxed))
    }

    fn limit(&self) -> u64 {
        let by_size = self.file_bytes.load(Ordering::Relaxed).saturating_mul(FACTOR).saturating_add(FLOOR);
        self.metadata_bytes.min(by_size)
    }

    fn exhausted(&self, what: &str) -> ReadError {
        let (limit, size) = (self.limit(), self.file_bytes.load(Ordering::Relaxed));
        let message = format!(
            "{what}: the metadata needs more than {limit} bytes of memory, the limit for {size} bytes of files"
        );
        ReadError::new(ReadErrorKind::Limit, message)
    }

    fn charge(&self, uncharged: u64) -> Result<(), ReadError> {
        match self.gate {
            Some(gate) if uncharged >= STEP => gate.pass(self.uncharged.swap(0, Ordering::Relaxed)),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Budget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Budget({} of {})", self.held.load(Ordering::Relaxed), self.limit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Counting(AtomicU64);

    impl Gate for Counting {
        fn pass(&self, bytes: u64) -> Result<(), ReadError> {
            self.0.fetch_add(bytes, Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn memory_is_bounded_by_file_size() {
        let budget = Budget::of_file(&Limits::default(), 1 << 20);
        assert!(budget.take("links", FLOOR + (FACTOR << 20)).is_ok());
        let error = budget.take("attributes", 1).unwrap_err().to_string();
        assert!(error.starts_with("attributes: the metadata needs more than 100663296 bytes"), "{error}");
        budget.add_file(1 << 30);
        assert_eq!(budget.take("names", 0).unwrap_err().to_string(), error, "the first refusal is final");
    }

    #[test]
    fn memory_is_bounded_by_the_limit() {
        let limits = Limits { metadata_bytes: 100, ..Limits::default() };
        let budget = Budget::of_file(&limits, 1 << 30);
        assert!(budget.take("names", 100).is_ok() && budget.left() == 0);
        assert!(budget.take("names", 1).is_err() && budget.go_on().is_err());
    }

    #[test]
    fn the_gate_is_charged_in_steps() {
        let gate = Counting::default();
        let budget = Budget::new(&Limits::default(), Some(&gate));
        for _ in 0..1 << 10 {
            budget.take("names", 100).unwrap();
        }
        assert!(gate.0.load(Ordering::Relaxed) >= STEP);
        assert!(gate.0.load(Ordering::Relaxed) + STEP > 102_400);
    }
}
