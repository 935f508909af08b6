//! The result of a validation.

use std::fmt;

use serde_json::{Value, json};

use crate::describe::printable;

/// Number of problems that are listed for an array.
const LISTED: usize = 10;

/// Result of a validation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ValidationReport {
    /// Sources, in the order of the references.
    pub sources: Vec<Checked>,
    /// Arrays, in order of path.
    pub arrays: Vec<Checked>,
    /// Parts that could not be validated, with the reason.
    pub notes: Vec<String>,
}

/// A validated source or array.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    /// Url of the source, or path of the array without a leading slash.
    pub name: String,
    /// Number of chunks, inline ones included.
    pub chunks: u64,
    /// Number of decoded chunks.
    pub decoded: u64,
    /// Number of problems.
    pub problems: u64,
    /// The first problems, described.
    pub listed: Vec<String>,
}

impl ValidationReport {
    /// Returns whether there are no problems.
    pub fn is_valid(&self) -> bool {
        self.sources.iter().chain(&self.arrays).all(|checked| checked.problems == 0)
    }

    /// Returns the result as JSON.
    pub fn to_json(&self) -> Value {
        let list = |checked: &[Checked]| -> Vec<_> {
            let one = |one: &Checked| {
                json!({"name": one.name, "chunks": one.chunks, "decoded": one.decoded,
                    "problems": one.problems, "told": one.listed})
            };
            checked.iter().map(one).collect()
        };
        json!({"valid": self.is_valid(), "arrays": list(&self.arrays), "sources": list(&self.sources),
            "notes": self.notes})
    }
}

impl Checked {
    /// Counts a problem, and lists it if it is among the first.
    pub(super) fn problem(&mut self, text: impl Into<String>) {
        self.problems += 1;
        if self.listed.len() < LISTED {
            self.listed.push(text.into());
        }
    }
}

/// Formats one line per array and source, and one per listed problem.
impl fmt::Display for ValidationReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (title, checked) in [("array", &self.arrays), ("source", &self.sources)] {
            writeln!(out, "{:>10} {:>10} {:>10}  {title}", "chunks", "decoded", "problems")?;
            for one in checked {
                let slash = if title == "array" { "/" } else { "" };
                writeln!(
                    out,
                    "{:>10} {:>10} {:>10}  {slash}{}",
                    one.chunks,
                    one.decoded,
                    one.problems,
                    printable(&one.name)
                )?;
                for problem in &one.listed {
                    writeln!(out, "{:>32}  {}", "", printable(problem))?;
                }
                if one.problems > one.listed.len() as u64 {
                    writeln!(out, "{:>32}  …", "")?;
                }
            }
        }
        for note in &self.notes {
            writeln!(out, "note: {}", printable(note))?;
        }
        Ok(())
    }
}
