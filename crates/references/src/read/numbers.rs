//! `NaN` and `Infinity` as Python writes them into JSON: bare words, which JSON does not allow.

use serde::de::Error as _;
use serde_json::Value;

/// Bare words and the text by which Zarr encodes them. `-Infinity` must precede `Infinity`.
const WORDS: [(&str, &str); 3] =
    [("-Infinity", "\"-Infinity\""), ("Infinity", "\"Infinity\""), ("NaN", "\"NaN\"")];

/// Parses JSON in which bare words count as text. Integers of more than 64 bits that a float would round are an error.
pub(crate) fn parse(text: &[u8]) -> Result<Value, serde_json::Error> {
    let strict = serde_json::from_slice(text);
    let Ok(text) = std::str::from_utf8(text) else { return strict };
    if let Some(integer) = large_integer(text) {
        return Err(serde_json::Error::custom(format!("integer {integer} has more than 64 bits")));
    }
    if strict.is_err() { serde_json::from_str(&quoted(text)).or(strict) } else { strict }
}

/// Returns the first integer of more than 64 bits that a float would round.
fn large_integer(text: &str) -> Option<&str> {
    if text.split(|c: char| !c.is_ascii_digit()).all(|digits| digits.len() < 19) {
        return None;
    }
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_len(rest),
            '-' | '0'..='9' => rest
                .find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'))
                .unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at_checked(length)?;
        let is_integer = token.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
        let is_large = is_integer && token.parse::<i64>().is_err() && token.parse::<u64>().is_err();
        if is_large && token.parse::<f64>().is_ok_and(|number| format!("{number:.0}") != token) {
            return Some(token);
        }
        rest = after;
    }
    None
}

/// Whether the text may contain bare words.
pub(crate) fn has_words(text: &str) -> bool {
    WORDS.iter().any(|(word, _)| text.contains(word))
}

/// Returns the text with its bare words quoted. Strings stay as they are.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = WORDS.iter().find(|(word, _)| rest.starts_with(word));
        let taken = match (first, word) {
            ('"', _) => string_len(rest),
            (_, Some((word, text))) => {
                out.push_str(text);
                rest = rest.get(word.len()..).unwrap_or_default();
                continue;
            }
            _ => first.len_utf8(),
        };
        let (head, tail) = rest.split_at_checked(taken).unwrap_or((rest, ""));
        out.push_str(head);
        rest = tail;
    }
    out
}

/// Returns the length in bytes of a JSON string with its quotes.
fn string_len(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let is_end = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn bare_words_become_text_and_strings_stay() {
        let read =
            parse(r#"{"a": NaN, "b": [-Infinity, Infinity, 1], "NaN \" Infinity": "é NaN"}"#.as_bytes())
                .unwrap();
        let expected = serde_json::json!({"a": "NaN", "b": ["-Infinity", "Infinity", 1],
            "NaN \" Infinity": "é NaN"});
        assert_eq!(read, expected);
        assert!(parse(b"{\"a\": nan}").is_err());
        assert!(parse(b"\"NaN").is_err());
    }

    #[test]
    fn integers_of_more_than_64_bits_are_refused() {
        let exact = br#"[18446744073709551615, -9223372036854775808, 0.12345678901234567890, 100000000000000000000, 1e400000000000000000000, "99999999999999999999"]"#;
        assert_eq!(large_integer(std::str::from_utf8(exact).unwrap()), None);
        for large in
            ["18446744073709551617", "-9223372036854775809", "[1,{\"a\":123456789012345678901234567890}]"]
        {
            let error = parse(large.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("has more than 64 bits"), "{error}");
        }
    }
}
