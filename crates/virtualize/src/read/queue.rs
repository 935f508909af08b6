// The test `threads` of `virtualize-bytes` includes this file.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Items that a thread puts in, and others take out. The bytes of an item count until its work has ended.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    waiting: VecDeque<T>,
    bytes: u64,
    is_finished: bool,
}

/// Finishes a queue when it is dropped, also by a panic. Otherwise the other threads would wait for ever.
pub(super) struct Finish<'a, T>(pub(super) &'a Queue<T>);

impl<T> Drop for Finish<'_, T> {
    fn drop(&mut self) {
        self.0.state().is_finished = true;
        self.0.changed.notify_all();
    }
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        let state = State { waiting: VecDeque::new(), bytes: 0, is_finished: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, item: T, bytes: u64) {
        let mut state = self.state();
        state.bytes += bytes;
        state.waiting.push_back(item);
        drop(state);
        self.changed.notify_one();
    }

    pub(super) fn try_pop(&self) -> Option<T> {
        self.state().waiting.pop_front()
    }

    /// Waits for an item; `None` after the last.
    pub(super) fn pop(&self) -> Option<T> {
        let mut state = self.state();
        loop {
            match state.waiting.pop_front() {
                Some(item) => return Some(item),
                None if state.is_finished => return None,
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Returns the bytes of items whose work has not ended.
    pub(super) fn bytes(&self) -> u64 {
        self.state().bytes
    }

    pub(super) fn release(&self, bytes: u64) {
        self.state().bytes -= bytes;
    }
}
