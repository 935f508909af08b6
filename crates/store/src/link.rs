use std::sync::Arc;

use bytes::Bytes;
use object_store::{Error, GetOptions, GetResult, ObjectMeta, ObjectStore, path::Path};

use crate::{
    StoreError, StoreOptions,
    clients::{Clients, Pool, Tries},
    connect::connect,
    location::Location,
    meter::Meter,
};

/// The way to an object behind a network: where it lies, and a share of the connections.
#[derive(Debug)]
pub(crate) struct Link {
    store: Arc<dyn ObjectStore>,
    path: Path,
    /// For messages.
    pub(crate) name: String,
    pool: Arc<Pool>,
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The store does not send parts of objects.
    NoRanges,
    /// The range starts behind the end of the object.
    PastEnd(StoreError),
    /// Anything else.
    Other(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Other(error)
    }
}

impl Failure {
    /// The error to report.
    pub(crate) fn described(self, link: &Link) -> StoreError {
        match self {
            Self::NoRanges => link.unavailable("the server no longer sends parts of the file".to_owned()),
            Self::PastEnd(error) | Self::Other(error) => error,
        }
    }
}

impl Link {
    pub(crate) fn new(location: &Location, options: &StoreOptions) -> Result<Self, StoreError> {
        let (store, path) = connect(location, options)?;
        Ok(Self { store, path, name: location.name(), pool: Clients::pool(options) })
    }

    /// One request, with all bytes of its answer. `accept` looks at the answer's head before its bytes are waited for.
    pub(crate) async fn get(
        &self,
        mut options: GetOptions,
        meter: &Meter,
        accept: impl FnOnce(&ObjectMeta) -> Result<(), StoreError>,
    ) -> Result<(ObjectMeta, Bytes), Failure> {
        let _slot = self.pool.slot(&self.name).await?;
        let tries = Tries::default();
        options.extensions.insert(tries.clone());
        let got = self.got(options, accept).await;
        meter.retried(tries.again());
        if let Ok((_, bytes)) = &got {
            meter.request(bytes.len() as u64);
        }
        got
    }

    async fn got(
        &self,
        options: GetOptions,
        accept: impl FnOnce(&ObjectMeta) -> Result<(), StoreError>,
    ) -> Result<(ObjectMeta, Bytes), Failure> {
        let result = self.store.get_opts(&self.path, options).await.map_err(|error| self.failure(&error))?;
        accept(&result.meta)?;
        let meta = result.meta.clone();
        Ok((meta, self.body(result).await?))
    }

    /// The bytes of an answer, all of them.
    async fn body(&self, result: GetResult) -> Result<Bytes, StoreError> {
        let expected = result.range.end.saturating_sub(result.range.start);
        let bytes = result.bytes().await.map_err(|error| StoreError::remote(&self.name, &error))?;
        if bytes.len() as u64 != expected {
            return Err(
                self.unavailable(format!("the server sent {} bytes, expected {expected}", bytes.len()))
            );
        }
        Ok(bytes)
    }

    fn failure(&self, error: &Error) -> Failure {
        let described = StoreError::remote(&self.name, error);
        match error {
            Error::NotSupported { .. } => Failure::NoRanges,
            error if error.to_string().contains("416 ") => Failure::PastEnd(described),
            _ => Failure::Other(described),
        }
    }

    pub(crate) fn changed(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Changed { name: self.name.clone(), reason: reason.into() }
    }

    pub(crate) fn unavailable(&self, reason: String) -> StoreError {
        StoreError::Unavailable { name: self.name.clone(), reason }
    }
}
