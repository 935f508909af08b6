//! Python code that opens an output.

use super::Target;

/// Returns the code that opens an output; of several groups, the first.
pub(super) fn lines(target: &Target, output: &str, groups: &[String]) -> Option<String> {
    let group = groups.first().filter(|group| !group.is_empty());
    let group = group.map(|group| format!(", group={group:?}")).unwrap_or_default();
    #[cfg_attr(not(feature = "icechunk"), expect(irrefutable_let_patterns, reason = "Icechunk is the other"))]
    let Target::References(format) = target else { return None };
    Some(format.python(output, &group))
}
