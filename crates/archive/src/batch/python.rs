//! Python code that opens an output.

use super::Target;

/// Returns the code that opens a group of an output.
pub(super) fn lines(target: &Target, output: &str, group: &str) -> Option<String> {
    let group = if group.is_empty() { String::new() } else { format!(", group={group:?}") };
    #[cfg_attr(not(feature = "icechunk"), expect(irrefutable_let_patterns, reason = "Icechunk is the other"))]
    let Target::References(format) = target else { return None };
    Some(format.python(output, &group))
}
