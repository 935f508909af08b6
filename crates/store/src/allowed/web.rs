//! Connections to web servers that reach only the host of the URL, at a permitted address.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
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

/// Returns whether an address belongs to the public network. Rejects loopback, link-local (where clouds serve instance
/// metadata), private and reserved addresses (IANA special-purpose address registries).
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        [0 | 10 | 127 | 224..=255, ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 168, ..]
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
    )
}

/// Accepts global unicast addresses (2000::/3). Addresses that embed an IPv4 address (IPv4-mapped, NAT64, 6to4) are
/// classified by the embedded address; other special-purpose ranges are rejected.
fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(joined(high, low)),
        [0x2002, high, low, ..] => is_public_v4(joined(high, low)),
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Assembles an IPv4 address from two 16-bit groups of an IPv6 address.
fn joined(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_judged_by_what_they_reach() {
        for public in
            ["1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for other in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.1.2.3",
            "169.254.169.254",
            "172.16.0.1",
            "192.168.1.1",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(other.parse().unwrap()), "{other}");
        }
    }
}
