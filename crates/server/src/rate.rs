//! Rate limits of clients: the generic cell rate algorithm (ITU-T I.371, appendix I) over a table of fixed size. The cost
//! of a request does not depend on the number of clients, and the state of a client is never evicted.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Slots of the table. Clients whose names hash to the same slot share its rate. The hash is randomly keyed, so that a
/// client cannot choose whose slot it shares.
const SLOTS: usize = 1 << 17;
const SECOND: u64 = 1_000_000_000;

/// The rate limit of all clients, in units such as requests.
#[derive(Debug)]
pub(crate) struct Rate {
    /// Units per second at the steady rate.
    rate: u64,
    /// Duration of a full burst at the steady rate, in nanoseconds.
    burst: u64,
    start: Instant,
    hasher: RandomState,
    /// Theoretical arrival time of each slot, in nanoseconds since `start`.
    rested: Box<[AtomicU64]>,
}

impl Rate {
    /// Creates a limit of `rate` units a second on average, and of `burst` units at once after a pause.
    pub(crate) fn new(rate: u64, burst: u64) -> Self {
        let mut this = Self {
            rate: rate.max(1),
            burst: 0,
            start: Instant::now(),
            hasher: RandomState::new(),
            rested: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        };
        this.burst = this.cost(burst.max(1));
        this
    }

    /// Returns the time of units at the steady rate, in nanoseconds.
    fn cost(&self, units: u64) -> u64 {
        let cost = u128::from(units) * u128::from(SECOND) / u128::from(self.rate);
        u64::try_from(cost).unwrap_or(u64::MAX).max(1)
    }

    fn slot(&self, client: &str) -> Option<&AtomicU64> {
        let slot = usize::try_from(self.hasher.hash_one(client) % SLOTS as u64).unwrap_or_default();
        self.rested.get(slot)
    }

    fn nanoseconds(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Admits one unit, or returns the time to wait before the next one is admitted.
    pub(crate) fn take(&self, client: &str, now: Instant) -> Result<(), Duration> {
        let (now, cost) = (self.nanoseconds(now), self.cost(1));
        let Some(slot) = self.slot(client) else { return Ok(()) };
        let booked = |rested: u64| rested.max(now).saturating_add(cost);
        let latest = now.saturating_add(self.burst);
        let update = |rested: u64| Some(booked(rested)).filter(|booked| *booked <= latest);
        match slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update) {
            Ok(_) => Ok(()),
            Err(rested) => Err(Duration::from_nanos(booked(rested).saturating_sub(latest))),
        }
    }

    /// Counts units that were used, even beyond the limit.
    pub(crate) fn charge(&self, client: &str, units: u64, now: Instant) {
        let (now, cost) = (self.nanoseconds(now), self.cost(units));
        let Some(slot) = self.slot(client) else { return };
        let booked = |rested: u64| Some(rested.max(now).saturating_add(cost));
        let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, booked);
    }

    /// Returns the time to wait, if a client has used more than the limit.
    pub(crate) fn debt(&self, client: &str, now: Instant) -> Option<Duration> {
        let latest = self.nanoseconds(now).saturating_add(self.burst);
        let rested = self.slot(client)?.load(Ordering::Relaxed);
        (rested > latest).then(|| Duration::from_nanos(rested - latest))
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

    #[test]
    fn units_that_were_used_are_a_debt() {
        let bytes = Rate::new(1000, 60_000);
        let start = Instant::now();
        bytes.charge("a", 60_000, start);
        assert_eq!(bytes.debt("a", start), None);
        bytes.charge("a", 5_000, start);
        assert_eq!((bytes.debt("a", start), bytes.debt("b", start)), (Some(Duration::from_secs(5)), None));
        assert_eq!(bytes.debt("a", start + Duration::from_secs(5)), None);
        // Rates beyond one unit in a nanosecond are kept too.
        let fast = Rate::new(4 * SECOND, 1);
        fast.charge("a", 8 * SECOND + 4, start);
        assert_eq!(fast.debt("a", start), Some(Duration::from_secs(2)));
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
