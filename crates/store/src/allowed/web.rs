//! Connections to web servers that go where the url says, and nowhere else.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use object_store::client::HttpClient;
use reqwest::{
    Client,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};

use super::address::is_public;

/// Makes one client, which keeps its connections.
#[derive(Clone, Debug)]
pub(super) struct Web {
    client: Arc<OnceLock<HttpClient>>,
    resolver: Resolver,
}

impl Web {
    /// `localhost`: whether a prefix names that host.
    pub(super) fn new(localhost: bool) -> Self {
        Self { client: Arc::default(), resolver: Resolver { localhost } }
    }

    /// The client. It follows no redirect and uses no proxy, which would resolve names by itself.
    pub(super) fn client(&self) -> object_store::Result<HttpClient> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let built = Client::builder()
            .user_agent(concat!("virtualize/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .no_proxy()
            .dns_resolver(Arc::new(self.resolver))
            .connect_timeout(Duration::from_secs(10))
            .read_timeout(Duration::from_secs(30))
            .timeout(Duration::from_secs(600))
            .build();
        let client =
            built.map_err(|error| object_store::Error::Generic { store: "HTTP", source: Box::new(error) })?;
        Ok(self.client.get_or_init(|| HttpClient::new(client)).clone())
    }
}

/// Hands over the addresses of a name that may be connected to. The connection goes to one of these, so that a second
/// answer cannot be another than the one that was looked at. Hosts that are addresses do not come here: a prefix names
/// them.
#[derive(Clone, Copy, Debug)]
struct Resolver {
    localhost: bool,
}

impl Resolver {
    fn is_allowed(self, name: &str, address: SocketAddr) -> bool {
        is_public(address.ip()) || (self.localhost && name == "localhost" && address.ip().is_loopback())
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let this = *self;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let kept: Vec<SocketAddr> =
                found.filter(|address| this.is_allowed(name.as_str(), *address)).collect();
            if kept.is_empty() {
                let reason =
                    "the host's addresses are not of the public network, and no allowed prefix names them";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason).into());
            }
            Ok(Box::new(kept.into_iter()) as Addrs)
        })
    }
}
