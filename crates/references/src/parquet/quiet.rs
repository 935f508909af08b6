//! Panics of a library that are no message to anyone.

use std::{
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a function that may panic; `None` where it does, without a word on standard error. Panics elsewhere are told as
/// before: the process's hook stays, behind one that is silent for this thread meanwhile.
pub(super) fn quietly<T>(run: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let told = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                told(panic);
            }
        }));
    });
    let before = QUIET.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(run)).ok();
    QUIET.set(before);
    done
}
