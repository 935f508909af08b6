//! Clients for HTTP.

use std::{str::FromStr, sync::Arc, time::Duration};

use object_store::{ClientConfigKey as Key, ClientOptions, client::HttpClient};
use reqwest::{
    Certificate, ClientBuilder, NoProxy, Proxy,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};

/// Builds the client that `object_store` would build of these options, with other redirects.
pub(crate) fn client(options: &ClientOptions, redirects: Policy) -> object_store::Result<HttpClient> {
    let said = Said(options);
    let mut builder = ClientBuilder::new().redirect(redirects);
    builder = builder.no_gzip().no_brotli().no_zstd().no_deflate().https_only(!said.flag(Key::AllowHttp)?);
    if let Some(agent) = said.text(Key::UserAgent) {
        builder = builder.user_agent(agent);
    }
    if let Some(headers) = options.get_default_headers() {
        builder = builder.default_headers(headers.clone());
    }
    if said.flag(Key::RandomizeAddresses)? {
        builder = builder.dns_resolver(Arc::new(Shuffled));
    }
    if said.flag(Key::NoSystemCertificates)? {
        builder = builder.tls_certs_only([]);
    }
    builder = said.protocol(said.times(said.proxied(builder)?)?)?;
    let client = builder.danger_accept_invalid_certs(said.flag(Key::AllowInvalidCertificates)?).build();
    client.map(HttpClient::new).map_err(failed)
}

/// Wraps a cause in an error of the client.
fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> object_store::Error {
    object_store::Error::Generic { store: "HTTP client", source: error.into() }
}

/// Typed access to options by key.
struct Said<'a>(&'a ClientOptions);

impl Said<'_> {
    /// Returns an option as text.
    fn text(&self, key: Key) -> Option<String> {
        self.0.get_config_value(&key)
    }

    /// Parses an option; an invalid value is an error.
    fn read<T>(&self, key: Key, read: impl FnOnce(&str) -> Option<T>) -> object_store::Result<Option<T>> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let value = read(&text).ok_or_else(|| failed(format!("{} is {text:?}", key.as_ref())))?;
        Ok(Some(value))
    }

    fn flag(&self, key: Key) -> object_store::Result<bool> {
        let read = |text: &str| match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "on" | "yes" | "y" => Some(true),
            "0" | "false" | "off" | "no" | "n" => Some(false),
            _ => None,
        };
        Ok(self.read(key, read)?.unwrap_or_default())
    }

    fn time(&self, key: Key) -> object_store::Result<Option<Duration>> {
        self.read(key, |text| humantime::parse_duration(text).ok())
    }

    fn number<T: FromStr>(&self, key: Key) -> object_store::Result<Option<T>> {
        self.read(key, |text| text.parse().ok())
    }

    /// Applies the proxy options.
    fn proxied(&self, builder: ClientBuilder) -> object_store::Result<ClientBuilder> {
        let Some(url) = self.text(Key::ProxyUrl) else { return Ok(builder) };
        let mut proxy = Proxy::all(url).map_err(failed)?;
        if let Some(hosts) = self.text(Key::ProxyExcludes) {
            proxy = proxy.no_proxy(NoProxy::from_string(&hosts));
        }
        let builder = builder.proxy(proxy);
        let Some(certificate) = self.text(Key::ProxyCaCertificate) else { return Ok(builder) };
        Ok(builder.tls_certs_merge([Certificate::from_pem(certificate.as_bytes()).map_err(failed)?]))
    }

    /// Applies the timeouts.
    fn times(&self, mut builder: ClientBuilder) -> object_store::Result<ClientBuilder> {
        if let Some(time) = self.time(Key::Timeout)? {
            builder = builder.timeout(time);
        }
        if let Some(time) = self.time(Key::ConnectTimeout)? {
            builder = builder.connect_timeout(time);
        }
        if let Some(time) = self.time(Key::ReadTimeout)? {
            builder = builder.read_timeout(time);
        }
        if let Some(time) = self.time(Key::PoolIdleTimeout)? {
            builder = builder.pool_idle_timeout(time);
        }
        if let Some(time) = self.time(Key::Http2KeepAliveInterval)? {
            builder = builder.http2_keep_alive_interval(time);
        }
        if let Some(time) = self.time(Key::Http2KeepAliveTimeout)? {
            builder = builder.http2_keep_alive_timeout(time);
        }
        Ok(builder)
    }

    /// Applies the connection pool and HTTP/2 options.
    fn protocol(&self, mut builder: ClientBuilder) -> object_store::Result<ClientBuilder> {
        if let Some(most) = self.number(Key::PoolMaxIdlePerHost)? {
            builder = builder.pool_max_idle_per_host(most);
        }
        if let Some(size) = self.number::<u32>(Key::Http2MaxFrameSize)? {
            builder = builder.http2_max_frame_size(size);
        }
        builder = builder.http2_keep_alive_while_idle(self.flag(Key::Http2KeepAliveWhileIdle)?);
        if self.flag(Key::Http1Only)? {
            builder = builder.http1_only();
        }
        if self.flag(Key::Http2Only)? {
            builder = builder.http2_prior_knowledge();
        }
        Ok(builder)
    }
}

/// DNS resolver that shuffles addresses, so that requests spread over a store's servers.
struct Shuffled;

impl Resolve for Shuffled {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let mut found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            fastrand::shuffle(&mut found);
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
