//! File descriptors: at startup the service raises its limit to what it may need, and reserves a part that connections
//! cannot use.

use crate::{Config, ConfigError};

/// Descriptors of the process itself: log, runtime, cache.
const OWN: usize = 64;
/// Descriptors per request that is worked on: its source, and connections to it.
const REQUEST: usize = 3;
/// Descriptors per connection: its socket, and the file that holds the response.
const CONNECTION: usize = 2;
/// Descriptors of cached responses.
const KEPT: usize = 256;
/// Minimum number of connections that the service starts with.
const FEWEST: usize = 8;

impl Config {
    /// Raises the process's limit of descriptors as needed, and reduces the number of connections to what the limit
    /// allows.
    pub(crate) fn with_descriptors(self) -> Result<Self, ConfigError> {
        let (reserved, connections) = (self.reserved(), self.traffic.connections);
        match limit(reserved.saturating_add(connections.saturating_mul(CONNECTION))) {
            Some(limit) => self.within(limit),
            None => Ok(self),
        }
    }

    /// Returns the number of descriptors reserved for everything except connections.
    fn reserved(&self) -> usize {
        let requests = self.traffic.concurrent.saturating_mul(REQUEST);
        [OWN, KEPT, self.sources_kept, requests].into_iter().fold(0, usize::saturating_add)
    }

    /// Reduces the default number of connections to what a limit of descriptors allows. Fails if the number was
    /// configured explicitly, or if too few connections would be left.
    fn within(mut self, limit: usize) -> Result<Self, ConfigError> {
        let reserved = self.reserved();
        let most = limit.saturating_sub(reserved) / CONNECTION;
        if self.traffic.connections <= most {
            return Ok(self);
        }
        if self.traffic.is_connections_given || most < FEWEST {
            let connections = self.traffic.connections;
            return Err(ConfigError::Descriptors { connections, reserved, limit, most });
        }
        self.traffic.connections = most;
        self.traffic.client_connections = self.traffic.client_connections.min(most.div_ceil(2));
        Ok(self)
    }
}

/// Raises the soft limit of descriptors to `needed` where the hard limit allows, and returns the resulting limit.
#[cfg(unix)]
fn limit(needed: usize) -> Option<usize> {
    use rlimit::Resource;
    let needed = u64::try_from(needed).unwrap_or(u64::MAX);
    let (soft, hard) = rlimit::getrlimit(Resource::NOFILE).ok()?;
    let wanted = needed.min(hard);
    let has = if wanted > soft && rlimit::setrlimit(Resource::NOFILE, wanted, hard).is_ok() {
        wanted
    } else {
        soft
    };
    Some(usize::try_from(has).unwrap_or(usize::MAX))
}

/// Returns no limit: other systems have none to raise.
#[cfg(not(unix))]
fn limit(_needed: usize) -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use crate::Settings;

    #[test]
    fn connections_are_what_descriptors_allow() {
        let settings = Settings { allow: vec!["s3://bucket/".to_owned()], ..Settings::default() };
        let usual = settings.check().unwrap();
        let (reserved, wanted) = (usual.reserved(), usual.traffic.connections);
        assert_eq!(usual.within(reserved + 2 * wanted).unwrap().traffic.connections, wanted);
        let fewer = settings.check().unwrap().within(reserved + 200).unwrap();
        assert_eq!((fewer.traffic.connections, fewer.traffic.client_connections), (100, 50));
        assert!(settings.check().unwrap().within(reserved + 1).is_err());
        let given = Settings { connections: Some(500), ..settings };
        assert_eq!(given.check().unwrap().within(reserved + 1000).unwrap().traffic.connections, 500);
        let refused = given.check().unwrap().within(reserved + 999).map(drop).unwrap_err().to_string();
        assert!(refused.contains("--connections 500") && refused.contains("at most 499"), "{refused}");
    }
}
