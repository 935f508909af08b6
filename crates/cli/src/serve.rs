//! `virtualize serve`.

use virtualize::options::Given;
use virtualize_server::{ConfigError, LogFormat, Settings};

use crate::{
    arguments::GENERAL,
    error::{Failure, Usage},
};

/// Serves until the process is stopped.
#[derive(clap::Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    settings: Given<Settings>,
    /// Check that the running service responds; exit with status 1 if not
    ///
    /// A health check for containers, with the settings of the service.
    #[arg(long, help_heading = GENERAL)]
    check_health: bool,
}

/// Serves, or checks the health of a running service.
pub(crate) async fn run(arguments: &Serve) -> Result<(), Failure> {
    if arguments.check_health {
        return virtualize_server::check_health(&arguments.settings).await.map_err(Failure::NotReady);
    }
    Ok(serve(&arguments.settings).await.map_err(Usage::new)?)
}

async fn serve(settings: &Settings) -> Result<(), ConfigError> {
    virtualize_server::start_logging(settings.log == Some(LogFormat::Json));
    virtualize_server::serve(settings.check()?).await
}
