use std::fmt;

/// Something that a user should know about how a file was mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// How grave it is.
    pub severity: Severity,
    /// Stable name of its kind, such as `fill-value-dropped`.
    pub code: &'static str,
    /// Node it is about, `/`-rooted; "/" for the file.
    pub path: String,
    /// What happened and why, in one line.
    pub message: String,
    /// What the user can do, in one line.
    pub hint: Option<String>,
}

/// How grave a diagnostic is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Worth knowing; nothing was lost.
    Info,
    /// Something was left out or dropped; `--strict` makes it a failure.
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

/// `path: message (hint) [code]`, one line.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        write!(f, " [{}]", self.code)
    }
}
