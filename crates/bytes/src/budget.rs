use std::{
    fmt,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{Gate, Limits, ReadError, ReadErrorKind};

/// Bytes that any file may make us hold, however small it is.
const FLOOR: u64 = 64 << 20;
/// Bytes that each byte of a file may make us hold beyond that. A file of valid metadata takes a fraction of it: structures
/// that are stored once and appear many times take more.
const FACTOR: u64 = 32;
/// Bytes between two questions to the gate.
const STEP: u64 = 64 << 10;

/// Memory that a file, together with the files that it names, may make us hold: the metadata that are read, and all that
/// becomes of them. It is bounded by [`Limits::metadata_bytes`] and by the sizes of the files, so that no small file
/// becomes large by naming one structure many times. Who is refused once is refused from then on.
pub struct Budget<'a> {
    gate: Option<&'a dyn Gate>,
    most: u64,
    file_bytes: AtomicU64,
    held: AtomicU64,
    /// Bytes of `held` that the gate does not know of yet.
    unasked: AtomicU64,
    refused: OnceLock<ReadError>,
}

impl<'a> Budget<'a> {
    /// A budget for files that are still to be added.
    pub fn new(limits: &Limits, gate: Option<&'a dyn Gate>) -> Self {
        Self {
            gate,
            most: limits.metadata_bytes,
            file_bytes: AtomicU64::new(0),
            held: AtomicU64::new(0),
            unasked: AtomicU64::new(0),
            refused: OnceLock::new(),
        }
    }

    /// A budget for one file of `size` bytes.
    pub fn of_file(limits: &Limits, size: u64) -> Self {
        let budget = Self::new(limits, None);
        budget.add_file(size);
        budget
    }

    /// Raises the budget by what another file of `size` bytes may need.
    pub fn add_file(&self, size: u64) {
        self.file_bytes.fetch_add(size, Ordering::Relaxed);
    }

    /// Takes `bytes` for `what`, which an error names.
    ///
    /// # Errors
    /// The budget is spent, or the gate refuses.
    pub fn take(&self, what: &str, bytes: u64) -> Result<(), ReadError> {
        if let Some(refused) = self.refused.get() {
            return Err(refused.clone());
        }
        let held = self.held.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let unasked = self.unasked.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let taken = if held > self.limit() { Err(self.spent(what)) } else { self.ask(unasked) };
        taken.map_err(|error| self.refused.get_or_init(|| error).clone())
    }

    /// Asks the gate whether to go on at all.
    ///
    /// # Errors
    /// The budget is spent, or the gate refuses.
    pub fn go_on(&self) -> Result<(), ReadError> {
        match (self.refused.get(), self.gate) {
            (Some(refused), _) => Err(refused.clone()),
            (None, Some(gate)) => gate
                .pass(self.unasked.swap(0, Ordering::Relaxed))
                .map_err(|error| self.refused.get_or_init(|| error).clone()),
            (None, None) => Ok(()),
        }
    }

    /// Why the budget refused, if it did.
    pub fn refused(&self) -> Option<&ReadError> {
        self.refused.get()
    }

    /// Bytes that are left.
    pub fn left(&self) -> u64 {
        self.limit().saturating_sub(self.held.load(Ordering::Relaxed))
    }

    fn limit(&self) -> u64 {
        let by_size = self.file_bytes.load(Ordering::Relaxed).saturating_mul(FACTOR).saturating_add(FLOOR);
        self.most.min(by_size)
    }

    fn spent(&self, what: &str) -> ReadError {
        let (limit, size) = (self.limit(), self.file_bytes.load(Ordering::Relaxed));
        let message = format!(
            "{what}: the metadata would take more than {limit} bytes of memory, the limit for {size} bytes of files"
        );
        ReadError::new(ReadErrorKind::Limit, message)
    }

    fn ask(&self, unasked: u64) -> Result<(), ReadError> {
        match self.gate {
            Some(gate) if unasked >= STEP => gate.pass(self.unasked.swap(0, Ordering::Relaxed)),
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
    fn a_small_file_cannot_make_much_of_itself() {
        let budget = Budget::of_file(&Limits::default(), 1 << 20);
        assert!(budget.take("links", FLOOR + (FACTOR << 20)).is_ok());
        let error = budget.take("attributes", 1).unwrap_err().to_string();
        assert!(
            error.starts_with("attributes: the metadata would take more than 100663296 bytes"),
            "{error}"
        );
        budget.add_file(1 << 30);
        assert_eq!(budget.take("names", 0).unwrap_err().to_string(), error, "the first refusal holds");
    }

    #[test]
    fn the_limit_of_the_user_holds_as_well() {
        let limits = Limits { metadata_bytes: 100, ..Limits::default() };
        let budget = Budget::of_file(&limits, 1 << 30);
        assert!(budget.take("names", 100).is_ok() && budget.left() == 0);
        assert!(budget.take("names", 1).is_err() && budget.go_on().is_err());
    }

    #[test]
    fn the_gate_hears_of_everything_in_large_steps() {
        let gate = Counting::default();
        let budget = Budget::new(&Limits::default(), Some(&gate));
        for _ in 0..1 << 10 {
            budget.take("names", 100).unwrap();
        }
        assert!(gate.0.load(Ordering::Relaxed) >= STEP);
        assert!(gate.0.load(Ordering::Relaxed) + STEP > 102_400);
    }
}
