use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Number of latest round trips of which the shortest counts, so that neither the set-up of connections nor a busy
/// processor passes for latency.
const RECENT: usize = 16;
/// Size in bytes up to which a response measures the latency, and from which on it measures a connection.
const SMALL: u64 = 64 << 10;
/// Size in bytes from which on concurrent responses measure the line.
const LARGE: u64 = 4 << 20;

/// What requests to a host cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Estimate {
    /// Time from a request to the first byte of its response.
    pub(crate) latency: Duration,
    /// Bandwidth of one connection in bytes per second.
    pub(crate) connection: u64,
    /// Bandwidth of all connections together in bytes per second.
    pub(crate) line: u64,
}

impl Estimate {
    /// An object store as seen from the same region, before anything is measured.
    const INITIAL: Self = Self { latency: Duration::from_millis(30), connection: 50 << 20, line: 256 << 20 };

    /// Returns how many bytes one connection transfers while a request waits for its first byte.
    pub(crate) fn bytes_per_connection(self) -> u64 {
        bytes_in(self.connection, self.latency)
    }

    /// Returns how many bytes all connections together transfer in that time.
    pub(crate) fn bytes_per_line(self) -> u64 {
        bytes_in(self.line, self.latency)
    }
}

/// Returns the bytes transferred at a rate in bytes per second.
fn bytes_in(rate: u64, time: Duration) -> u64 {
    (u128::from(rate) * time.as_nanos() / 1_000_000_000).try_into().unwrap_or(u64::MAX)
}

/// Returns the rate in bytes per second at which bytes were transferred.
fn rate_of(bytes: u64, time: Duration) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / time.as_nanos().max(1)).try_into().unwrap_or(u64::MAX)
}

/// Measures the latency and bandwidth of a host from its responses.
#[derive(Debug)]
pub(crate) struct Network(Mutex<Measured>);

#[derive(Debug)]
struct Measured {
    estimate: Estimate,
    /// Latest times until a first byte, oldest first.
    latencies: VecDeque<Duration>,
}

impl Default for Network {
    fn default() -> Self {
        Self(Mutex::new(Measured { estimate: Estimate::INITIAL, latencies: VecDeque::new() }))
    }
}

impl Network {
    /// Returns the present estimate.
    pub(crate) fn estimate(&self) -> Estimate {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).estimate
    }

    /// Records a response: its size in bytes, and the times until its first byte and from there to its last.
    pub(crate) fn response(&self, bytes: u64, first: Duration, rest: Duration) {
        let mut measured = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes <= SMALL {
            measured.latencies.push_back(first);
            if measured.latencies.len() > RECENT {
                measured.latencies.pop_front();
            }
            measured.estimate.latency = measured.latencies.iter().min().copied().unwrap_or(first);
        } else if !rest.is_zero() {
            let rate = rate_of(bytes, rest);
            measured.estimate.connection = measured.estimate.connection.midpoint(rate);
        }
    }

    /// Records concurrent responses: their size in bytes, and the time until the last one was complete. A short
    /// transfer can only raise the estimate, since it may not fill the line.
    pub(crate) fn wave(&self, bytes: u64, elapsed: Duration) {
        let mut measured = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let estimate = &mut measured.estimate;
        let transfer = elapsed.saturating_sub(estimate.latency);
        if bytes < LARGE || transfer.is_zero() {
            return;
        }
        let rate = rate_of(bytes, transfer);
        let fills_line = bytes / 2 > estimate.bytes_per_line();
        if rate > estimate.line || fills_line {
            estimate.line = estimate.line.midpoint(rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Duration = Duration::ZERO;

    #[test]
    fn the_shortest_recent_round_trip_is_the_latency() {
        let network = Network::default();
        for milliseconds in [90, 8, 12] {
            network.response(1000, Duration::from_millis(milliseconds), ZERO);
        }
        assert_eq!(network.estimate().latency, Duration::from_millis(8));
        for _ in 0..RECENT {
            network.response(1000, Duration::from_millis(20), ZERO);
        }
        assert_eq!(network.estimate().latency, Duration::from_millis(20), "the host has become slower");
    }

    #[test]
    fn large_responses_measure_the_connection() {
        let network = Network::default();
        for _ in 0..20 {
            network.response(1_000_000, Duration::from_millis(500), Duration::from_millis(100));
        }
        let Estimate { latency, connection, .. } = network.estimate();
        assert_eq!(latency, Estimate::INITIAL.latency, "servers may delay the start of large responses");
        assert!(connection.abs_diff(10_000_000) < 100, "{connection}");
    }

    #[test]
    fn long_transfers_measure_the_line() {
        let network = Network::default();
        network.wave(LARGE, Duration::from_secs(3600));
        assert_eq!(network.estimate().line, Estimate::INITIAL.line, "too short to fill the line");
        for _ in 0..20 {
            network.wave(100_000_000, Duration::from_millis(2030));
        }
        assert!(network.estimate().line.abs_diff(50_000_000) < 1000);
        for _ in 0..20 {
            network.wave(LARGE, Duration::from_millis(34));
        }
        assert!(network.estimate().line > 500_000_000, "it is faster than it seemed");
    }
}
