//! kerchunk's JSON, parsed entry by entry: a document of ten million references is never held as a tree.
//! <https://fsspec.github.io/kerchunk/spec.html>

use std::{borrow::Cow, fmt};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use super::{Entry, Place, ReferenceSink, ReferencesError, templates::Templates};

/// Whether a key is that of a metadata document.
pub(crate) fn is_metadata(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or(key);
    matches!(name, ".zarray" | ".zgroup" | ".zattrs" | ".zmetadata" | "zarr.json")
}

/// Reads a document of version 0 (keys at its top) or 1 (keys in `refs`): first its metadata documents, then the chunks.
/// Entries are passed to `documents`, then, after `between`, to the sink that it returns.
///
/// # Errors
/// See [`ReferencesError`].
pub fn read_json<S: ReferenceSink>(
    text: &[u8],
    mut documents: impl ReferenceSink,
    between: impl FnOnce() -> Result<S, ReferencesError>,
) -> Result<S, ReferencesError> {
    let json = |error: serde_json::Error| ReferencesError::Json(error.to_string());
    let mut failed = None;
    let head = HeadSeed { sink: &mut documents, failed: &mut failed };
    let head = head.deserialize(&mut serde_json::Deserializer::from_slice(text));
    if let Some(error) = failed {
        return Err(error);
    }
    let head = head.map_err(json)?;
    let mut sink = between()?;
    let templates = Templates::new(&head.templates)?;
    let mut failed = None;
    let (sink_of, is_metadata) = (&mut sink, false);
    let entries = EntriesSeed { is_metadata, sink: sink_of, templates: &templates, failed: &mut failed };
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let read = match head.is_version_1 {
        true => RefsOf(entries).deserialize(&mut deserializer),
        false => entries.deserialize(&mut deserializer),
    };
    if let Some(error) = failed {
        return Err(error);
    }
    read.map_err(json)?;
    templates.generate(&head.generators, &mut sink)?;
    Ok(sink)
}

/// Members of a document other than its references.
#[derive(Default)]
struct Head {
    is_version_1: bool,
    templates: Map<String, Value>,
    generators: Vec<Value>,
}

/// Reads the head, and passes metadata documents to a sink.
struct HeadSeed<'a, S> {
    sink: &'a mut S,
    failed: &'a mut Option<ReferencesError>,
}

impl<'de, S: ReferenceSink> DeserializeSeed<'de> for HeadSeed<'_, S> {
    type Value = Head;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Head, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: ReferenceSink> Visitor<'de> for HeadSeed<'_, S> {
    type Value = Head;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of references")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Head, A::Error> {
        let mut head = Head::default();
        // Metadata documents, unless the document is of version 1.
        let mut top = Vec::new();
        // Metadata documents contain no urls.
        let templates = Templates::new(&Map::new()).map_err(A::Error::custom)?;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match key.as_ref() {
                "refs" => {
                    head.is_version_1 = true;
                    map.next_value_seed(EntriesSeed {
                        is_metadata: true,
                        sink: &mut *self.sink,
                        templates: &templates,
                        failed: &mut *self.failed,
                    })?;
                }
                "templates" => head.templates = map.next_value()?,
                "gen" => head.generators = map.next_value()?,
                "version" => {
                    let version: Value = map.next_value()?;
                    if version.as_u64().is_none_or(|version| version > 1) {
                        return Err(A::Error::custom(format!("version {version}, expected 0 or 1")));
                    }
                }
                _ if is_metadata(&key) => top.push((key, map.next_value::<RawEntry<'de>>()?)),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if !head.is_version_1 {
            for (key, raw) in top {
                pass(&key, raw, &mut *self.sink, &templates, self.failed)?;
            }
        }
        Ok(head)
    }
}

/// Passes an entry to a sink.
fn pass<E: serde::de::Error>(
    key: &str,
    raw: RawEntry<'_>,
    sink: &mut impl ReferenceSink,
    templates: &Templates,
    failed: &mut Option<ReferencesError>,
) -> Result<(), E> {
    resolve(key, raw, templates).and_then(|entry| sink.entry(key, entry)).map_err(|error| {
        *failed = Some(error);
        E::custom("an entry was refused")
    })
}

/// The member `refs` of a document.
struct RefsOf<S>(S);

impl<'de, S: DeserializeSeed<'de, Value = ()>> DeserializeSeed<'de> for RefsOf<S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: DeserializeSeed<'de, Value = ()>> Visitor<'de> for RefsOf<S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with refs")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seed = Some(self.0);
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match (key.as_ref(), seed.take()) {
                ("refs", Some(seed)) => map.next_value_seed(seed)?,
                ("refs", None) => return Err(A::Error::custom("two members refs")),
                (_, kept) => {
                    seed = kept;
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Passes metadata documents, or all other entries, of an object to a sink.
struct EntriesSeed<'a, S> {
    is_metadata: bool,
    sink: &'a mut S,
    templates: &'a Templates,
    failed: &'a mut Option<ReferencesError>,
}

impl<'de, S: ReferenceSink> DeserializeSeed<'de> for EntriesSeed<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: ReferenceSink> Visitor<'de> for EntriesSeed<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of references")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if is_metadata(&key) != self.is_metadata {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            pass(&key, map.next_value()?, self.sink, self.templates, self.failed)?;
        }
        Ok(())
    }
}

/// The value of a key, before templates are rendered.
enum RawEntry<'de> {
    Text(Cow<'de, str>),
    Place(Cow<'de, str>, Option<(u64, u64)>),
    Document(Map<String, Value>),
    /// Any other JSON, shortened.
    Invalid(String),
}

impl<'de> Deserialize<'de> for RawEntry<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawEntryVisitor)
    }
}

struct RawEntryVisitor;

impl<'de> Visitor<'de> for RawEntryVisitor {
    type Value = RawEntry<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a list or an object")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<RawEntry<'de>, E> {
        Ok(RawEntry::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<RawEntry<'de>, E> {
        Ok(RawEntry::Text(Cow::Owned(text.to_owned())))
    }

    /// `[url]` or `[url, offset, length]`, where `null` counts as missing.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawEntry<'de>, A::Error> {
        let Some(url) = list.next_element::<Cow<'de, str>>()? else {
            return Ok(RawEntry::Invalid("[]".to_owned()));
        };
        let part = match (list.next_element::<Value>()?, list.next_element::<Value>()?) {
            (None | Some(Value::Null), None | Some(Value::Null)) => Some(None),
            (Some(offset), Some(length)) => offset.as_u64().zip(length.as_u64()).map(Some),
            _ => None,
        };
        let has_more = list.next_element::<IgnoredAny>()?.is_some();
        match part {
            Some(part) if !has_more => Ok(RawEntry::Place(url, part)),
            _ => Ok(RawEntry::Invalid("another list".to_owned())),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawEntry<'de>, A::Error> {
        Map::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(RawEntry::Document)
    }

    fn visit_u64<E>(self, number: u64) -> Result<RawEntry<'de>, E> {
        Ok(RawEntry::Invalid(number.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<RawEntry<'de>, E> {
        Ok(RawEntry::Invalid(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<RawEntry<'de>, E> {
        Ok(RawEntry::Invalid(number.to_string()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<RawEntry<'de>, E> {
        Ok(RawEntry::Invalid(value.to_string()))
    }

    fn visit_unit<E>(self) -> Result<RawEntry<'de>, E> {
        Ok(RawEntry::Invalid("null".to_owned()))
    }
}

/// Decodes base64 and renders the templates of a url.
fn resolve<'a>(key: &str, raw: RawEntry<'a>, templates: &Templates) -> Result<Entry<'a>, ReferencesError> {
    let refuse = |found: String| {
        let expected = "text, [url] or [url, offset, length]";
        ReferencesError::at(key, format!("expected {expected}, found {found}"))
    };
    match raw {
        RawEntry::Text(text) => match text.strip_prefix("base64:") {
            Some(encoded) => {
                let bytes = BASE64_STANDARD.decode(encoded);
                let bytes = bytes.map_err(|error| refuse(format!("base64 with {error}")))?;
                Ok(Entry::Inline(bytes.into()))
            }
            None => Ok(Entry::Inline(text.into_owned().into())),
        },
        RawEntry::Document(document) => Ok(Entry::Inline(Value::Object(document).to_string().into())),
        RawEntry::Place(url, part) => {
            let url = match url.contains("{{") {
                true => Cow::Owned(templates.url(key, &url)?),
                false => url,
            };
            Ok(Entry::Place(Place { url, part }))
        }
        RawEntry::Invalid(found) => Err(refuse(found)),
    }
}
