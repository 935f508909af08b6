//! Panics of a library, turned into values.

use std::panic::{self, AssertUnwindSafe};

/// Runs a function and returns `None` if it panics. The panic hook of the process reports the panic as any other.
///
/// The `parquet` crate panics on some damaged files that pass the checks of this crate.
pub fn caught<T>(run: impl FnOnce() -> T) -> Option<T> {
    panic::catch_unwind(AssertUnwindSafe(run)).ok()
}
