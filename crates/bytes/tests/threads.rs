//! The budget with all interleavings of its threads (loom). The source is that of the crate, with loom's primitives in place
//! of std's.
//!
//! - what was admitted never exceeds the limit, and one error is the refusal of all
//! - the gate is charged at most what was taken, and after the last check exactly that

#![allow(unreachable_pub, reason = "the source is that of a library")]
#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

use loom::{sync::Arc, thread};
use virtualize_bytes::{Gate, Limits, ReadError, ReadErrorKind};

/// The standard library, with loom's atomics.
mod instrumented {
    pub(crate) use std::fmt;
    pub(crate) mod sync {
        pub(crate) use std::sync::OnceLock;
        pub(crate) mod atomic {
            pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
        }
    }
}

#[allow(dead_code, reason = "not everything is tested here")]
mod budget {
    use crate::{instrumented as std, *};
    include!("../src/budget.rs");
}

use budget::Budget;

/// A gate that adds up what it is charged.
#[derive(Debug, Default)]
struct Adding(std::sync::atomic::AtomicU64);

impl Gate for Adding {
    fn pass(&self, bytes: u64) -> Result<(), ReadError> {
        self.0.fetch_add(bytes, std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }
}

/// Each of the threads takes its charges in turn. Returns the bytes that were admitted.
fn run(limit: u64, threads: &'static [&'static [u64]]) {
    loom::model(move || {
        let gate: &'static Adding = Box::leak(Box::default());
        let limits = Limits { metadata_bytes: limit, ..Limits::default() };
        let budget = Arc::new(Budget::new(&limits, Some(gate)));
        let work = |charges: &'static [u64]| {
            let budget = Arc::clone(&budget);
            thread::spawn(move || {
                let admitted = charges.iter().take_while(|bytes| budget.take("names", **bytes).is_ok());
                admitted.fold(0_u64, |sum, bytes| sum + bytes)
            })
        };
        let running: Vec<_> = threads.iter().map(|charges| work(charges)).collect();
        let admitted: u64 = running.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(admitted <= limit, "{admitted} of {limit}");
        let charged = || gate.0.load(std::sync::atomic::Ordering::SeqCst);
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

fn main() {
    run(100, &[&[60, 30], &[60]]);
    run(100, &[&[50, 50], &[u64::MAX, 1]]);
    run(100, &[&[100], &[u64::MAX], &[1]]);
    run(1 << 30, &[&[60 << 10, 60 << 10], &[60 << 10]]);
    println!("all interleavings of the budget are right");
}
