use std::io::Write;

pub(crate) use virtualize::describe::printable;
use virtualize::{Diagnostic, Error, Notation};

/// Notation of remedies as flags: `--on-mismatch split`.
pub(crate) const FLAGS: Notation = Notation(|option, value| {
    let flag = option.as_str().replace('_', "-");
    Some(value.map_or_else(|| format!("--{flag}"), |value| format!("--{flag} {value}")))
});

/// Prints a line to standard error. Failure to write it is ignored, since the reader may be gone.
pub(crate) fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", printable(text));
}

/// Prints warnings, one per line.
pub(crate) fn warnings<'a>(name: &str, warnings: impl IntoIterator<Item = &'a Diagnostic>) {
    for warning in warnings {
        line(&format!("warning: {name}: {}", warning.render(FLAGS)));
    }
}

/// Prints an error on one line, or one line per reason if the file is refused.
pub(crate) fn error(error: &Error) {
    match error {
        Error::Refused { name, diagnostics } if !diagnostics.is_empty() => {
            for diagnostic in diagnostics {
                line(&format!("error: {name}: {}", diagnostic.render(FLAGS)));
            }
            return;
        }
        Error::Strict { name, diagnostics } => warnings(name, diagnostics),
        _ => {}
    }
    line(&format!("error: {}", error.render(FLAGS)));
}
