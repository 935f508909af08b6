//! `virtualize completions SHELL` and `virtualize man DIR`.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use virtualize::Code;

use crate::{
    error::Failure,
    help::{self, Page},
};

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
pub(crate) fn print(shell: Shell) -> Result<(), Failure> {
    // Other combinations of readers are valid, too, and unknown codes have an error of their own, so the parser of the
    // command has no lists.
    let with_values = |command: clap::Command| {
        command.mut_args(|argument| match argument.get_id().as_str() {
            "readable_by" => argument.value_parser(PossibleValuesParser::new(READERS)),
            "code" => {
                argument.value_parser(PossibleValuesParser::new(Code::ALL.iter().map(|code| code.as_str())))
            }
            _ => argument,
        })
    };
    let mut command = with_values(help::command(false)).mut_subcommands(with_values);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "virtualize", &mut script);
    Ok(io::stdout().lock().write_all(&script)?)
}

/// Writes a manual page for each command to a folder.
pub(crate) fn manual(folder: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, error| Failure::File { path: path.display().to_string(), error };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut command = help::command(false).disable_help_subcommand(true);
    command.build();
    let others = command.get_subcommands().filter(|command| !command.is_hide_set());
    for command in others.chain([&command]) {
        let name = command.get_display_name().unwrap_or("virtualize");
        let path = folder.join(format!("{name}.1"));
        fs::write(&path, manual_page(command)?).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Returns the manual page of a command.
fn manual_page(command: &clap::Command) -> io::Result<Vec<u8>> {
    let page = Man::new(command.clone());
    let name = command.get_display_name().unwrap_or("virtualize");
    // Without a date, so that builds of one version are equal.
    let title = format!(".TH {name} 1 \"\" \"virtualize {}\" \"User Commands\"\n", env!("CARGO_PKG_VERSION"));
    let mut out = title.into_bytes();
    page.render_name_section(&mut out)?;
    synopsis(command).to_writer(&mut out)?;
    page.render_description_section(&mut out)?;
    page.render_options_section(&mut out)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut out)?;
    }
    endings(command).to_writer(&mut out)?;
    Ok(out)
}

/// Returns the section that shows how the command is used. That of `clap_mangen` repeats all options.
fn synopsis(command: &clap::Command) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    let usage = command.clone().render_usage().to_string();
    for (at, line) in usage.trim_start_matches("Usage:").lines().enumerate() {
        if at > 0 {
            roff.control("br", []);
        }
        roff.text([bold(line.trim())]);
    }
    roff
}

/// Returns the sections behind the options.
fn endings(command: &clap::Command) -> Roff {
    let mut roff = Roff::new();
    if let Some(page) = Page::of(command) {
        roff.control("SH", ["EXAMPLES"]);
        for (purpose, example) in &page.examples {
            roff.control("PP", []).text([roman(format!("{purpose}:"))]);
            roff.control("PP", []).control("RS", ["4"]).control("nf", []);
            roff.text([roman(*example)]).control("fi", []).control("RE", []);
        }
    }
    roff.control("SH", ["EXIT STATUS"]).text([roman(help::EXIT_STATUS)]);
    roff.control("SH", ["ENVIRONMENT"]);
    for (name, meaning) in help::ENVIRONMENT {
        roff.control("TP", []).text([bold(*name)]).text([roman(*meaning)]);
    }
    roff
}
