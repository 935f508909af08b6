//! The texts around the options: which options `-h` lists, examples, exit status and environment; and what else describes
//! the command: completion scripts and manual pages.

use std::{
    fs,
    io::{self, Write},
    path::Path,
    sync::LazyLock,
};

use clap::{Arg, ArgAction, Command, CommandFactory, builder::PossibleValuesParser};
use clap_complete::Shell;
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use virtualize::Code;

use crate::{
    arguments::{Arguments, GENERAL},
    error::Failure,
    terminal,
};

/// Exit statuses, for `--help` and the manual pages.
const EXIT_STATUS: &str = "0 success, 1 failure, 2 wrong usage.";

/// Environment variables, each with its meaning, for the manual pages.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("AWS_*", "Credentials, region and endpoint of S3, as for other clients of AWS."),
    ("GOOGLE_*", "Credentials and endpoint of Google Cloud Storage."),
    ("AZURE_*", "Account, credentials and endpoint of Azure Blob Storage."),
    ("VIRTUALIZE_BEARER_TOKEN", "Bearer token for HTTPS servers."),
    ("RUST_LOG", "Filter of the log on standard error, such as \"info\". Takes precedence over -v."),
    ("NO_COLOR", "If not empty, disables colours."),
    ("CLICOLOR_FORCE", "If not 0, enables colours even if the output is not a terminal."),
    ("COLUMNS", "Width of help texts, from 40 to 120."),
];

/// Short and long help of `--verbose`.
const VERBOSE: (&str, &str) = (
    "Log to standard error; -vv and -vvv log more",
    "Log to standard error; -vv and -vvv log more\n\n-v logs at the level info, -vv at debug, -vvv at trace. The environment variable RUST_LOG takes precedence.",
);

/// What the help of a command shows.
struct Page {
    /// Name of the command.
    name: &'static str,
    /// Options that `-h` lists, the most common first.
    common: Vec<&'static str>,
    /// Examples, each with its purpose, the most common first. `-h` prints the first two.
    examples: Vec<(&'static str, &'static str)>,
}

/// The pages of `help.txt`, that of `virtualize` first. A page is a line `## COMMAND: OPTIONS`, followed by two lines for
/// each example.
static PAGES: LazyLock<Vec<Page>> = LazyLock::new(|| {
    let page = |text: &'static str| {
        let mut lines = text.lines();
        let (name, common) = lines.next()?.split_once(": ")?;
        let examples = std::iter::from_fn(|| Some((lines.next()?, lines.next()?))).collect();
        Some(Page { name, common: common.split(' ').collect(), examples })
    };
    include_str!("help.txt").split("## ").filter_map(page).collect()
});

impl Page {
    /// Returns the first examples, one per line, each below its purpose.
    fn examples(&self, count: usize) -> String {
        let examples = self.examples.iter().take(count);
        examples.map(|(purpose, example)| format!("  # {purpose}\n  {example}\n")).collect()
    }
}

/// Narrowest and widest text, in columns.
const WIDTH: std::ops::RangeInclusive<usize> = 40..=120;

/// Returns the command with its help texts.
///
/// `-h` lists the common options and fits one screen; `--help` lists all options in groups, on two screens. clap takes the groups for both,
/// so with `is_short` the common options leave their groups.
pub(crate) fn command(is_short: bool) -> Command {
    let mut command = Arguments::command().max_term_width(*WIDTH.end());
    if let Some(columns) = terminal::columns() {
        command = command.term_width(columns.clamp(*WIDTH.start(), *WIDTH.end()));
    }
    let version = Arg::new("version").short('V').long("version").action(ArgAction::Version);
    command = command.disable_version_flag(true).arg(version.help("Print the version").help_heading(GENERAL));
    for page in PAGES.iter() {
        if page.name == command.get_name() {
            command = with_texts(command, page, is_short);
        } else if command.find_subcommand(page.name).is_some() {
            command = command.mut_subcommand(page.name, |command| with_texts(command, page, is_short));
        }
    }
    command
}

fn with_texts(command: Command, page: &Page, is_short: bool) -> Command {
    let needs_arguments = !matches!(page.name, "explain" | "options" | "serve");
    let help = Arg::new("help").short('h').long("help").action(ArgAction::Help);
    let help = help.help("Print a summary; --help prints everything").help_heading(GENERAL);
    let mut command = command.disable_help_flag(true).arg_required_else_help(needs_arguments);
    if !matches!(page.name, "journal" | "explain" | "options" | "serve" | "completions" | "man") {
        let verbose = Arg::new("verbose").short('v').long("verbose").action(ArgAction::Count);
        command = command.arg(verbose.help(VERBOSE.0).long_help(VERBOSE.1).help_heading(GENERAL));
    }
    let command = command.arg(help);
    if is_short {
        let name = if page.name == "virtualize" { String::new() } else { format!(" {}", page.name) };
        let more = format!("\nAll options: virtualize{name} --help");
        return command.after_help(format!("Examples:\n{}{more}", page.examples(2))).mut_args(|argument| {
            match page.common.iter().position(|name| argument.get_id() == name) {
                _ if argument.is_positional() => argument,
                // A common option leaves its group; the others are hidden.
                Some(place) => argument.help_heading(None::<&str>).display_order(place).hide_env(true),
                None => argument.hide_short_help(true),
            }
        });
    }
    let about = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    // Like the rest of the help, which clap wraps at 100 columns where there is no terminal.
    let width = terminal::columns().unwrap_or(100).clamp(*WIDTH.start(), *WIDTH.end());
    let wrapped = |more| format!("\n{}\n", terminal::wrap(more, width).join("\n"));
    let more = about.split_once("\n\n").map(|(_, more)| wrapped(more)).unwrap_or_default();
    command
        .long_about(None::<&str>)
        .help_template(format!(
            "{{about-with-newline}}{more}\n{{usage-heading}} {{usage}}\n\n{{all-args}}{{after-help}}"
        ))
        .after_help(format!("Examples:\n{}\nExit status: {}", page.examples(usize::MAX), EXIT_STATUS))
        .mut_args(compact)
}

/// Joins the help of an option to one paragraph, and lists its values in it. clap then prints it next to the option, so that
/// all options fit on two screens.
fn compact(argument: Arg) -> Arg {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let (first, rest) = help.split_once("\n\n").unwrap_or((&help, ""));
    let mut text = if rest.is_empty() { first.to_owned() } else { format!("{first}. {rest}") };
    let values = argument.get_possible_values();
    let takes_value = argument.get_action().takes_values();
    if !values.is_empty() && takes_value {
        let names: Vec<_> = values.iter().map(|value| value.get_name()).collect();
        for value in &values {
            if let Some(meaning) = value.get_help() {
                let stop = if text.ends_with('.') { "" } else { "." };
                let meaning = meaning.to_string();
                let mut letters = meaning.chars();
                let first: String = letters.next().into_iter().flat_map(char::to_lowercase).collect();
                text += &format!("{stop} {}: {first}{}", value.get_name(), letters.as_str());
            }
        }
        text += &format!(" [values: {}]", names.join(", "));
    }
    let argument = argument.help(text).long_help(None::<&str>);
    if takes_value { argument.hide_possible_values(true) } else { argument }
}

/// Readers that the completion of `--readable-by` offers.
const READERS: [&str; 7] = [
    "zarr-python",
    "zarr-python+numcodecs",
    "zarr-python+imagecodecs",
    "zarrs",
    "zarrita",
    "gdal",
    "virtualize",
];

/// Prints the script that completes commands in a shell.
pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    // Other combinations of readers are valid, too, and unknown codes have an error of their own, so the parser of the
    // command has no lists.
    let with_values = |command: Command| {
        command.mut_args(|argument| match argument.get_id().as_str() {
            "readable_by" => argument.value_parser(PossibleValuesParser::new(READERS)),
            "code" => {
                argument.value_parser(PossibleValuesParser::new(Code::ALL.iter().map(|code| code.as_str())))
            }
            _ => argument,
        })
    };
    let mut command = with_values(command(false)).mut_subcommands(with_values);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "virtualize", &mut script);
    Ok(io::stdout().lock().write_all(&script)?)
}

/// Writes a manual page for each command to a folder.
pub(crate) fn manual(folder: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, error| Failure::File { path: path.display().to_string(), error };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut command = command(false).disable_help_subcommand(true);
    command.build();
    let others = command.get_subcommands().filter(|command| !command.is_hide_set());
    for command in others.chain([&command]) {
        let name = command.get_display_name().unwrap_or("virtualize");
        let path = folder.join(format!("{name}.1"));
        let mut out = Vec::new();
        let page = Man::new(command.clone());
        // Without a date, so that builds of one version are equal.
        let title =
            format!(".TH {name} 1 \"\" \"virtualize {}\" \"User Commands\"\n", env!("CARGO_PKG_VERSION"));
        out.extend(title.into_bytes());
        page.render_name_section(&mut out)?;
        // That of `clap_mangen` repeats all options.
        let mut synopsis = Roff::new();
        synopsis.control("SH", ["SYNOPSIS"]);
        let usage = command.clone().render_usage().to_string();
        for (at, line) in usage.trim_start_matches("Usage:").lines().enumerate() {
            if at > 0 {
                synopsis.control("br", []);
            }
            synopsis.text([bold(line.trim())]);
        }
        synopsis.to_writer(&mut out)?;
        page.render_description_section(&mut out)?;
        page.render_options_section(&mut out)?;
        if command.has_subcommands() {
            page.render_subcommands_section(&mut out)?;
        }
        let mut roff = Roff::new();
        let name = command.get_name();
        if let Some(page) = PAGES.iter().find(|page| page.name == name) {
            roff.control("SH", ["EXAMPLES"]);
            for (purpose, example) in &page.examples {
                roff.control("PP", []).text([roman(format!("{purpose}:"))]);
                roff.control("PP", []).control("RS", ["4"]).control("nf", []);
                roff.text([roman(*example)]).control("fi", []).control("RE", []);
            }
        }
        roff.control("SH", ["EXIT STATUS"]).text([roman(EXIT_STATUS)]);
        roff.control("SH", ["ENVIRONMENT"]);
        for (name, meaning) in ENVIRONMENT {
            roff.control("TP", []).text([bold(*name)]).text([roman(*meaning)]);
        }
        roff.to_writer(&mut out)?;
        fs::write(&path, out).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}
