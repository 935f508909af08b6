use std::fmt;

use virtualize_remedy::{Code, Notation, Remedy};

/// A decision of the mapping that could surprise a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Severity.
    pub severity: Severity,
    /// Stable code, such as `fill-value-dropped`.
    pub code: Code,
    /// Absolute path of the node concerned; "/" for the whole file.
    pub path: String,
    /// What happened and why, in one line.
    pub message: String,
    /// What the user can do.
    pub remedy: Option<Remedy>,
}

/// Severity of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Nothing was lost.
    Info,
    /// Something was left out or dropped. A failure in strict mode.
    Warning,
    /// The file is refused.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

impl Diagnostic {
    /// Renders the diagnostic as one line, `path: message (remedy) [code]`.
    pub fn render(&self, notation: Notation) -> String {
        let Self { path, message, code, .. } = self;
        format!("{path}: {}", notation.line(message, self.remedy.as_ref(), *code))
    }
}

/// `path: message [code]`, one line without the remedy.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.path, self.message, self.code)
    }
}
