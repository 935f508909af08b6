//! Requests spread over several clients, each with connections of its own.

use std::sync::Arc;

use object_store::{ClientConfigKey, ClientOptions, client::HttpClient};

/// Number of clients where HTTP/2 may be used. A client then has one connection to a server, whose throughput is limited:
/// by its flow-control window, by its congestion window, and by what the service grants a connection.
const LANES: usize = 8;

/// Clients that share the requests to a server.
#[derive(Debug)]
pub(crate) struct Lanes {
    first: Lane,
    others: Vec<Lane>,
}

#[derive(Debug)]
struct Lane {
    client: HttpClient,
    load: Load,
}

/// A request in flight. The number of clones is the load of a client.
pub(crate) type Load = Arc<()>;

impl Lanes {
    /// Connects as many clients as the options need.
    pub(crate) fn new(
        options: &ClientOptions,
        connect: impl Fn() -> object_store::Result<HttpClient>,
    ) -> object_store::Result<Self> {
        let others = if may_use_http2(options) { LANES - 1 } else { 0 };
        let lane = || Ok(Lane { client: connect()?, load: Load::default() });
        let others = (0..others).map(|_| lane()).collect::<object_store::Result<_>>()?;
        Ok(Self { first: lane()?, others })
    }

    /// Returns the client with the fewest requests in flight, the first of several. The request ends when the load is
    /// dropped.
    pub(crate) fn least_loaded(&self) -> (&HttpClient, Load) {
        let load = |lane: &Lane| Arc::strong_count(&lane.load);
        let least = |one, other| if load(other) < load(one) { other } else { one };
        let lane = self.others.iter().fold(&self.first, least);
        (&lane.client, Load::clone(&lane.load))
    }
}

/// One client alone.
impl From<HttpClient> for Lanes {
    fn from(client: HttpClient) -> Self {
        Self { first: Lane { client, load: Load::default() }, others: Vec::new() }
    }
}

/// Returns whether servers are offered HTTP/2, which takes TLS.
fn may_use_http2(options: &ClientOptions) -> bool {
    let is_set = |key| options.get_config_value(&key).is_some_and(|value| value == "true");
    !is_set(ClientConfigKey::Http1Only) && !is_set(ClientConfigKey::AllowHttp)
}
