//! Authorization: what a client may do.

/// The set of scopes that a token grants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Scopes {
    pub(crate) read: bool,
    pub(crate) metrics: bool,
}

/// A scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// Sources: references, inspection, Zarr.
    Read,
    /// Metrics.
    Metrics,
}

impl Scopes {
    /// All scopes.
    pub(crate) const ALL: Self = Self { read: true, metrics: true };
    /// Read access only.
    pub(crate) const READ: Self = Self { read: true, metrics: false };

    /// Returns whether the set contains a scope.
    pub(crate) fn has(self, scope: Scope) -> bool {
        match scope {
            Scope::Read => self.read,
            Scope::Metrics => self.metrics,
        }
    }

    /// Returns the set with one more scope, by its name. `None` for an unknown name.
    pub(crate) fn with(self, name: &str) -> Option<Self> {
        match name {
            "read" => Some(Self { read: true, ..self }),
            "metrics" => Some(Self { metrics: true, ..self }),
            _ => None,
        }
    }

    /// Parses comma-separated scopes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.split(',').try_fold(Self::default(), Self::with)
    }
}
