//! The texts around the options: which options `-h` lists, examples, exit status and environment.

mod pages;

use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::{
    arguments::{Arguments, GENERAL},
    terminal,
};
pub(crate) use pages::{ENVIRONMENT, EXIT_STATUS, Page};

/// Narrowest and widest text, in columns.
const WIDTH: std::ops::RangeInclusive<usize> = 40..=120;

/// Returns the command with its help texts.
///
/// `-h` lists the common options and fits one screen; `--help` lists all options in groups. clap takes the groups for both,
/// so with `is_short` the common options leave their groups.
pub(crate) fn command(is_short: bool) -> Command {
    let mut command = Arguments::command().max_term_width(*WIDTH.end());
    if let Some(columns) = terminal::columns() {
        command = command.term_width(columns.clamp(*WIDTH.start(), *WIDTH.end()));
    }
    let version = Arg::new("version").short('V').long("version").action(ArgAction::Version);
    command = command.disable_version_flag(true).arg(version.help("Print the version").help_heading(GENERAL));
    command = with_texts(command, &pages::MAIN, is_short);
    for page in pages::COMMANDS {
        if command.find_subcommand(page.name).is_some() {
            command = command.mut_subcommand(page.name, |command| with_texts(command, page, is_short));
        }
    }
    command
}

fn with_texts(command: Command, page: &Page, is_short: bool) -> Command {
    let help = Arg::new("help").short('h').long("help").action(ArgAction::Help);
    let help = help.help("Print a summary; --help prints everything").help_heading(GENERAL);
    let command = command
        .disable_help_flag(true)
        .arg(help)
        .arg_required_else_help(page.needs_arguments)
        .after_help(format!("Examples:\n{}{}", page.examples(2), page.more()))
        .after_long_help(format!(
            "Examples:\n{}\nExit status: {}",
            page.examples(usize::MAX),
            pages::EXIT_STATUS
        ));
    command.mut_args(|argument| in_short_help(argument, page, is_short))
}

/// Hides an option from `-h` unless it is a common one.
fn in_short_help(argument: Arg, page: &Page, is_short: bool) -> Arg {
    if argument.is_positional() {
        return argument;
    }
    let place = page.common.iter().position(|name| argument.get_id() == name);
    match place {
        None => argument.hide_short_help(true),
        Some(place) if is_short => argument.help_heading(None::<&str>).display_order(place).hide_env(true),
        Some(_) => argument,
    }
}
