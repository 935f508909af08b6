//! File descriptors: as many as the service may need are asked for when it starts, and kept apart from connections.

use crate::{Config, ConfigError};

/// Of the process itself: its log, the runtime, the cache, the journal.
const OWN: usize = 64;
/// Of a request: its source and a connection to it, and the file that its answer is kept in.
const REQUEST: usize = 4;
/// Of a job, and of a file that it reads.
const JOB: usize = 16;
const JOB_FILE: usize = 4;
/// Of answers that are kept.
const KEPT: usize = 256;
/// Fewest connections with which a service is of use.
const FEWEST: usize = 8;

impl Config {
    /// Asks the system for enough descriptors.
    pub(crate) fn with_descriptors(self) -> Result<Self, ConfigError> {
        let (reserved, connections) = (self.reserved(), self.traffic.connections);
        match limit(reserved.saturating_add(connections)) {
            Some(limit) => self.within(limit),
            None => Ok(self),
        }
    }

    /// Descriptors for all but connections.
    fn reserved(&self) -> usize {
        let jobs = match self.jobs {
            Some(_) => self
                .job_limits
                .running
                .saturating_mul(JOB.saturating_add(self.job_limits.openings.saturating_mul(JOB_FILE))),
            None => 0,
        };
        let requests = self.traffic.concurrent.saturating_mul(REQUEST);
        [OWN, KEPT, self.sources_kept, requests, jobs].into_iter().fold(0, usize::saturating_add)
    }

    /// With no more connections than there are descriptors.
    fn within(mut self, limit: usize) -> Result<Self, ConfigError> {
        let reserved = self.reserved();
        let most = limit.saturating_sub(reserved);
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

/// The number of descriptors that the process may have, raised to what it needs where that is possible.
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
        assert_eq!(usual.within(reserved + wanted).unwrap().traffic.connections, wanted);
        let fewer = settings.check().unwrap().within(reserved + 100).unwrap();
        assert_eq!((fewer.traffic.connections, fewer.traffic.client_connections), (100, 50));
        assert!(settings.check().unwrap().within(reserved + 1).is_err());
        let given = Settings { connections: Some(500), ..settings };
        assert_eq!(given.check().unwrap().within(reserved + 500).unwrap().traffic.connections, 500);
        let refused = given.check().unwrap().within(reserved + 499).map(drop).unwrap_err().to_string();
        assert!(refused.contains("--connections 500") && refused.contains("at most 499"), "{refused}");
    }
}
