//! Names in the order that people give them: `b2` before `b10`.

/// A name as texts and numbers by turns.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Natural(Vec<(String, usize, String)>, String);

/// Sorts items by their names. Asks for each name once if the items are in order already.
pub(super) fn sort(items: &mut [u32], name: impl Fn(u32) -> String) {
    let mut before = None;
    let is_sorted = items.iter().all(|item| {
        let own = natural(&name(*item));
        let follows = before.as_ref().is_none_or(|before| *before <= own);
        before = Some(own);
        follows
    });
    if !is_sorted {
        items.sort_by_cached_key(|item| natural(&name(*item)));
    }
}

/// Returns the key by which a name is sorted.
fn natural(name: &str) -> Natural {
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
#[allow(clippy::indexing_slicing, reason = "a test fails by panicking")]
mod tests {
    use super::sort;

    #[test]
    fn numbers_count_as_numbers() {
        let names = ["b10", "b9", "a", "b010", "b1x2", "b1x10", "b99999999999999999999999"];
        let mut order: Vec<u32> = (0..7).collect();
        sort(&mut order, |item| names[item as usize].to_owned());
        let names: Vec<_> = order.into_iter().map(|item| names[item as usize]).collect();
        assert_eq!(names, ["a", "b1x2", "b1x10", "b9", "b010", "b10", "b99999999999999999999999"]);
        let mut descending = [2, 1, 0];
        sort(&mut descending, |item| item.to_string());
        assert_eq!(descending, [0, 1, 2]);
    }
}
