//! Text in columns.

use crate::terminal::{prefix, width};

/// Separator of the parts of a line.
const SEPARATOR: &str = " · ";

/// Returns text with spaces to its right, `columns` wide unless it is wider.
pub(super) fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Returns text with spaces to its left, `columns` wide unless it is wider.
pub(super) fn pad_left(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Returns text that fits: its middle is replaced by "…" if it is wider than `columns`.
pub(super) fn shorten(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let start = prefix(text.chars(), room / 3);
    let end: String = prefix(text.chars().rev(), room - width(&start).min(room)).chars().rev().collect();
    format!("{start}…{end}")
}

/// Joins parts into lines of at most `columns`, breaking between parts only.
pub(super) fn flow(parts: &[String], columns: usize) -> Vec<String> {
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
pub(super) fn list(items: &[String], columns: usize) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
