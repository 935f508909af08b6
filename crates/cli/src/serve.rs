//! `virtualize serve`.

use virtualize_server::{ConfigError, Settings};

use crate::{
    arguments::GENERAL,
    error::{Failure, Usage},
};

/// Serves until the process is stopped.
#[derive(clap::Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    settings: Settings,
    /// Check that the running service responds; exit with status 1 if not
    ///
    /// A health check for containers, with the settings of the service.
    #[arg(long, help_heading = GENERAL)]
    check_health: bool,
}

/// Serves, or checks the health of a running service.
pub(crate) async fn run(arguments: &Serve) -> Result<(), Failure> {
    let settings = arguments.settings.clone().with_file().map_err(Usage::from)?;
    if arguments.check_health {
        return virtualize_server::check_health(&settings).await.map_err(Failure::NotReady);
    }
    Ok(serve(settings).await.map_err(Usage::from)?)
}

async fn serve(settings: Settings) -> Result<(), ConfigError> {
    virtualize_server::start_logging(settings.log.as_deref() == Some("json"));
    virtualize_server::serve(settings.check()?).await
}
