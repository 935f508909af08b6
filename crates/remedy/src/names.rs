/// Maximum number of names that a message lists.
const MAX_LISTED: usize = 8;
/// Minimum similarity (Jaro) of a suggestion, which is that of clap.
const MIN_SIMILARITY: f64 = 0.7;

/// Returns the name that is most similar to `given`, ignoring case; `None` if no name is similar. A path counts as similar
/// if its last part is.
pub fn similar<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    let score = |name: &str| {
        let name = name.to_lowercase();
        let last = name.rsplit('/').next().unwrap_or(&name);
        strsim::jaro(&given, &name).max(strsim::jaro(&given, last))
    };
    let scored = names.into_iter().map(|name| (score(name), name));
    let best =
        scored.filter(|(score, _)| *score > MIN_SIMILARITY).reduce(|best, next| match next.0 > best.0 {
            true => next,
            false => best,
        });
    best.map(|(_, name)| name)
}

/// Returns the end of a message about a name that does not exist: `; did you mean "time"? existing dimensions: lat, time`.
///
/// `kind` is what the names are, in the plural. A long list is shortened.
pub fn alternatives<'a>(kind: &str, given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().collect();
    if names.is_empty() {
        return format!("; there are no {kind}");
    }
    let meant = similar(given, names.iter().copied());
    let meant = meant.map(|name| format!(" did you mean \"{name}\"?")).unwrap_or_default();
    let shown = names.get(..MAX_LISTED).unwrap_or(&names).join(", ");
    let more = match names.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(";{meant} existing {kind}: {shown}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_most_similar_name() {
        assert_eq!(similar("tiem", ["lat", "lon", "time", "timer"]), Some("time"));
        assert_eq!(similar("Temperature", ["tos", "temperature"]), Some("temperature"));
        assert_eq!(
            similar("tempertur", ["surface/temperature", "surface/salinity"]),
            Some("surface/temperature")
        );
        assert_eq!(similar("x", ["lat", "lon"]), None);
        assert_eq!(similar("x", []), None);
    }

    #[test]
    fn lists_are_short() {
        assert_eq!(
            alternatives("dimensions", "tiem", ["lat", "time"]),
            "; did you mean \"time\"? existing dimensions: lat, time"
        );
        assert_eq!(alternatives("dimensions", "q", ["lat"]), "; existing dimensions: lat");
        assert_eq!(alternatives("dimensions", "q", []), "; there are no dimensions");
        let many: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
        let text = alternatives("arrays", "q", many.iter().map(String::as_str));
        assert!(text.ends_with("n6, n7 and 12 more"), "{text}");
    }
}
