//! Names in the order that people give them: `b2` before `b10`.

/// A name as texts and numbers by turns.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Natural(Vec<(String, usize, String)>, String);

/// What a name is sorted by.
pub(super) fn natural(name: &str) -> Natural {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits_at = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, tail) = rest.split_at(digits_at);
        let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (digits, tail) = tail.split_at(end);
        let number = digits.trim_start_matches('0');
        parts.push((text.to_owned(), number.len(), number.to_owned()));
        rest = tail;
    }
    // Names that differ by zeros alone still have an order.
    Natural(parts, name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::natural;

    #[test]
    fn numbers_count_as_numbers() {
        let mut names = ["b10", "b9", "a", "b010", "b1x2", "b1x10", "b99999999999999999999999"];
        names.sort_by_cached_key(|name| natural(name));
        assert_eq!(names, ["a", "b1x2", "b1x10", "b9", "b010", "b10", "b99999999999999999999999"]);
    }
}
