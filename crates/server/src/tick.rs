//! A timeout for clients that counts only the time during which the service runs. It is divided into ticks, and each
//! tick starts when the service notices the end of the previous one. While all threads are busy, or the operating
//! system does not schedule the process, at most one tick elapses. A client is therefore not disconnected for delays
//! of the service itself.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

/// Number of ticks of a timeout.
const TICKS: u32 = 8;

/// A timeout as a future.
#[derive(Debug)]
pub(crate) struct Ticks {
    sleep: Pin<Box<Sleep>>,
    tick: Duration,
    left: u32,
}

impl Ticks {
    /// Creates a timeout of this duration.
    pub(crate) fn new(time: Duration) -> Self {
        let tick = time / TICKS;
        Self { sleep: Box::pin(sleep(tick)), tick, left: TICKS }
    }
}

impl Future for Ticks {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<()> {
        while self.left > 0 {
            ready!(self.sleep.as_mut().poll(task));
            self.left -= 1;
            let next = Instant::now() + self.tick;
            self.sleep.as_mut().reset(next);
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn time_in_which_nothing_runs_is_one_tick() {
        let (start, time) = (Instant::now(), Duration::from_millis(400));
        let mut ticks = Box::pin(Ticks::new(time));
        assert!(futures::poll!(&mut ticks).is_pending());
        // Blocks the only thread of the runtime.
        std::thread::sleep(Duration::from_secs(2));
        assert!(futures::poll!(&mut ticks).is_pending(), "it was not waited for");
        ticks.await;
        assert!(start.elapsed() >= Duration::from_secs(2) + time * (TICKS - 2) / TICKS);
    }
}
