//! `virtualize serve`.

use virtualize_server::{ConfigError, Settings};

use crate::exit::Failure;

/// Listens until it is told to end.
pub(crate) async fn run(settings: &Settings) -> Result<(), Failure> {
    let usage = |error: ConfigError| Failure::Usage(error.to_string());
    let settings = settings.clone().with_file().map_err(usage)?;
    virtualize_server::start_logging(settings.log.as_deref() == Some("json"));
    let config = settings.check().map_err(usage)?;
    virtualize_server::serve(config).await.map_err(usage)
}
