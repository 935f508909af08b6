use tracing_subscriber::EnvFilter;

/// Starts logging to standard error if requested: by `RUST_LOG`, otherwise by the number of `-v`.
pub(crate) fn start(verbose: u8) {
    let filter = match (std::env::var("RUST_LOG"), verbose) {
        (Ok(filter), _) if !filter.is_empty() => EnvFilter::builder().parse_lossy(filter),
        (_, 0) => return,
        (_, 1) => EnvFilter::new("info"),
        (_, 2) => EnvFilter::new("info,virtualize=debug,virtualize_store=debug,object_store=debug"),
        _ => EnvFilter::new("trace"),
    };
    // Fails if the program that contains the command has a log already.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let _ = log.with_ansi(crate::messages::are_coloured()).try_init();
}
