//! kerchunk's JSON, parsed entry by entry: a document of ten million references is never held as a tree.
//! <https://fsspec.github.io/kerchunk/spec.html>

use std::{borrow::Cow, fmt};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use super::{Entry, Place, ReferencesError, hierarchy::Builder, templates::Templates};

/// Whether a key is that of a metadata document.
pub(crate) fn is_metadata(key: &str) -> bool {
    // Most keys are those of chunks.
    if key.ends_with(|last: char| last.is_ascii_digit()) {
        return false;
    }
    let name = key.rsplit('/').next().unwrap_or(key);
    matches!(name, ".zarray" | ".zgroup" | ".zattrs" | ".zmetadata" | "zarr.json")
}

/// Reads a document of version 0 (keys at its top) or 1 (keys in `refs`). If each array precedes its chunks, as writers of
/// version 1 order them, one pass suffices; otherwise, chunks are read in a second one.
///
/// # Errors
/// See [`ReferencesError`].
pub(crate) fn read_json(text: &str) -> Result<Builder, ReferencesError> {
    let (builder, templates) = (Builder::default(), Templates::new(&Map::new())?);
    let mut reader = Reader { builder, templates, is_second: false, failed: None };
    let read = Document(&mut reader).deserialize(&mut serde_json::Deserializer::from_str(text));
    let head = reader.checked(read)?;
    reader.builder.nodes()?;
    reader.templates = Templates::new(&head.templates)?;
    if reader.builder.is_late || !head.is_version_1 {
        reader.builder.clear_chunks();
        reader.is_second = true;
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read = if head.is_version_1 {
            Document(&mut reader).deserialize(&mut deserializer).map(drop)
        } else {
            Refs(&mut reader).deserialize(&mut deserializer)
        };
        reader.checked(read)?;
    }
    reader.templates.generate(&head.generators, &mut reader.builder)?;
    Ok(reader.builder)
}

/// State of reading a document.
struct Reader {
    builder: Builder,
    /// Empty in the first pass.
    templates: Templates,
    /// Whether only chunks are read.
    is_second: bool,
    /// The error of an entry, which ends reading.
    failed: Option<ReferencesError>,
}

impl Reader {
    /// Returns what was read, or the error of an entry.
    fn checked<T>(&mut self, read: serde_json::Result<T>) -> Result<T, ReferencesError> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => read.map_err(|error| ReferencesError::Json(error.to_string())),
        }
    }

    /// Returns whether the entry of a key is read in this pass.
    fn reads(&self, key: &str) -> bool {
        match is_metadata(key) {
            true => !self.is_second,
            false => self.is_second || !self.builder.is_late,
        }
    }

    fn entry(&mut self, key: &str, raw: RawEntry<'_>) -> Result<(), ReferencesError> {
        let is_chunk = !is_metadata(key);
        if is_chunk && !self.is_second && raw.has_template() {
            self.builder.is_late = true;
            return Ok(());
        }
        let entry = resolve(key, raw, &self.templates)?;
        if !is_chunk {
            let Entry::Inline(text) = entry else {
                return Err(ReferencesError::at(key, "metadata is stored in another file"));
            };
            let document = super::numbers::parse(&text).map_err(|error| ReferencesError::at(key, error))?;
            self.builder.document(key, document);
        } else if !self.builder.chunk(key, entry)? {
            match self.is_second {
                true => self.builder.ignore(key),
                false => self.builder.is_late = true,
            }
        }
        Ok(())
    }
}

/// Members of a document other than its references.
#[derive(Default)]
struct Head {
    is_version_1: bool,
    templates: Map<String, Value>,
    generators: Vec<Value>,
}

/// Reads a document, whose references are in `refs` or, in version 0, at its top. Of the latter, only metadata is read.
struct Document<'a>(&'a mut Reader);

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = Head;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Head, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = Head;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of references")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Head, A::Error> {
        let mut head = Head::default();
        let mut top = Vec::new();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match key.as_ref() {
                "refs" if head.is_version_1 => return Err(A::Error::custom("two members refs")),
                "refs" => {
                    head.is_version_1 = true;
                    map.next_value_seed(Refs(&mut *self.0))?;
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
                self.0.entry(&key, raw).map_err(|error| refused(self.0, error))?;
            }
        }
        Ok(head)
    }
}

/// Records the error of an entry. Returns one that ends reading.
fn refused<E: serde::de::Error>(reader: &mut Reader, error: ReferencesError) -> E {
    reader.failed = Some(error);
    E::custom("an entry was refused")
}

/// Reads an object of references.
struct Refs<'a>(&'a mut Reader);

impl<'de> DeserializeSeed<'de> for Refs<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Refs<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of references")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if self.0.reads(&key) {
                self.0.entry(&key, map.next_value()?).map_err(|error| refused(self.0, error))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
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

impl RawEntry<'_> {
    fn has_template(&self) -> bool {
        matches!(self, Self::Place(url, _) if url.contains("{{"))
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
            let url = if url.contains("{{") { Cow::Owned(templates.url(key, &url)?) } else { url };
            Ok(Entry::Place(Place { url, part }))
        }
        RawEntry::Invalid(found) => Err(refuse(found)),
    }
}
