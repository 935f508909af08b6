//! `virtualize explain`: the troubleshooting page in the terminal.

use std::io::{self, Write};

use virtualize::Code;
use virtualize_remedy::alternatives;

use crate::{
    arguments::Explain,
    error::{Failure, Usage},
    terminal,
};

/// The page of the documentation, which is a link to this file.
const PAGE: &str = include_str!("troubleshooting.md");
/// Maximum and default number of columns.
const WIDTH: usize = 100;

/// Prints what the page says about a code, or one line for each code.
pub(crate) fn run(arguments: &Explain) -> Result<(), Failure> {
    let text = match &arguments.code {
        None => list(),
        Some(code) => plain(&section(code)?, width()),
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

fn width() -> usize {
    terminal::columns().unwrap_or(WIDTH).clamp(40, WIDTH)
}

/// Returns the text about a code, which may be given in brackets.
fn section(code: &str) -> Result<String, Usage> {
    let code = code.trim_matches(['[', ']']);
    let names = || Code::ALL.iter().map(|code| code.as_str());
    names().find(|name| *name == code).and_then(body).ok_or_else(|| {
        let existing = alternatives("codes", code, names());
        Usage::new(format!("no code \"{code}\"{existing}"))
    })
}

/// Returns the text about a code: below its heading, or in its row of a table.
fn body(code: &str) -> Option<String> {
    if let Some((_, rest)) = PAGE.split_once(&format!("\n### {code}\n")) {
        let end = ["\n### ", "\n## "].iter().filter_map(|heading| rest.find(heading)).min();
        return rest.get(..end.unwrap_or(rest.len())).map(|text| text.trim().to_owned());
    }
    let (_, row) = PAGE.split_once(&format!("\n| `{code}` | "))?;
    let (meaning, rest) = row.split_once(" | ")?;
    let (remedy, _) = rest.split_once(" |\n")?;
    Some(format!("{meaning}\n**Remedy.** {remedy}"))
}

/// Returns each code with the first sentence about it.
fn list() -> String {
    let line = |code: &Code| {
        let text = body(code.as_str()).unwrap_or_default();
        let text = without_markup(text.lines().next().unwrap_or_default());
        let end = text.find([':', ';']).into_iter().chain(text.find(". ")).min();
        let summary = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
        format!("{:<28}{}\n", code.as_str(), summary.trim_end_matches('.'))
    };
    Code::ALL.iter().map(line).collect()
}

/// Renders Markdown as text: paragraphs are wrapped; blocks of code, and messages after `> `, are indented.
fn plain(markdown: &str, width: usize) -> String {
    let mut text = String::new();
    let mut is_code = false;
    for line in markdown.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            text += &format!("    {line}\n");
        } else if let Some(message) = line.strip_prefix("> ") {
            text += &format!("\n    {}\n", message.trim_matches(['`', ' ']));
        } else {
            let lines = terminal::wrap(&without_markup(line), width);
            lines.iter().for_each(|line| text += &format!("{line}\n"));
        }
    }
    text
}

/// Removes emphasis, and the targets of links.
fn without_markup(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("](") {
        let (start, label) = before.rsplit_once('[').unwrap_or((before, ""));
        text = text + start + label;
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    (text + rest).replace("**", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_is_explained_and_each_entry_is_a_code() {
        for code in Code::ALL {
            let body = body(code.as_str()).unwrap_or_default();
            assert!(body.contains("**Remedy.**"), "{code}: no entry, or no remedy");
            let message = body
                .lines()
                .find_map(|line| line.strip_prefix("> "))
                .map(|line| line.trim_matches(['`', ' ']));
            assert!(message.is_none_or(|message| message.ends_with(&format!("[{code}]"))), "{code}");
        }
        let headings = PAGE.lines().filter_map(|line| line.strip_prefix("### "));
        let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let unknown = headings.chain(rows).filter(|name| !name.contains(' '));
        let unknown: Vec<_> =
            unknown.filter(|name| Code::ALL.iter().all(|code| code.as_str() != *name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn sections_are_plain_text() {
        let page = "See [the `rules`](../a.md#b), and **this** (not that).\n> `a  b`\n\n```sh\nc  d\n```";
        let text = plain(page, 24);
        assert_eq!(text, "See the `rules`, and\nthis (not that).\n\n    a  b\n\n    c  d\n");
    }

    #[test]
    fn unknown_codes_get_a_suggestion() {
        let error = section("fill-value-droped").expect_err("no such code").0;
        assert!(error.contains("did you mean \"fill-value-dropped\"?"), "{error}");
        assert!(section("[fill-value-dropped]").is_ok());
    }
}
