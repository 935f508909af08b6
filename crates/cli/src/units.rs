//! Numbers as people read them.

/// Returns a quotient with one digit after the point.
pub(crate) fn tenth(count: u64, of: u64) -> String {
    let tenths = count.saturating_mul(10) / of;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Returns bytes in a unit that gives few digits.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(|| format!("{bytes} bytes"), |(unit, name)| format!("{} {name}", tenth(bytes, unit)))
}

/// Returns a count with commas between groups of three digits.
pub(crate) fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns a count with its noun, which has a plural in "s".
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_sizes_have_a_unit() {
        assert_eq!([thousands(0), thousands(999), thousands(1_234_567)], ["0", "999", "1,234,567"]);
        assert_eq!([counted(1, "array"), counted(1000, "array")], ["1 array", "1,000 arrays"]);
        assert_eq!([size(1023), size(1536), size(5 << 30)], ["1023 bytes", "1.5 KiB", "5.0 GiB"]);
    }
}
