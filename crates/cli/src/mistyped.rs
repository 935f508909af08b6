//! Errors for a first argument that looks like a mistyped command, and for several files.

use std::{ffi::OsString, path::Path};

use clap::{
    Command, Error,
    error::{ContextKind, ErrorKind},
};
use virtualize_remedy::{alternatives, similar};

use crate::error::{Failure, Usage};

/// Refuses arguments that are not UTF-8, such as names of files in other encodings.
pub(crate) fn check_text(given: &[OsString]) -> Result<(), Usage> {
    let Some(argument) = given.iter().skip(1).find(|argument| argument.to_str().is_none()) else {
        return Ok(());
    };
    let bytes = argument.as_encoded_bytes();
    let chunks =
        bytes.utf8_chunks().map(|chunk| format!("{}{}", chunk.valid(), chunk.invalid().escape_ascii()));
    Err(Usage::NotUtf8 { argument: chunks.collect() })
}

/// Refuses a first argument that is neither a command, an option, nor a file, and looks like a command.
pub(crate) fn check(command: &Command, given: &[OsString]) -> Result<(), Usage> {
    let Some(first) = given.get(1).and_then(|first| first.to_str()) else { return Ok(()) };
    let is_word = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_alphabetic());
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let commands: Vec<_> = commands.map(Command::get_name).chain(["help"]).collect();
    if !is_word || command.find_subcommand(first).is_some() || first == "help" || Path::new(first).exists() {
        return Ok(());
    }
    let is_alone = given.get(2).is_none_or(|next| next.to_string_lossy().starts_with('-'));
    if is_alone && similar(first, commands.iter().copied()).is_none() {
        // A file that does not exist.
        return Ok(());
    }
    let existing = alternatives("commands", first, commands);
    Err(Usage::NoCommand { name: first.to_owned(), existing })
}

/// Replaces the error for several files, which names the second one as a command.
pub(crate) fn explain(error: Error) -> Failure {
    let is_of_commands = error.get(ContextKind::InvalidSubcommand).is_some();
    match error.kind() == ErrorKind::ArgumentConflict && is_of_commands {
        true => Usage::SeveralFiles.into(),
        false => error.into(),
    }
}
