//! The queue between the thread that fetches chunks and those that decode them:
//!
//! - each item is taken once, and each thread ends, also if the one that fetches panics
//! - all bytes are released

use loom::{sync::Arc, thread};

pub(crate) fn test() {
    for (items, takes, panics) in [(0, 0, false), (2, 0, false), (2, 2, false), (2, 0, true)] {
        run(items, takes, panics);
    }
}

mod source {
    use crate::instrumented as std;
    include!("../../../virtualize/src/read/queue.rs");
}

use source::{Finish, Queue};

/// Two threads work on items. A third one puts items in, and takes some out, and all that are left unless it `panics`.
fn run(items: u32, takes: u32, panics: bool) {
    crate::all_interleavings(move || {
        let queue = Arc::new(Queue::new());
        let work = |queue: &Queue<u32>, item: u32| {
            queue.release(u64::from(item));
            item
        };
        let helpers = [(); 2].map(|()| {
            let queue = Arc::clone(&queue);
            let items =
                move || std::iter::from_fn(|| queue.pop()).map(|item| work(&queue, item)).collect::<Vec<_>>();
            thread::spawn(items)
        });
        let mut taken = Vec::new();
        let finish = Finish(&queue);
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
