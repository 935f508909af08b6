//! The rate limit of clients: the generic cell rate algorithm (ITU-T I.371, appendix I) over a table of fixed size.
//! The cost of a request does not depend on the number of clients, and the state of a client is never evicted.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Slots of the table. Clients whose names hash to the same slot share its rate. The hash is randomly keyed, so that a
/// client cannot choose whose slot it shares.
const SLOTS: usize = 1 << 17;

/// The rate limit of all clients.
#[derive(Debug)]
pub(crate) struct Rate {
    /// Nanoseconds between two requests at the steady rate.
    interval: u64,
    /// Duration of a full burst at the steady rate, in nanoseconds.
    burst: u64,
    start: Instant,
    hasher: RandomState,
    /// Theoretical arrival time of each slot, in nanoseconds since `start`.
    rested: Box<[AtomicU64]>,
}

impl Rate {
    /// Creates a limit of `rate` requests a second on average, and of `burst` requests at once after a pause.
    pub(crate) fn new(rate: u32, burst: u32) -> Self {
        let interval = 1_000_000_000_u64.checked_div(u64::from(rate)).unwrap_or(u64::MAX).max(1);
        Self {
            interval,
            burst: interval.saturating_mul(u64::from(burst.max(1))),
            start: Instant::now(),
            hasher: RandomState::new(),
            rested: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Admits a request, or returns the time to wait before the next one is admitted.
    pub(crate) fn take(&self, client: &str, now: Instant) -> Result<(), Duration> {
        let now = now.saturating_duration_since(self.start).as_nanos();
        let now = u64::try_from(now).unwrap_or(u64::MAX);
        let slot = usize::try_from(self.hasher.hash_one(client) % SLOTS as u64).unwrap_or_default();
        let Some(slot) = self.rested.get(slot) else { return Ok(()) };
        let booked = |rested: u64| rested.max(now).saturating_add(self.interval);
        let latest = now.saturating_add(self.burst);
        let update = |rested: u64| Some(booked(rested)).filter(|booked| *booked <= latest);
        match slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update) {
            Ok(_) => Ok(()),
            Err(rested) => Err(Duration::from_nanos(booked(rested).saturating_sub(latest))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_waits_when_its_burst_is_used_up() {
        let rate = Rate::new(2, 3);
        let start = Instant::now();
        for _ in 0..3 {
            assert_eq!(rate.take("a", start), Ok(()));
        }
        assert_eq!(rate.take("a", start), Err(Duration::from_millis(500)));
        assert_eq!(rate.take("b", start), Ok(()));
        assert_eq!(rate.take("a", start + Duration::from_millis(500)), Ok(()));
        assert!(rate.take("a", start + Duration::from_millis(600)).is_err());
    }

    /// A client that used up its burst stays refused, regardless of the number of other clients.
    #[test]
    fn many_clients_do_not_free_one_that_is_refused() {
        let rate = Rate::new(1, 2);
        let start = Instant::now();
        while rate.take("greedy", start).is_ok() {}
        for client in 0..300_000 {
            let _ = rate.take(&format!("client {client}"), start);
            assert!(client % 10_000 > 0 || rate.take("greedy", start).is_err(), "after {client} clients");
        }
        assert_eq!(rate.take("greedy", start + Duration::from_secs(400_000)), Ok(()));
    }

    /// Compares the limit with a model in exact fractions: a token bucket that refills steadily.
    #[test]
    fn permits_are_those_of_a_bucket() {
        let (mut state, rate, burst) = (0x9e37_79b9_u64, 4_u64, 5_u64);
        let limit = Rate::new(4, 5);
        let (start, mut at, mut quarters) = (Instant::now(), 0_u64, burst * 250);
        for _ in 0..5000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let pause = state % 400;
            at += pause;
            quarters = (quarters + pause).min(burst * 250);
            let expected = quarters >= 250;
            let taken = limit.take("a", start + Duration::from_millis(at)).is_ok();
            assert_eq!(taken, expected, "at {at} ms");
            quarters -= if taken { 250 } else { 0 };
        }
        assert_eq!(rate, 4);
    }
}
