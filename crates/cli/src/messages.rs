use std::io::Write;

use virtualize::{Diagnostic, Error};

/// Prints a line to standard error. Nobody may be listening, which is no reason to fail.
pub(crate) fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", printable(text));
}

/// Prints warnings, one a line.
pub(crate) fn warnings<'a>(name: &str, warnings: impl IntoIterator<Item = &'a Diagnostic>) {
    for warning in warnings {
        line(&format!("warning: {name}: {warning}"));
    }
}

/// Prints an error: one line, or one for each reason to refuse the file.
pub(crate) fn error(error: &Error) {
    match error {
        Error::Refused { name, diagnostics } if !diagnostics.is_empty() => {
            for diagnostic in diagnostics {
                line(&format!("error: {name}: {diagnostic}"));
            }
            return;
        }
        Error::Strict { name, diagnostics } => warnings(name, diagnostics),
        _ => {}
    }
    match error.hint() {
        Some(hint) => line(&format!("error: {error} ({hint})")),
        None => line(&format!("error: {error}")),
    }
}

/// Text from a file without control characters, which could end the line or speak to the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}
