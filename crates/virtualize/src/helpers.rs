//! Threads that help others, limited to the cores of the machine for the whole process.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use futures::channel::oneshot;

/// Helping threads of all runs together.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of cores.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// A share of the helping threads.
pub(crate) struct Helpers(pub(crate) usize);

impl Helpers {
    /// Takes up to `wanted` threads, as long as no more than the cores of the machine are busy.
    pub(crate) fn take(wanted: usize) -> Self {
        let mut taken = 0;
        let take = |busy: usize| {
            taken = wanted.min(cores().saturating_sub(busy));
            Some(busy + taken)
        };
        let _ = BUSY.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        Self(taken)
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        BUSY.fetch_sub(self.0, Ordering::Relaxed);
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Threads that compute for a future, which meanwhile reads. Without threads, the future computes by itself.
pub(crate) struct Workers {
    jobs: Sender<Job>,
    threads: usize,
    _helpers: Helpers,
}

impl Workers {
    /// Starts up to `wanted` threads, which end when the workers are dropped.
    pub(crate) fn start(wanted: usize) -> Self {
        let helpers = Helpers::take(wanted);
        let (jobs, queue) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        let start = |_: &usize| {
            let queue = Arc::clone(&queue);
            thread::Builder::new().spawn(move || work(&queue)).is_ok()
        };
        let threads = (0..helpers.0).filter(start).count();
        Self { jobs, threads, _helpers: helpers }
    }

    /// Returns the number of jobs that keep all threads busy.
    pub(crate) fn jobs(&self) -> usize {
        self.threads.saturating_mul(4).max(1)
    }

    /// Returns the result of `job`; `None` if it panicked. A job that nobody waits for any more is not started.
    pub(crate) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        if self.threads == 0 {
            return Some(job());
        }
        let (done, result) = oneshot::channel();
        let job = move || {
            if !done.is_canceled() {
                drop(done.send(job()));
            }
        };
        self.jobs.send(Box::new(job)).ok()?;
        result.await.ok()
    }
}

fn work(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            Ok(job) => job(),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, executor::block_on, stream};

    use super::*;

    #[test]
    fn results_come_in_order_with_and_without_threads() {
        for wanted in [0, 3] {
            let workers = Workers::start(wanted);
            let jobs = (0..100).map(|n| workers.run(move || n * n));
            let results: Vec<_> = block_on(stream::iter(jobs).buffered(workers.jobs()).collect());
            assert_eq!(results, (0..100).map(|n| Some(n * n)).collect::<Vec<_>>());
        }
    }
}
