//! The client of a request.

use std::{ops::Deref, sync::Arc};

use sha2::{Digest, Sha256};
use virtualize_store::Allowed;

use crate::{
    auth::Scopes,
    conditional::hexadecimal,
    quota::{Holds, Quota},
};

/// The access key of clients that may read everything that the service allows.
pub(crate) const EVERYTHING: &str = "all";

/// Returns the access key of clients that may read these prefixes only.
pub(crate) fn access_key(prefixes: &Allowed) -> String {
    let mut urls = prefixes.prefixes();
    urls.sort_unstable();
    urls.dedup();
    format!("prefixes {}", hexadecimal(&Sha256::digest(urls.join("\n")), 12))
}

/// Who a client is, and what it may do.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Identifies the client in logs and quotas: an address, `token` and the start of the
    /// token's digest, or the issuer and subject of a JWT.
    pub(crate) name: String,
    pub(crate) scopes: Scopes,
    /// Prefixes that the client may read.
    pub(crate) allowed: Allowed,
    /// Identifies the client's allowed prefixes; part of every cache key.
    pub(crate) access_key: String,
}

/// The sender of a request, as the guard identified it: an extension of the request.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) identity: Arc<Identity>,
    pub(crate) quota: Arc<Quota>,
    /// Budget shares that are held until the response has been sent.
    pub(crate) holds: Holds,
}

impl Deref for Client {
    type Target = Identity;

    fn deref(&self) -> &Identity {
        &self.identity
    }
}
