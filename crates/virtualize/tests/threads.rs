//! The queue between the thread that fetches chunks and those that decode them, with all interleavings (loom). The source is
//! that of the crate, with loom's primitives in place of std's.
//!
//! - each item is taken once, and each thread ends, also if the one that fetches panics
//! - all bytes are released

#![allow(unreachable_pub, reason = "the source is that of a library")]
#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

use loom::{sync::Arc, thread};

/// The standard library, with loom's locks.
mod instrumented {
    pub(crate) use std::{collections, iter};
    pub(crate) mod sync {
        pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
        pub(crate) use std::sync::PoisonError;
    }
}

mod values {
    pub(crate) mod queue {
        use crate::instrumented as std;
        include!("../src/values/queue.rs");
    }

    /// Two threads help with the items; the first one also takes some, and stops without finishing if it `panics`.
    pub(crate) fn run(items: u32, takes: u32, panics: bool) {
        use super::*;
        loom::model(move || {
            let queue = Arc::new(queue::Queue::new());
            let work = |queue: &queue::Queue<u32>, item: u32| {
                queue.release(u64::from(item));
                item
            };
            let helpers = [(); 2].map(|()| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    std::iter::from_fn(|| queue.pop()).map(|item| work(&queue, item)).collect::<Vec<_>>()
                })
            });
            let mut taken = Vec::new();
            let finish = queue::Finish(&queue);
            for item in 1..=items {
                queue.push(item, u64::from(item));
                if item <= takes {
                    taken.extend(queue.try_pop().map(|item| work(&queue, item)));
                }
            }
            drop(finish);
            if !panics {
                taken.extend(std::iter::from_fn(|| queue.try_pop()).map(|item| work(&queue, item)));
            }
            taken.extend(helpers.into_iter().flat_map(|helper| helper.join().unwrap()));
            taken.sort_unstable();
            assert_eq!(taken, (1..=items).collect::<Vec<_>>());
            assert_eq!(queue.bytes(), 0);
        });
    }
}

fn main() {
    for (items, takes, panics) in [(0, 0, false), (2, 0, false), (2, 2, false), (2, 0, true)] {
        values::run(items, takes, panics);
    }
    println!("all interleavings of the queue are right");
}
