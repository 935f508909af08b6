//! Code that threads share, with all interleavings (loom; `LOOM_MAX_PREEMPTIONS=3` for more). The sources are those of the crates, compiled with loom's
//! primitives in place of std's. They are all tested here, because loom's features would have all dependencies of a larger
//! crate compiled once more.

#![allow(unreachable_pub, dead_code, reason = "the sources are those of libraries")]
#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

mod budget;
mod queue;

/// The standard library, with loom's atomics and locks.
mod instrumented {
    pub(crate) use std::{collections, fmt};
    pub(crate) mod sync {
        pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
        pub(crate) use std::sync::{OnceLock, PoisonError};
        pub(crate) mod atomic {
            pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
        }
    }
}

// What the sources import from their crate.
use virtualize_bytes::{Gate, Limits, ReadError, ReadErrorKind};

/// Runs a test with all interleavings in which threads are interrupted at most twice, or LOOM_MAX_PREEMPTIONS times.
fn all_interleavings(test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(2));
    model.check(test);
}

fn main() {
    budget::test();
    queue::test();
}
