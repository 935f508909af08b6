#![doc = include_str!("../README.md")]

#[cfg(feature = "full")]
mod archive;
mod arguments;
mod error;
mod explain;
mod help;
mod inspect;
mod messages;
mod options;
mod reading;
mod references;
mod terminal;

use std::ffi::OsString;

use arguments::{Arguments, Command};
use clap::FromArgMatches;
use error::Failure;
use tracing_subscriber::EnvFilter;

pub use arguments::Reading;
pub use inspect::{UnknownArray, describe, describe_arrays};

/// Runs the command with its arguments, the name of the program first, and returns the exit status: 0 success, 1
/// failure, 2 wrong usage.
///
/// `batch`, `scan` and `serve` install handlers for SIGINT and SIGTERM, and end the process at the second signal. Other
/// commands leave signals as they are: a caller that handles SIGINT, as Python does, must restore the default first, or
/// Ctrl-C has no effect until this function returns.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments = parse(&arguments.into_iter().collect::<Vec<_>>());
    error::status(arguments.and_then(|(arguments, verbosity)| execute(&arguments, verbosity)))
}

/// Parses the arguments, and checks that they can be combined. Also returns the number of `-v`.
fn parse(given: &[OsString]) -> Result<(Arguments, u8), Failure> {
    // The short help: asked for by `-h`, or because a command has no arguments.
    let is_short = match given {
        [] | [_] => true,
        [_, only] => only != "--help" && only != "help",
        _ => given.iter().any(|argument| argument == "-h"),
    };
    let mut command = help::command(is_short);
    error::check_text(given)?;
    #[cfg(feature = "full")]
    let given = &archive::without_shorthands(given)[..];
    error::check_command(&command, given)?;
    let matches = command.try_get_matches_from_mut(given).map_err(error::explain)?;
    let arguments = Arguments::from_arg_matches(&matches)?;
    let own = matches.subcommand().map_or(&matches, |(_, own)| own);
    let verbosity = own.try_get_one("verbose").ok().flatten().copied().unwrap_or(0);
    #[cfg(feature = "full")]
    let arguments = {
        // For the journal to record.
        let (mut arguments, line) = (arguments, archive::without_secrets(given));
        match &mut arguments.command {
            Some(Command::Batch(batch)) => batch.command = line,
            Some(Command::Scan(scan)) => scan.command = line,
            _ => {}
        }
        arguments
    };
    Ok((arguments, verbosity))
}

/// Starts the log and a runtime, and runs the chosen command.
fn execute(arguments: &Arguments, verbosity: u8) -> Result<(), Failure> {
    let requested = std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty());
    let filter = requested.or_else(|| match verbosity {
        0 => None,
        1 => Some("info".to_owned()),
        2 => Some("info,virtualize=debug,virtualize_store=debug,object_store=debug".to_owned()),
        _ => Some("trace".to_owned()),
    });
    let has_own_log = match &arguments.command {
        #[cfg(feature = "full")]
        Some(Command::Serve(_)) => true,
        _ => false,
    };
    if let Some(filter) = filter.filter(|_| !has_own_log) {
        // Fails if the program that contains the command has a log already.
        let filter = EnvFilter::builder().parse_lossy(filter);
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        let _ = log.with_ansi(messages::are_coloured()).try_init();
    }
    // One file is read on one thread, many files on all threads.
    let mut builder = match &arguments.command {
        #[cfg(feature = "full")]
        Some(Command::Batch(_) | Command::Scan(_) | Command::Serve(_)) => {
            tokio::runtime::Builder::new_multi_thread()
        }
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    builder.enable_all().build()?.block_on(async {
        match &arguments.command {
            Some(Command::Inspect(inspect)) => inspect::run(inspect).await,
            #[cfg(feature = "full")]
            Some(Command::Batch(batch)) => archive::batch(batch).await,
            #[cfg(feature = "full")]
            Some(Command::Scan(scan)) => archive::scan(scan).await,
            #[cfg(feature = "full")]
            Some(Command::Journal(arguments)) => archive::journal(arguments),
            Some(Command::Convert(convert)) => references::convert(convert).await,
            Some(Command::Validate(arguments)) => references::validate(arguments).await,
            Some(Command::Diff(compare)) => references::diff(compare).await,
            Some(Command::Explain(arguments)) => explain::run(arguments),
            Some(Command::Options(arguments)) => options::run(arguments),
            #[cfg(feature = "full")]
            Some(Command::Serve(arguments)) => serve(arguments).await,
            Some(Command::Completions(arguments)) => help::completions(arguments.shell),
            Some(Command::Man(arguments)) => help::manual(&arguments.folder),
            None => references::write(&arguments.convert).await,
        }
    })
}

/// Serves, or checks the health of a running service.
#[cfg(feature = "full")]
async fn serve(arguments: &arguments::Serve) -> Result<(), Failure> {
    use virtualize_server::{LogFormat, check_health, serve, start_logging};
    let settings = &arguments.settings;
    if arguments.check_health {
        return check_health(settings).await.map_err(Failure::NotReady);
    }
    start_logging(settings.log == Some(LogFormat::Json));
    let config = settings.check().map_err(error::Usage::new)?;
    Ok(serve(config).await.map_err(error::Usage::new)?)
}
