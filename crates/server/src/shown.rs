//! Versions of sources that were served under URLs without a version. While a version is held, no other one is served
//! under the same URL, by any service that shares the cache. A client that reads metadata from one service and chunks
//! from another thus never mixes two versions.
//!
//! A version is recorded with the time when it was last served, give or take an eighth of the hold time. A record
//! changes only by renewal, or when it has expired, atomically. Between these times a service relies on the copy of the
//! record in its memory.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use moka::future::Cache as Memory;
use serde::{Deserialize, Serialize};

use crate::{Problem, cache::Cache, conditional::tag};

/// Maximum number of records in memory.
const RECORDS: u64 = 100_000;
/// Attempts to write a record that other services change at the same time.
const ATTEMPTS: usize = 10;

/// The records of versions.
#[derive(Debug)]
pub(crate) struct Shown {
    memory: Memory<String, Record>,
    cache: Option<Arc<Cache>>,
    /// Milliseconds after which a record is renewed when its version is served.
    renewal: u64,
    /// Milliseconds after which a record has expired.
    expiry: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Record {
    version: String,
    /// When the version was served, in milliseconds since 1970-01-01T00:00:00Z.
    time: u64,
}

impl Shown {
    /// Creates the records of a service that holds a version for `hold` after it was last served.
    pub(crate) fn new(hold: Duration, cache: Option<Arc<Cache>>) -> Self {
        let expiry = hold.saturating_add(hold / 8);
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            memory: Memory::builder().max_capacity(RECORDS).time_to_live(expiry).build(),
            cache,
            renewal: milliseconds(hold / 8),
            expiry: milliseconds(expiry),
        }
    }

    /// Returns whether a version may be served under a key, and holds it if so.
    pub(crate) async fn may_serve(&self, key: &str, version: &str) -> Result<bool, Problem> {
        let now = now();
        let known = self.memory.get(key).await.filter(|known| !self.has_expired(known, now));
        match &known {
            Some(known) if known.version != version => return Ok(false),
            Some(known) if now.saturating_sub(known.time) < self.renewal => return Ok(true),
            _ => {}
        }
        let held = match &self.cache {
            None => Ok(Record { version: version.to_owned(), time: now }),
            Some(cache) => self.held(cache, key, version, now).await,
        };
        let record = match (held, known) {
            (Ok(record), _) => record,
            // The record cannot change before it expires.
            (Err(_), Some(_)) => return Ok(true),
            (Err(problem), None) => return Err(problem),
        };
        let is_same = record.version == version;
        self.memory.insert(key.to_owned(), record).await;
        Ok(is_same)
    }

    /// Returns the shared record, which is created or renewed for `version` unless it holds another one.
    async fn held(&self, cache: &Cache, key: &str, version: &str, now: u64) -> Result<Record, Problem> {
        let name = tag(&["shown", key]).trim_matches('"').to_owned();
        for _ in 0..ATTEMPTS {
            let read = cache.record(&name).await?;
            let found = read.content().and_then(|content| serde_json::from_slice::<Record>(content).ok());
            if let Some(found) = found {
                let is_fresh = now.saturating_sub(found.time) < self.renewal;
                if (found.version == version && is_fresh)
                    || (found.version != version && !self.has_expired(&found, now))
                {
                    return Ok(found);
                }
            }
            let record = Record { version: version.to_owned(), time: now };
            let text = serde_json::to_vec(&record).map_err(|_| Problem::internal())?;
            if cache.replace(&name, read, text).await? {
                return Ok(record);
            }
        }
        Err(Problem::no_cache())
    }

    fn has_expired(&self, record: &Record, now: u64) -> bool {
        now.saturating_sub(record.time) > self.expiry
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
