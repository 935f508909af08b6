//! `NaN` and `Infinity` as Python writes them into JSON: bare words, which JSON does not allow.

use serde_json::Value;

/// Bare words and the text by which Zarr encodes them. `-Infinity` must precede `Infinity`.
const WORDS: [(&str, &str); 3] =
    [("-Infinity", "\"-Infinity\""), ("Infinity", "\"Infinity\""), ("NaN", "\"NaN\"")];

/// Parses JSON in which bare words count as text.
pub(crate) fn parse(text: &[u8]) -> Result<Value, serde_json::Error> {
    let strict = serde_json::from_slice(text);
    match (&strict, std::str::from_utf8(text)) {
        (Err(_), Ok(text)) => serde_json::from_str(&quoted(text)).or(strict),
        _ => strict,
    }
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
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let is_end = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
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
}
