//! The terminal: whether it can draw bars, its width, and the width of text in it. Some characters take two columns,
//! some take none.

use std::io::{self, IsTerminal};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns whether progress bars can be drawn: on a terminal that can move its cursor.
pub(crate) fn has_bars() -> bool {
    let is_dumb = std::env::var("TERM").is_ok_and(|terminal| terminal == "dumb");
    !is_dumb && io::stderr().is_terminal()
}

/// Returns the number of columns that the environment asks for, or else that of the terminal, if there is one.
pub(crate) fn columns() -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    asked.or_else(terminal)
}

/// Returns the number of columns that text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Returns as many characters as fit into `columns`.
pub(crate) fn prefix(characters: impl Iterator<Item = char>, columns: usize) -> String {
    let mut room = columns;
    let fits = |c: &char| {
        let needed = c.width().unwrap_or(0);
        let fits = needed <= room;
        room = room.saturating_sub(needed);
        fits
    };
    characters.take_while(fits).collect()
}

/// Breaks text between words into lines of at most `columns`. Only a word that is wider than a line is broken.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && width(&line) + 1 + width(word) > columns {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        let mut rest = word;
        while width(&line) + width(rest) > columns {
            let head = prefix(rest.chars(), columns.max(2));
            rest = rest.get(head.len()..).unwrap_or_default();
            lines.push(head);
        }
        line += rest;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_nothing_is_lost() {
        let text = "a chunk of https://example.com/a/very/long/path is missing";
        for columns in 2..60 {
            let lines = wrap(text, columns);
            assert!(lines.iter().all(|line| width(line) <= columns), "{lines:?}");
            assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""));
        }
    }
}
