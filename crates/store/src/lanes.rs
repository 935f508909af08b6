//! Requests spread over several clients, each with connections of its own.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use object_store::{ClientConfigKey, ClientOptions, client::HttpClient};

/// Number of clients where HTTP/2 may be used. A client then has one connection to a server, whose throughput is limited:
/// by its flow-control window, by its congestion window, and by what the service grants a connection.
const LANES: usize = 8;

/// Number of requests in flight at which another client is connected. A client takes a millisecond or two to build, mostly for
/// the certificates, and many commands send few requests.
const BUSY: usize = 2;

/// Clients that share the requests to a server.
pub(crate) struct Lanes {
    first: Lane,
    others: Mutex<Vec<Lane>>,
    /// Number of other clients at most.
    most: usize,
    connect: Connect,
}

/// Connects another client.
type Connect = Box<dyn Fn() -> object_store::Result<HttpClient> + Send + Sync>;

#[derive(Clone, Debug)]
struct Lane {
    client: HttpClient,
    load: Load,
}

/// A request in flight. The number of clones is the load of a client.
pub(crate) type Load = Arc<()>;

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes").field("first", &self.first).field("most", &self.most).finish_non_exhaustive()
    }
}

impl Lanes {
    /// Connects a client, and others later, if the options need them.
    pub(crate) fn new(
        options: &ClientOptions,
        connect: impl Fn() -> object_store::Result<HttpClient> + Send + Sync + 'static,
    ) -> object_store::Result<Self> {
        let most = if may_use_http2(options) { LANES - 1 } else { 0 };
        let first = Lane { client: connect()?, load: Load::default() };
        Ok(Self { first, others: Mutex::default(), most, connect: Box::new(connect) })
    }

    /// Returns the client with the fewest requests in flight, the first of several. The request ends when the load is
    /// dropped.
    pub(crate) fn least_loaded(&self) -> (HttpClient, Load) {
        // Without the reference of the lane itself.
        let load = |lane: &Lane| Arc::strong_count(&lane.load).saturating_sub(1);
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let least = |one, other| if load(other) < load(one) { other } else { one };
        let lane = others.iter().fold(&self.first, least).clone();
        // The clone counts as a request.
        if load(&lane) > BUSY
            && others.len() < self.most
            && let Ok(client) = (self.connect)()
        {
            let lane = Lane { client, load: Load::default() };
            others.push(lane.clone());
            return (lane.client, lane.load);
        }
        (lane.client, lane.load)
    }
}

/// One client alone.
impl From<HttpClient> for Lanes {
    fn from(client: HttpClient) -> Self {
        let first = Lane { client: client.clone(), load: Load::default() };
        Self { first, others: Mutex::default(), most: 0, connect: Box::new(move || Ok(client.clone())) }
    }
}

/// Returns whether servers are offered HTTP/2, which takes TLS.
fn may_use_http2(options: &ClientOptions) -> bool {
    let is_set = |key| options.get_config_value(&key).is_some_and(|value| value == "true");
    !is_set(ClientConfigKey::Http1Only) && !is_set(ClientConfigKey::AllowHttp)
}
