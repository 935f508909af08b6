//! Connections to web servers that reach only the host of the URL, at a permitted address.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use object_store::client::HttpClient;
use reqwest::{
    Client,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};

use super::address::is_public;

/// Creates the client on first use and shares it, so that connections are reused.
#[derive(Clone, Debug)]
pub(super) struct Web {
    client: Arc<OnceLock<Client>>,
    resolver: Resolver,
}

impl Web {
    /// Creates a factory; `localhost` states whether a prefix names that host.
    pub(super) fn new(localhost: bool) -> Self {
        Self { client: Arc::default(), resolver: Resolver { localhost } }
    }

    /// Returns the client for `object_store`.
    pub(super) fn client(&self) -> object_store::Result<HttpClient> {
        let failed = |error| object_store::Error::Generic { store: "HTTP", source: Box::new(error) };
        self.shared().map(HttpClient::new).map_err(failed)
    }

    /// Posts a body, and returns the status.
    pub(super) async fn post(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> reqwest::Result<u16> {
        let request = self.shared()?.post(url).body(body);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        Ok(request.send().await?.status().as_u16())
    }

    /// Returns the client. It follows no redirects, and uses no proxy, since a proxy resolves names itself.
    fn shared(&self) -> reqwest::Result<Client> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let client = Client::builder()
            .user_agent(concat!("virtualize/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .no_proxy()
            .dns_resolver(Arc::new(self.resolver))
            .connect_timeout(Duration::from_secs(10))
            .read_timeout(Duration::from_secs(30))
            .timeout(Duration::from_secs(600))
            .build()?;
        Ok(self.client.get_or_init(|| client).clone())
    }
}

/// DNS resolver that returns only permitted addresses. The client connects to the addresses that were checked, so that
/// a second DNS answer cannot substitute others. Hosts given as IP addresses bypass it: a prefix must name them.
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
