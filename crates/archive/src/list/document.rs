//! Parses catalogue documents from JSON, without the members that describe no files. The number of values bounds the
//! memory: a parsed value takes many times the bytes of its text.

use std::{cell::Cell, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Maximum number of values in a document.
const MOST: u64 = 2_000_000;
/// Large members that no caller needs.
const SKIPPED: [&str; 3] = ["geometry", "bbox", "proj:geometry"];

/// Parses a document.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    parse_at_most(bytes, MOST)
}

fn parse_at_most(bytes: &[u8], most: u64) -> Result<Value, serde_json::Error> {
    let left = Cell::new(most);
    let mut text = serde_json::Deserializer::from_slice(bytes);
    let value = Values(&left).deserialize(&mut text)?;
    text.end()?;
    Ok(value)
}

/// Parses values until the document's allowance is used up.
#[derive(Clone, Copy)]
struct Values<'a>(&'a Cell<u64>);

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        let left = self.0.get().checked_sub(1);
        self.0.set(left.ok_or_else(|| D::Error::custom("it has too many values for a catalogue"))?);
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = Value;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = from.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = from.next_key::<String>()? {
            if SKIPPED.contains(&name.as_str()) {
                from.next_value::<IgnoredAny>()?;
            } else {
                members.insert(name, from.next_value_seed(self)?);
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_read_without_their_geometries() {
        let text = br#"{"type": "Feature", "a": [1, -2, 2.5, "x", null, true, {}], "geometry": {"b": [1]}, "bbox": [1]}"#;
        let expected = json!({"type": "Feature", "a": [1, -2, 2.5, "x", null, true, {}]});
        assert_eq!(parse(text).unwrap(), expected);
        for wrong in ["", "{", "{} {}", "[1,]", "{\"geometry\": }", "nul"] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn documents_of_too_many_values_are_refused() {
        let text = format!("[{}0]", "0,".repeat(100));
        assert!(parse_at_most(text.as_bytes(), 102).is_ok());
        let error = parse_at_most(text.as_bytes(), 101).unwrap_err().to_string();
        assert!(error.contains("too many values"), "{error}");
        let geometry = format!("{{\"geometry\": {text}}}");
        assert!(parse_at_most(geometry.as_bytes(), 1).is_ok());
        assert!(parse("[".repeat(1 << 20).as_bytes()).is_err());
    }
}
