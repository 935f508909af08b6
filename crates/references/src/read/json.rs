//! kerchunk's JSON, parsed entry by entry: a document of ten million references is never held as a tree.
//! <https://fsspec.github.io/kerchunk/spec.html>

use std::{borrow::Cow, fmt};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
    value::MapAccessDeserializer,
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
    let read = Object { reader: &mut reader, is_refs: false }
        .deserialize(&mut serde_json::Deserializer::from_str(text));
    let head = reader.checked(read)?;
    reader.builder.nodes()?;
    reader.templates = Templates::new(&head.templates)?;
    if reader.builder.is_late || !head.is_version_1 {
        reader.builder.clear_chunks();
        reader.is_second = true;
        let mut deserializer = serde_json::Deserializer::from_str(text);
        // In version 0, the whole document is the references.
        let object = Object { reader: &mut reader, is_refs: !head.is_version_1 };
        let read = object.deserialize(&mut deserializer);
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
        let has_template = || matches!(&raw, RawEntry::Place(place) if place.url.contains("{{"));
        if is_chunk && !self.is_second && has_template() {
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

/// Reads an object: a document, whose references are in `refs` or, in version 0, at its top, of which only metadata is read;
/// or these references.
struct Object<'a> {
    reader: &'a mut Reader,
    is_refs: bool,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = Head;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Head, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = Head;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of references")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Head, A::Error> {
        let Self { reader, is_refs } = self;
        let mut head = Head::default();
        let mut top = Vec::new();
        while let Some(Text(key)) = map.next_key()? {
            match key.as_ref() {
                key if is_refs && reader.reads(key) => {
                    let raw =
                        map.next_value().map_err(|error| A::Error::custom(format!("{key}: {error}")))?;
                    reader.entry(key, raw).map_err(|error| refused(reader, error))?;
                }
                "refs" if !is_refs && head.is_version_1 => return Err(A::Error::custom("two members refs")),
                "refs" if !is_refs => {
                    head.is_version_1 = true;
                    map.next_value_seed(Object { reader: &mut *reader, is_refs: true })?;
                }
                "templates" if !is_refs => head.templates = map.next_value()?,
                "gen" if !is_refs => head.generators = map.next_value()?,
                "version" if !is_refs => {
                    let version: Value = map.next_value()?;
                    if version.as_u64().is_none_or(|version| version > 1) {
                        return Err(A::Error::custom(format!("version {version}, expected 0 or 1")));
                    }
                }
                key if !is_refs && is_metadata(key) => {
                    top.push((key.to_owned(), map.next_value::<RawEntry<'de>>()?));
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if !head.is_version_1 {
            for (key, raw) in top {
                reader.entry(&key, raw).map_err(|error| refused(reader, error))?;
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

/// Text, borrowed from the document if it has no escapes.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The value of a key, before base64 is decoded and templates are rendered.
enum RawEntry<'de> {
    Text(Cow<'de, str>),
    Document(Map<String, Value>),
    Place(Place<'de>),
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
        f.write_str("text, [url] or [url, offset, length]")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<RawEntry<'de>, E> {
        Ok(RawEntry::Text(text.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<RawEntry<'de>, E> {
        Ok(RawEntry::Text(text.to_owned().into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawEntry<'de>, A::Error> {
        Map::deserialize(MapAccessDeserializer::new(map)).map(RawEntry::Document)
    }

    /// `null` counts as missing.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawEntry<'de>, A::Error> {
        let url = list.next_element()?.map(|Text(url)| url);
        let [offset, length]: [Option<u64>; 2] =
            [list.next_element()?.flatten(), list.next_element()?.flatten()];
        match (url, offset, length, list.next_element::<IgnoredAny>()?) {
            (Some(url), None, None, None) => Ok(RawEntry::Place(Place { url, part: None })),
            (Some(url), Some(offset), Some(length), None) => {
                Ok(RawEntry::Place(Place { url, part: Some((offset, length)) }))
            }
            _ => Err(A::Error::custom("another list, expected [url] or [url, offset, length]")),
        }
    }
}

/// Decodes base64, and renders the templates of a url.
fn resolve<'a>(key: &str, raw: RawEntry<'a>, templates: &Templates) -> Result<Entry<'a>, ReferencesError> {
    match raw {
        RawEntry::Text(text) => match text.strip_prefix("base64:") {
            Some(encoded) => {
                let bytes = BASE64_STANDARD.decode(encoded);
                let bytes = bytes.map_err(|error| ReferencesError::at(key, format!("base64: {error}")))?;
                Ok(Entry::Inline(bytes.into()))
            }
            None => Ok(Entry::Inline(text.into_owned().into())),
        },
        RawEntry::Document(document) => Ok(Entry::Inline(Value::Object(document).to_string().into())),
        RawEntry::Place(Place { url, part }) => {
            let url = if url.contains("{{") { templates.url(key, &url)?.into() } else { url };
            Ok(Entry::Place(Place { url, part }))
        }
    }
}
