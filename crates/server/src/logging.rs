//! Logging.

use tracing_subscriber::EnvFilter;

/// Installs a logger that writes to standard error, as text or JSON. `RUST_LOG` sets the filter.
pub fn start(json: bool) {
    let given = std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty());
    let filter = EnvFilter::builder().parse_lossy(given.unwrap_or_else(|| "info".to_owned()));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A logger that is already installed in the process stays.
    let _ = match json {
        true => lines.json().flatten_event(true).try_init(),
        false => lines.with_ansi(false).try_init(),
    };
}
