//! Option values as text: from the command line, a query or a JSON member.

use std::{borrow::Cow, fmt::Display, str::FromStr};

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;
use virtualize_remedy::similar;

/// A value that an option does not accept.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected {expected}")]
pub struct InvalidValue {
    expected: Cow<'static, str>,
}

impl InvalidValue {
    /// Returns the error of an option that accepts only `expected`.
    pub fn expected(expected: impl Into<Cow<'static, str>>) -> Self {
        Self { expected: expected.into() }
    }

    /// Returns the error of an option that accepts only one of `names`.
    pub fn one_of(given: &str, names: &[&str]) -> Self {
        let meant = similar(given, names.iter().copied());
        let meant = meant.map(|name| format!("; did you mean \"{name}\"?")).unwrap_or_default();
        Self::expected(format!("one of {}{meant}", names.join(", ")))
    }
}

/// Parses a number of bytes, at least 1, such as `1000`, `64K`, `512M` or `2G`.
///
/// # Errors
/// Any other text, and sizes of 2⁶⁴ bytes or more.
pub fn parse_size(text: &str) -> Result<u64, InvalidValue> {
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (text.get(..at), 1 << 10),
        Some((at, 'm' | 'M')) => (text.get(..at), 1 << 20),
        Some((at, 'g' | 'G')) => (text.get(..at), 1 << 30),
        _ => (Some(text), 1),
    };
    let bytes = digits.and_then(parse_digits).and_then(|count: u64| count.checked_mul(unit));
    let expected = "a number of bytes from 1 on, such as 1000 or 64M";
    bytes.filter(|bytes| *bytes > 0).ok_or(InvalidValue::expected(expected))
}

/// Parses a number of bytes as [`parse_size`] does, or 0.
///
/// # Errors
/// As [`parse_size`].
pub fn parse_limit(text: &str) -> Result<u64, InvalidValue> {
    if text == "0" { Ok(0) } else { parse_size(text) }
}

/// Parses `KEY=VALUE`.
///
/// # Errors
/// Text without `=`, or without a key.
pub fn parse_pair(text: &str) -> Result<(String, String), InvalidValue> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(InvalidValue::expected("KEY=VALUE")),
    }
}

/// Parses a count of at least one.
///
/// # Errors
/// Any other text.
pub fn parse_count(text: &str) -> Result<usize, InvalidValue> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or(InvalidValue::expected("a number from 1 on"))
}

/// Parses decimal digits only: no sign, no space.
pub fn parse_digits<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Deserializes a switch: a Boolean, or a query's `true`, `false`, `1`, `0` or empty text, which turns it on.
pub(super) fn switch<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    match scalar(from)?.as_str() {
        "false" | "0" => Ok(false),
        "" | "true" | "1" => Ok(true),
        _ => Err(D::Error::custom("expected true or false")),
    }
}

/// Deserializes a number of bytes: an integer, or text such as `64K`.
///
/// # Errors
/// Any other value.
pub fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    parse_limit(&scalar(from)?).map(Some).map_err(D::Error::custom)
}

/// Deserializes a count of at least one.
///
/// # Errors
/// Any other value.
pub fn count<'de, D: Deserializer<'de>, T: From<usize>>(from: D) -> Result<T, D::Error> {
    parse_count(&scalar(from)?).map(T::from).map_err(D::Error::custom)
}

/// Deserializes values from a list, or from comma-separated text.
pub(super) fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let texts = separated(from)?;
    texts.iter().map(|one| one.parse().map_err(D::Error::custom)).collect()
}

/// Deserializes the elements of a list, or the parts of comma-separated text.
pub(super) fn separated<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    match Value::deserialize(from)? {
        Value::Array(values) => values.into_iter().map(|one| scalar(one).map_err(D::Error::custom)).collect(),
        value => {
            let text = scalar(value).map_err(D::Error::custom)?;
            Ok(text.split(',').map(str::to_owned).collect())
        }
    }
}

/// Deserializes a list of texts; a text alone is a list of one.
///
/// # Errors
/// Anything else.
pub fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let invalid = || D::Error::custom("expected a text or a list of texts");
    match Value::deserialize(from)? {
        Value::String(text) => Ok(vec![text]),
        Value::Array(values) => {
            let text = |value| if let Value::String(text) = value { Ok(text) } else { Err(invalid()) };
            values.into_iter().map(text).collect()
        }
        _ => Err(invalid()),
    }
}

/// Deserializes an optional value from text.
///
/// # Errors
/// That of [`FromStr`].
pub fn from_text<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    String::deserialize(from)?.parse().map(Some).map_err(D::Error::custom)
}

/// Deserializes an object of texts, such as `{"member": "realization"}`, or texts such as `member=realization`.
///
/// # Errors
/// Anything else.
pub fn pairs<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, String)>, D::Error> {
    let value = Value::deserialize(from)?;
    if let Value::Object(members) = value {
        let pair = |(key, value)| match value {
            Value::String(value) => Ok((key, value)),
            _ => Err(D::Error::custom("expected a mapping of text to text")),
        };
        return members.into_iter().map(pair).collect();
    }
    let texts = texts(value).map_err(|_| D::Error::custom("expected a mapping of text to text"))?;
    texts.iter().map(|text| parse_pair(text).map_err(D::Error::custom)).collect()
}

/// Deserializes text, or a JSON value that has one obvious notation as text.
pub(super) fn scalar<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    match Value::deserialize(from)? {
        Value::String(text) => Ok(text),
        value @ (Value::Bool(_) | Value::Number(_)) => Ok(value.to_string()),
        _ => Err(D::Error::custom("expected a text, a number, true or false")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(["1000", "2k", "64M", "1G"].map(parse_size), [1000, 2048, 64 << 20, 1 << 30].map(Ok));
        for text in ["", "0", "M", "-1", "+1", "1.5M", "99999999999G", "é"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!(parse_limit("0"), Ok(0));
    }

    #[test]
    fn lists_are_lists_or_text() {
        let numbers = |value| list::<_, u8>(value).ok();
        for value in [json!("1,2"), json!([1, 2]), json!(["1", 2])] {
            assert_eq!(numbers(value), Some(vec![1, 2]));
        }
        assert!(numbers(json!({"1": 2})).is_none() && numbers(json!([[1]])).is_none());
        assert_eq!(texts(json!("a,b")).ok(), Some(vec!["a,b".to_owned()]));
        assert!(texts(json!(["a", 1])).is_err() && texts(json!(true)).is_err());
        assert_eq!(size(json!("64K")).ok(), Some(Some(65536)));
        assert!(count::<_, usize>(json!(0)).is_err() && size(json!(-1)).is_err());
    }

    #[test]
    fn pairs_have_a_key() {
        assert_eq!(parse_pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(parse_pair("=b").is_err() && parse_pair("a").is_err());
        let expected = Some(vec![("a".to_owned(), "b".to_owned())]);
        for value in [json!({"a": "b"}), json!("a=b"), json!(["a=b"])] {
            assert_eq!(pairs(value).ok(), expected);
        }
        assert!(pairs(json!({"a": 1})).is_err() && pairs(json!("a")).is_err());
    }
}
