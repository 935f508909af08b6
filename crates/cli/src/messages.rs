use std::{
    borrow::Cow,
    io::{IsTerminal, Write},
    sync::LazyLock,
};

use anstream::{AutoStream, ColorChoice};
use clap::Arg;
pub(crate) use virtualize::describe::printable;
use virtualize::{Diagnostic, Error, Notation, VirtualStore, options::given, zarr::readers::ReaderSetup};

use crate::options;

/// Notation of remedies on the command line: `--on-mismatch split`, and `--option ragged=true` for a rare option.
pub(crate) const FLAGS: Notation = Notation(|option, value| {
    static RARE: LazyLock<Vec<Arg>> = LazyLock::new(options::rare);
    let name = option.as_str().replace('_', "-");
    let rare = RARE.iter().find(|one| given::name(one) == name);
    Some(match (rare, value) {
        (None, None) => format!("--{name}"),
        (None, Some(value)) => format!("--{name} {}", quoted(value)),
        (Some(_), Some(value)) => format!("--option {}", quoted(&format!("{name}={value}"))),
        (Some(option), None) if given::is_switch(option) => format!("--option {name}=true"),
        (Some(option), None) => {
            let value = option.get_value_names().and_then(<[_]>::first);
            format!("--option {name}={}", value.map_or("VALUE", |value| value.as_str()))
        }
    })
});

/// Quotes an argument for a POSIX shell.
pub(crate) fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_@%+=:,./-".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', "'\\''"))
    }
}

/// Returns whether messages are coloured: on a terminal, unless `NO_COLOR` or `CLICOLOR_FORCE` demand otherwise.
pub(crate) fn are_coloured() -> bool {
    AutoStream::choice(&std::io::stderr()) != ColorChoice::Never
}

/// Prints a line to standard error. Failure to write it is ignored, since the reader may be gone.
pub(crate) fn line(text: &str) {
    let text = printable(text);
    let text = if are_coloured() { coloured(&text) } else { Cow::Borrowed(&*text) };
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Colours the first word of an error or a warning, as clap does.
fn coloured(text: &str) -> Cow<'_, str> {
    let colours = [("error:", "\x1b[1;31m"), ("warning:", "\x1b[1;33m")];
    let found = colours.iter().find_map(|(word, colour)| Some((word, colour, text.strip_prefix(word)?)));
    found.map_or(Cow::Borrowed(text), |(word, colour, rest)| format!("{colour}{word}\x1b[0m{rest}").into())
}

/// Prints warnings, one per line.
pub(crate) fn warnings<'a>(name: &str, warnings: impl IntoIterator<Item = &'a Diagnostic>) {
    for warning in warnings {
        line(&format!("warning: {name}: {}", warning.render(FLAGS)));
    }
}

/// Number of places of which a message is printed separately for each.
#[cfg(any(feature = "full", test))]
const PLACES: usize = 3;

/// Returns lines `place: message`. A message for many places becomes one line, with the first places and the number of
/// others.
#[cfg(any(feature = "full", test))]
pub(crate) fn folded<'a, T: Eq + AsRef<str>>(
    messages: impl IntoIterator<Item = (&'a str, T)>,
) -> Vec<String> {
    let mut groups: Vec<(T, Vec<&str>)> = Vec::new();
    for (place, message) in messages {
        match groups.iter_mut().find(|(other, _)| *other == message) {
            Some((_, places)) => places.push(place),
            None => groups.push((message, vec![place])),
        }
    }
    let line = |places: &str, message: &T| format!("{places}: {}", message.as_ref());
    let lines = groups.iter().flat_map(|(message, places)| match places.get(..PLACES) {
        Some(first) if places.len() > PLACES => {
            let more = places.len() - PLACES;
            vec![line(&format!("{} and {more} more", first.join(", ")), message)]
        }
        _ => places.iter().map(|place| line(place, message)).collect(),
    });
    lines.collect()
}

/// Prints on a terminal which packages and which Python readers of a store need, unless they need none. Scripts would
/// take the line for a problem.
pub(crate) fn reader_setup(store: &VirtualStore) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    if let Some(hint) = ReaderSetup::of(&store.hierarchy).hint() {
        line(&format!("hint: {hint}"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_for_a_shell() {
        assert_eq!(quoted("s3://b/a.nc"), "s3://b/a.nc");
        assert_eq!(quoted("a b/*.nc"), "'a b/*.nc'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn equal_messages_are_folded() {
        let messages = [("/a", "x"), ("/b", "y"), ("/b", "x"), ("/c", "x"), ("/d", "x"), ("/e", "y")];
        assert_eq!(folded(messages), ["/a, /b, /c and 1 more: x", "/b: y", "/e: y"]);
        assert_eq!(folded([("/a", "x"), ("/b", "x")]), ["/a: x", "/b: x"]);
    }
}
