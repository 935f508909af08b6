//! `virtualize serve`.

use virtualize_server::Settings;

use crate::{arguments::Usage, exit::Failure};

/// Serves until the process is stopped.
pub(crate) async fn run(settings: &Settings) -> Result<(), Failure> {
    Ok(serve(settings).await.map_err(Usage::from)?)
}

async fn serve(settings: &Settings) -> Result<(), virtualize_server::ConfigError> {
    let settings = settings.clone().with_file()?;
    virtualize_server::start_logging(settings.log.as_deref() == Some("json"));
    virtualize_server::serve(settings.check()?).await
}
