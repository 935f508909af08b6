//! Authorization: what a client may do.

/// The set of scopes that a token grants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Scopes {
    pub(crate) read: bool,
    pub(crate) jobs: bool,
    pub(crate) metrics: bool,
    /// Access to the jobs of all clients.
    pub(crate) admin: bool,
}

/// A scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// Sources: references, inspection, Zarr.
    Read,
    /// Jobs.
    Jobs,
    /// Metrics.
    Metrics,
}

impl Scopes {
    /// All scopes.
    pub(crate) const ALL: Self = Self { read: true, jobs: true, metrics: true, admin: true };
    /// Read access only.
    pub(crate) const READ: Self = Self { read: true, jobs: false, metrics: false, admin: false };

    /// Returns whether the set contains a scope.
    pub(crate) fn has(self, scope: Scope) -> bool {
        match scope {
            Scope::Read => self.read,
            Scope::Jobs => self.jobs,
            Scope::Metrics => self.metrics,
        }
    }

    /// Returns the set with one more scope, by its name; `admin` stands for all of them. `None` for an unknown name.
    pub(crate) fn with(self, name: &str) -> Option<Self> {
        match name {
            "read" => Some(Self { read: true, ..self }),
            "jobs" => Some(Self { jobs: true, ..self }),
            "metrics" => Some(Self { metrics: true, ..self }),
            "admin" => Some(Self::ALL),
            _ => None,
        }
    }

    /// Parses comma-separated scopes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.split(',').try_fold(Self::default(), Self::with)
    }
}
