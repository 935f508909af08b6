//! The budget of a file:
//!
//! - what was admitted never exceeds the limit, and one error is the refusal of all
//! - the gate is charged at most what was taken, and after the last check exactly that

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use loom::{sync::Arc, thread};

use crate::{Gate, Limits, ReadError, ReadErrorKind};

mod source {
    use crate::instrumented as std;
    include!("../../src/budget.rs");
}

/// A gate that adds up what it is charged.
#[derive(Debug, Default)]
struct Adding(AtomicU64);

impl Gate for Adding {
    fn pass(&self, bytes: u64) -> Result<(), ReadError> {
        self.0.fetch_add(bytes, SeqCst);
        Ok(())
    }
}

pub(crate) fn test() {
    run(100, &[&[60, 30], &[60]]);
    run(100, &[&[50, 50], &[u64::MAX, 1]]);
    run(100, &[&[100], &[u64::MAX], &[1]]);
    run(64 << 20, &[&[60 << 10, 60 << 10], &[60 << 10]]);
}

/// Each thread takes its charges in turn.
fn run(limit: u64, threads: &'static [&'static [u64]]) {
    crate::all_interleavings(move || {
        let gate: &'static Adding = Box::leak(Box::default());
        let limits = Limits { metadata_bytes: limit, ..Limits::default() };
        let budget = Arc::new(source::Budget::new(&limits, Some(gate)));
        let work = |charges: &'static [u64]| {
            let budget = Arc::clone(&budget);
            thread::spawn(move || -> u64 {
                charges.iter().take_while(|bytes| budget.take("names", **bytes).is_ok()).sum()
            })
        };
        let running: Vec<_> = threads.iter().map(|charges| work(charges)).collect();
        let admitted: u64 = running.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(admitted <= limit, "{admitted} of {limit}");
        let charged = || gate.0.load(SeqCst);
        match budget.refused() {
            Some(first) => {
                assert_eq!(first.kind, ReadErrorKind::Limit);
                assert_eq!(budget.take("names", 0).unwrap_err().to_string(), first.to_string());
            }
            None => {
                assert!(charged() <= admitted && admitted - charged() < 64 << 10);
                budget.go_on().unwrap();
                assert_eq!(charged(), admitted);
                assert_eq!(budget.left(), limit - admitted);
            }
        }
    });
}
