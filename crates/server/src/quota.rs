//! Quotas: the part of each shared resource that one client may use at once, so that no client can exhaust it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    Config, Problem,
    budget::{Budget, Share},
    queue::Departures,
};

/// Number of clients above which the quotas of idle clients are removed.
const CLIENTS: usize = 1024;

/// The limits per client, and the quotas of all clients by name.
#[derive(Debug)]
pub(crate) struct Quotas {
    connections: usize,
    openings: usize,
    memory: (Budget, u64),
    spool: (Budget, u64),
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    quotas: HashMap<String, Arc<Quota>>,
    /// Number of clients at which the quotas of idle clients are removed next.
    sweep: usize,
}

/// The quota of one client.
#[derive(Debug)]
pub(crate) struct Quota {
    /// The client.
    pub(crate) name: Arc<str>,
    connections: Counted,
    /// Connections that ended.
    departures: Mutex<Departures>,
    /// Files that are mapped concurrently for the client.
    openings: Counted,
    /// The client's part of the memory budget.
    pub(crate) memory: Budget,
    /// The client's part of the budget for temporary files.
    pub(crate) spool: Budget,
}

/// A semaphore and its total number of permits.
#[derive(Debug)]
struct Counted {
    free: Arc<Semaphore>,
    all: usize,
}

impl Counted {
    fn new(all: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(all)), all }
    }

    fn is_idle(&self) -> bool {
        self.free.available_permits() == self.all
    }

    fn try_take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }
}

impl Quotas {
    /// Creates the quotas of a configuration. A client may use at most half of the memory, half of the concurrent
    /// mappings, and half of the space for temporary files, or as much of it as one response may need.
    pub(crate) fn new(config: &Config, memory: &Budget, spool: &Budget) -> Self {
        Self {
            connections: config.traffic.client_connections,
            openings: config.traffic.openings.div_ceil(2),
            memory: (memory.clone(), config.memory / 2),
            // Every single response fits.
            spool: (spool.clone(), (config.cache_size / 2).max(config.output_size.min(config.cache_size))),
            table: Mutex::new(Table { quotas: HashMap::new(), sweep: CLIENTS }),
        }
    }

    /// Returns the quota of a client, and creates it for a new one.
    pub(crate) fn of(&self, client: &str) -> Arc<Quota> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(quota) = table.quotas.get(client) {
            return Arc::clone(quota);
        }
        if table.quotas.len() >= table.sweep {
            table.quotas.retain(|_, quota| Arc::strong_count(quota) > 1 || !quota.is_idle());
            table.sweep = table.quotas.len().saturating_mul(2).max(CLIENTS);
        }
        let quota = Arc::new(self.new_quota(client));
        table.quotas.insert(client.to_owned(), Arc::clone(&quota));
        quota
    }

    fn new_quota(&self, client: &str) -> Quota {
        Quota {
            name: client.into(),
            connections: Counted::new(self.connections),
            departures: Mutex::default(),
            openings: Counted::new(self.openings),
            memory: self.memory.0.part(self.memory.1),
            spool: self.spool.0.part(self.spool.1),
        }
    }
}

impl Quota {
    /// Returns whether the client holds none of its resources.
    fn is_idle(&self) -> bool {
        let counted = [&self.connections, &self.openings];
        counted.iter().all(|counted| counted.is_idle()) && self.memory.held() == 0 && self.spool.held() == 0
    }

    /// Reserves a permit for a connection, or returns the time after which one may be free.
    pub(crate) fn connection(self: &Arc<Self>) -> Result<Connection, Option<Duration>> {
        let departures = || self.departures.lock().unwrap_or_else(PoisonError::into_inner);
        match self.connections.try_take() {
            Some(permit) => Ok(Connection { quota: Arc::clone(self), _permit: permit }),
            None => Err(departures().until(1, Instant::now())),
        }
    }

    /// Reserves a permit to map a file, waiting for as long as necessary.
    pub(crate) async fn opening(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let taken = Arc::clone(&self.openings.free).acquire_owned().await;
        taken.map_err(|_| Problem::internal())
    }
}

/// A permit for a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    quota: Arc<Quota>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.quota.departures.lock().unwrap_or_else(PoisonError::into_inner).add(Instant::now());
    }
}

/// The budget shares that a request holds until its response has been sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holds(Arc<Mutex<Vec<Share>>>);

impl Holds {
    /// Holds a share until the response has been sent.
    pub(crate) fn keep(&self, share: Share) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    fn quotas() -> Quotas {
        let allow = vec!["s3://bucket/".to_owned()];
        let settings = Settings { allow, client_connections: Some(2), ..Settings::default() };
        Quotas::new(&settings.check().unwrap(), &Budget::new(1 << 20), &Budget::new(1 << 20))
    }

    #[test]
    fn a_client_has_its_own_connections() {
        let quotas = quotas();
        let (one, other) = (quotas.of("one"), quotas.of("other"));
        let held = [one.connection().unwrap(), one.connection().unwrap()];
        assert_eq!(quotas.of("one").connection().map(drop), Err(None), "no connection has ended yet");
        assert!(other.connection().is_ok());
        drop(held);
        assert!(one.connection().is_ok());
    }

    #[tokio::test]
    async fn clients_without_requests_are_forgotten_and_others_are_not() {
        let quotas = quotas();
        let mut held = vec![quotas.of("busy").connection().unwrap()];
        let share = quotas.of("holding").memory.take(1).await.unwrap();
        for client in 0..100_000 {
            quotas.of(&format!("client {client}"));
        }
        assert!(quotas.table.lock().unwrap().quotas.len() <= CLIENTS);
        held.push(quotas.of("busy").connection().unwrap());
        assert!(quotas.of("busy").connection().is_err(), "what was taken is still known");
        assert!(quotas.of("holding").memory.held() > 0);
        drop((held, share));
    }
}
