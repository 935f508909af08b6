//! Panics of a library, turned into values.

use std::{
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a function and returns `None` if it panics, without a message on standard error.
///
/// Panics elsewhere are reported as before: the process's hook is wrapped by one that is silent only for this thread,
/// and only while the function runs.
pub fn quietly<T>(run: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                previous(panic);
            }
        }));
    });
    let before = QUIET.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(run)).ok();
    QUIET.set(before);
    done
}
