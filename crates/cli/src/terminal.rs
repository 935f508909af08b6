//! Text for people: the terminal and its width, text in columns (some characters take two, some none), numbers with units,
//! and JSON.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns whether progress bars can be drawn: on a terminal that can move its cursor.
pub(crate) fn has_bars() -> bool {
    let is_dumb = std::env::var("TERM").is_ok_and(|terminal| terminal == "dumb");
    !is_dumb && io::stderr().is_terminal()
}

/// Returns the number of columns that the environment asks for, or else that of the terminal, if there is one.
pub(crate) fn columns() -> Option<usize> {
    let configured = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    configured.or_else(terminal)
}

/// Returns the number of columns that text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Returns as many characters as fit into `columns`.
fn prefix(characters: impl Iterator<Item = char>, columns: usize) -> String {
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

/// Separator of the parts of a line.
const SEPARATOR: &str = " · ";

/// Returns text with spaces to its right, `columns` wide unless it is wider.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Returns text that fits: its middle is replaced by "…" if it is wider than `columns`.
pub(crate) fn shorten(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let start = prefix(text.chars(), room / 3);
    let end: String = prefix(text.chars().rev(), room - width(&start).min(room)).chars().rev().collect();
    format!("{start}…{end}")
}

/// Joins parts into lines of at most `columns`, breaking between parts only.
pub(crate) fn flow(parts: &[String], columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        let part = shorten(part, columns);
        match lines.last_mut() {
            Some(line) if width(line) + width(SEPARATOR) + width(&part) <= columns => {
                *line += SEPARATOR;
                *line += &part;
            }
            _ => lines.push(part),
        }
    }
    lines
}

/// Returns items in parentheses, as many as fit into `columns`, and the number of those that do not.
pub(crate) fn list(items: &[String], columns: usize) -> String {
    let whole = format!("({})", items.join(", "));
    if width(&whole) <= columns {
        return whole;
    }
    for shown in (0..items.len()).rev() {
        let some = items.get(..shown).unwrap_or_default().join(", ");
        let gap = if shown > 0 { ", " } else { "" };
        let line = format!("({some}{gap}… {} more)", items.len() - shown);
        if width(&line) <= columns {
            return line;
        }
    }
    format!("({} axes)", items.len())
}

/// Returns a quotient with one digit after the point.
pub(crate) fn tenth(count: u64, of: u64) -> String {
    let tenths = count.saturating_mul(10) / of;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Returns bytes in a unit that gives few digits.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(|| format!("{bytes} bytes"), |(unit, name)| format!("{} {name}", tenth(bytes, unit)))
}

/// Returns a count with commas between groups of three digits.
pub(crate) fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns a count with its noun, which has a plural in "s".
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(count), if count == 1 { "" } else { "s" })
}

/// Prints a document as indented JSON.
pub(crate) fn json(document: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
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

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(pad("気温", 6), "気温  ");
        assert_eq!(shorten("気温の変化", 7), "気…変化");
        assert_eq!(shorten("temperature", 7), "te…ture");
        assert_eq!(shorten("same", 4), "same");
        for columns in 1..12 {
            assert!(width(&shorten("気温 of the 変化", columns)) <= columns, "{columns}");
        }
    }

    #[test]
    fn lists_leave_out_whole_items() {
        let items: Vec<String> = (100..110).map(|n| n.to_string()).collect();
        assert_eq!(list(&items, 25), "(100, 101, 102, … 7 more)");
        assert_eq!(list(&items, 5), "(10 axes)");
        assert_eq!(list(&[], 5), "()");
    }

    #[test]
    fn numbers_are_grouped_and_sizes_have_a_unit() {
        assert_eq!([thousands(0), thousands(999), thousands(1_234_567)], ["0", "999", "1,234,567"]);
        assert_eq!([counted(1, "array"), counted(1000, "array")], ["1 array", "1,000 arrays"]);
        assert_eq!([size(1023), size(1536), size(5 << 30)], ["1023 bytes", "1.5 KiB", "5.0 GiB"]);
    }
}
