//! The client of a request.

use std::sync::Arc;

use virtualize_store::Allowed;

use crate::{
    auth::Scopes,
    quota::{Holds, Quota},
};

/// The sender of a request, as the guard identified it: an extension of the request.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// Name of the token, or the address.
    pub(crate) name: String,
    pub(crate) scopes: Scopes,
    /// Prefixes that the client may read.
    pub(crate) allowed: Allowed,
    /// Identifies the client's allowed prefixes; part of every cache key.
    pub(crate) access_key: String,
    pub(crate) quota: Arc<Quota>,
    /// Budget shares that are held until the response has been sent.
    pub(crate) holds: Holds,
}
