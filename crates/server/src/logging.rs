//! Logging.

use tracing::Level;
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::{FilterExt, filter_fn},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// Installs a logger that writes to standard error, as text or JSON. `RUST_LOG` sets the filter of the log. At the level `trace`, only this project's crates write: HTTP clients
/// might log headers with credentials.
pub fn start(json: bool) {
    let given = std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty());
    let filter = EnvFilter::builder().parse_lossy(given.unwrap_or_else(|| "info".to_owned()));
    let filter = filter.and(filter_fn(|metadata| {
        *metadata.level() <= Level::DEBUG || metadata.target().starts_with("virtualize")
    }));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match json {
        true => lines.json().flatten_event(true).with_filter(filter).boxed(),
        false => lines.with_ansi(false).with_filter(filter).boxed(),
    };
    // A logger that is already installed in the process stays.
    let _ = Registry::default().with(lines).try_init();
}
