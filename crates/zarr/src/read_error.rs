//! The error of parsing metadata documents.

use serde_json::Value;

/// A document that does not describe an array or group, or one that the model cannot represent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{member}: expected {expected}, found {found}")]
pub struct ReadError {
    /// The member of the document, such as `chunks`.
    pub member: &'static str,
    /// What was expected.
    pub expected: &'static str,
    /// What was found, shortened.
    pub found: String,
}

/// Creates an error with what was found, shortened.
pub(crate) fn unexpected(member: &'static str, expected: &'static str, found: &Value) -> ReadError {
    let mut text = found.to_string();
    if let Some((at, _)) = text.char_indices().nth(80) {
        text.truncate(at);
        text.push('…');
    }
    ReadError { member, expected, found: text }
}
