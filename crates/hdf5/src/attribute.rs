//! Attribute message, 0x000C (specification IV.A.2.m), and Attribute Info message, 0x0015 (IV.A.2.v).
//!
//! ```text
//! version 1: 1 | - | name length 2 | datatype length 2 | dataspace length 2 | the three, each filled to 8 | data
//! version 2: 2 | flags: 0 datatype shared, 1 dataspace shared | the lengths | the three | data
//! version 3: as 2, with the name's character set after the lengths
//! info: 0 | flags | (flag 0) largest creation index 2 | fractal heap O | name B-tree O | (flag 1) creation B-tree O
//! ```

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::{
    Error,
    cursor::{Format, Reader, padding_to_eight, slice, text_before_nul},
    dataspace, datatype,
    global_heap::fetch_collections,
    groups::{DenseKind, read_dense},
    io::Io,
    model::{Attribute, Dataspace, Datatype},
    object_header::{Header, kind},
    shared::{self, Body, SharedMessages, SharedReference},
    value::{Collections, Decoder},
};

/// An attribute whose datatype and dataspace may be shared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AttributeMessage {
    pub(crate) name: String,
    pub(crate) datatype: Part,
    pub(crate) dataspace: Part,
    /// Elements as stored.
    pub(crate) data: Bytes,
}

/// A datatype or dataspace message of an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// The message is part of the attribute.
    Here {
        /// Address of the message.
        address: u64,
        /// Body of the message.
        bytes: Bytes,
    },
    /// The message is shared.
    Shared(SharedReference),
}

/// Parses an attribute message.
pub(crate) fn parse(bytes: &Bytes, address: u64, format: Format) -> Result<AttributeMessage, Error> {
    let mut reader = Reader::new("attribute message", bytes, address, format);
    let version = reader.version(1..=3)?;
    let flags = if version == 1 { reader.skip(1).map(|()| 0)? } else { reader.u8()? };
    let lengths = [reader.u16()?, reader.u16()?, reader.u16()?].map(u64::from);
    reader.skip(if version == 3 { 1 } else { 0 })?;
    let mut next = |length: u64| {
        let part = (reader.position(), reader.take(length)?);
        reader.skip(if version == 1 { padding_to_eight(length) } else { 0 })?;
        Ok::<_, Error>(part)
    };
    let [name, datatype, dataspace] = [next(lengths[0])?, next(lengths[1])?, next(lengths[2])?];
    let start = reader.position().saturating_sub(address);
    Ok(AttributeMessage {
        name: text_before_nul(name.1),
        datatype: part(datatype, flags & 1 != 0, kind::DATATYPE, format)?,
        dataspace: part(dataspace, flags & 2 != 0, kind::DATASPACE, format)?,
        data: slice(bytes, start, bytes.len() as u64).unwrap_or_default(),
    })
}

fn part((address, bytes): (u64, &[u8]), is_shared: bool, kind: u16, format: Format) -> Result<Part, Error> {
    if is_shared {
        Ok(Part::Shared(shared::parse(bytes, address, kind, format)?))
    } else {
        Ok(Part::Here { address, bytes: Bytes::copy_from_slice(bytes) })
    }
}

/// Dense storage of attributes or links, which are too many for the object header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DenseStorage {
    /// Address of the fractal heap that contains them.
    pub(crate) heap: u64,
    /// Address of the version 2 B-tree that indexes them by name.
    pub(crate) names: u64,
}

/// Parses an Attribute Info message. Returns `None` if all attributes are in the object header.
pub(crate) fn parse_info(bytes: &[u8], address: u64, format: Format) -> Result<Option<DenseStorage>, Error> {
    let mut reader = Reader::new("attribute info message", bytes, address, format);
    reader.version(0..=0)?;
    let flags = reader.u8()?;
    reader.skip(if flags & 1 == 0 { 0 } else { 2 })?;
    if flags > 3 {
        return Err(reader.malformed(format!("flags {flags:#04x}, expected at most 3")));
    }
    dense_storage(&mut reader, flags)
}

/// Reads the addresses of heap and name index, of which both or neither must be defined, and of the creation index, if
/// flag 1 is set.
pub(crate) fn dense_storage(reader: &mut Reader<'_>, flags: u8) -> Result<Option<DenseStorage>, Error> {
    let (heap, names) = (reader.address()?, reader.address()?);
    if flags & 2 != 0 {
        reader.address()?;
    }
    match (heap, names) {
        (None, _) => Ok(None),
        (Some(heap), Some(names)) => Ok(Some(DenseStorage { heap, names })),
        (Some(_), None) => Err(reader.malformed("undefined name index address, expected a defined one")),
    }
}

// Reads the attributes of all objects together: dense ones from their heaps, shared parts from their headers and
// heaps, variable-length values from the global heap.

/// The attributes of one object, and the errors of those that could not be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) read: Vec<Attribute>,
    pub(crate) unreadable: Vec<Error>,
}

/// An attribute message before shared ones are resolved.
enum Found {
    Here(Body),
    Shared(SharedReference),
    Failed(Error),
}

/// Memory in bytes for an attribute, in addition to its name and its values.
const ATTRIBUTE_BYTES: u64 = 192;

/// An attribute in progress.
struct Pending {
    object: usize,
    stage: Stage,
}

enum Stage {
    Found(Found),
    Parsed(Box<AttributeMessage>),
    Typed(Box<Typed>),
    Done(Attribute),
    Failed(Error),
}

/// An attribute with its datatype and dataspace, whose value is not decoded.
struct Typed {
    name: String,
    datatype: Datatype,
    dataspace: Dataspace,
    data: bytes::Bytes,
}

/// Reads the attributes of each object, in the order of `headers`.
pub(crate) async fn read_attributes(
    io: &Io<'_>,
    format: Format,
    headers: &[&Header],
    shared: &mut SharedMessages,
) -> Result<Vec<Attributes>, Error> {
    let mut pending = Vec::new();
    let mut dense = Vec::new();
    for (object, header) in headers.iter().enumerate() {
        for message in header.all(kind::ATTRIBUTE) {
            let body = Body { address: message.address, bytes: message.body.clone() };
            let found = if message.shared {
                let reference = shared::parse(&body.bytes, body.address, kind::ATTRIBUTE, format);

                match reference {
                    Ok(reference) => Found::Shared(reference),
                    Err(error) => Found::Failed(error),
                }
            } else {
                Found::Here(body)
            };
            pending.push(Pending { object, stage: Stage::Found(found) });
        }
        let info = header.find(kind::ATTRIBUTE_INFO).map(|m| parse_info(&m.body, m.address, format));
        match info {
            Some(Ok(Some(storage))) => dense.push((object, storage)),
            Some(Err(error)) => pending.push(Pending { object, stage: Stage::Failed(error) }),
            Some(Ok(None)) | None => {}
        }
    }
    let storages: Vec<_> = dense.iter().map(|(_, storage)| *storage).collect();
    let read = read_dense(io, format, DenseKind::Attributes, &storages).await?;
    for ((object, _), entries) in dense.into_iter().zip(read) {
        match entries {
            Ok(mut entries) => {
                entries.sort_by_key(|(entry, _)| entry.creation);
                let found = entries.into_iter().map(|(entry, bytes)| {
                    let found = match bytes {
                        None => Found::Shared(SharedReference::Heap { kind: kind::ATTRIBUTE, id: entry.id }),
                        Some(Ok(o)) => Found::Here(Body { address: o.address, bytes: o.bytes }),
                        Some(Err(error)) => Found::Failed(error),
                    };
                    Pending { object, stage: Stage::Found(found) }
                });
                pending.extend(found);
            }
            Err(error) => pending.push(Pending { object, stage: Stage::Failed(error) }),
        }
    }
    let mut pending = pending;
    resolve_messages(io, format, &mut pending, shared).await?;
    let mut references = BTreeSet::new();
    for Pending { stage, .. } in &pending {
        let Stage::Parsed(parsed) = stage else { continue };
        for part in [&parsed.datatype, &parsed.dataspace] {
            if let Part::Shared(reference) = part {
                references.insert(*reference);
            }
        }
    }
    shared.look_up(io, format, references).await?;
    for Pending { stage, .. } in &mut pending {
        let Stage::Parsed(parsed) = &mut *stage else { continue };
        for part in [&parsed.datatype, &parsed.dataspace] {
            if let Part::Shared(reference) = part {
                shared.hold(io, *reference)?;
            }
        }
        let typed = type_of(parsed, format, shared);
        *stage = typed.map_or_else(Stage::Failed, |typed| Stage::Typed(Box::new(typed)));
    }
    decode_all(io, format, &mut pending).await?;
    let mut attributes: Vec<_> = headers.iter().map(|_| Attributes::default()).collect();
    for Pending { object, stage, .. } in pending {
        let Some(attributes) = attributes.get_mut(object) else { continue };
        match stage {
            Stage::Done(attribute) => attributes.read.push(attribute),
            Stage::Failed(error) => attributes.unreadable.push(error),
            Stage::Found(_) | Stage::Parsed(_) | Stage::Typed(_) => {}
        }
    }
    Ok(attributes)
}

/// Resolves messages that are shared as a whole, then parses all.
async fn resolve_messages(
    io: &Io<'_>,
    format: Format,
    pending: &mut [Pending],
    shared: &mut SharedMessages,
) -> Result<(), Error> {
    let references = pending.iter().filter_map(|pending| match &pending.stage {
        Stage::Found(Found::Shared(reference)) => Some(*reference),
        _ => None,
    });
    shared.look_up(io, format, references.collect()).await?;
    for Pending { stage, .. } in pending {
        let Stage::Found(found) = &*stage else { continue };
        let body = match found {
            Found::Here(body) => Ok(body.clone()),
            Found::Shared(reference) => shared.get(*reference),
            Found::Failed(error) => Err(error.clone()),
        };
        let parsed = body.and_then(|body| parse(&body.bytes, body.address, format));
        *stage = parsed.map_or_else(Stage::Failed, |parsed| Stage::Parsed(Box::new(parsed)));
    }
    Ok(())
}

fn type_of(parsed: &mut AttributeMessage, format: Format, shared: &SharedMessages) -> Result<Typed, Error> {
    let body = |part: &Part| match part {
        Part::Here { address, bytes } => Ok(Body { address: *address, bytes: bytes.clone() }),
        Part::Shared(reference) => shared.get(*reference),
    };
    let in_attribute = |error: Error| error.within(&format!("attribute {:?}", parsed.name));
    let datatype = body(&parsed.datatype).and_then(|body| datatype::parse(&body.bytes, body.address, format));
    let dataspace =
        body(&parsed.dataspace).and_then(|body| dataspace::parse(&body.bytes, body.address, format));
    Ok(Typed {
        datatype: datatype.map_err(in_attribute)?,
        dataspace: dataspace.map_err(in_attribute)?,
        name: std::mem::take(&mut parsed.name),
        data: parsed.data.clone(),
    })
}

/// Decodes all values. Each round fetches the collections that the previous round lacked, so the number of rounds is
/// the nesting depth of variable-length types.
async fn decode_all(io: &Io<'_>, format: Format, pending: &mut [Pending]) -> Result<(), Error> {
    let mut collections = Collections::new();
    loop {
        let mut missing = BTreeSet::new();
        for Pending { stage, .. } in &mut *pending {
            let Stage::Typed(typed) = &mut *stage else { continue };
            let limit = io.limits().structure_bytes.min(io.left());
            let mut decoder = Decoder::new(Some((format, &collections)), limit);
            let elements = decoder.elements(&typed.datatype, count(&typed.dataspace), &typed.data);
            if elements.is_ok() && !decoder.missing.is_empty() {
                missing.append(&mut decoder.missing);
                continue;
            }
            let spent = limit.saturating_sub(decoder.left()).saturating_add(ATTRIBUTE_BYTES);
            io.hold("attributes", spent.saturating_add(typed.name.len() as u64))?;
            *stage = match elements {
                Ok(elements) => Stage::Done(typed.with(elements)),
                Err(error) => Stage::Failed(error.within(&format!("attribute {:?}", typed.name))),
            };
        }
        if missing.is_empty() {
            return Ok(());
        }
        fetch_collections(io, format, missing, &mut collections).await?;
    }
}

impl Typed {
    fn with(&mut self, elements: Vec<crate::model::Element>) -> Attribute {
        let (datatype, dataspace) = (self.datatype.clone(), self.dataspace.clone());
        Attribute { name: std::mem::take(&mut self.name), datatype, dataspace, elements }
    }
}

/// Returns the number of elements of a dataspace. It saturates.
fn count(dataspace: &Dataspace) -> u64 {
    match dataspace.shape() {
        None => 0,
        Some(shape) => shape.iter().copied().fold(1, u64::saturating_mul),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const FORMAT: Format = Format { base: 0, offset_size: 4, length_size: 4 };

    #[test]
    fn version_1_is_padded_to_eight_bytes() {
        let mut bytes = vec![1, 0, 2, 0, 9, 0, 3, 0];
        bytes.extend(*b"a\0\0\0\0\0\0\0");
        bytes.extend([7; 16]);
        bytes.extend([8; 8]);
        bytes.extend([42, 43]);
        let found = parse(&bytes.into(), 0x100, FORMAT).unwrap();
        assert_eq!((&*found.name, &*found.data), ("a", &[42, 43][..]));
        assert_eq!(found.datatype, Part::Here { address: 0x110, bytes: Bytes::from_static(&[7; 9]) });
        assert_eq!(found.dataspace, Part::Here { address: 0x120, bytes: Bytes::from_static(&[8; 3]) });
    }

    #[test]
    fn version_3_with_a_shared_datatype() {
        let bytes = [3, 1, 2, 0, 6, 0, 1, 0, 1, b'a', 0, 3, 2, 0x40, 0, 0, 0, 8, 42];
        let found = parse(&Bytes::copy_from_slice(&bytes), 0, FORMAT).unwrap();
        assert_eq!(found.datatype, Part::Shared(SharedReference::Committed(0x40)));
        assert_eq!((&*found.name, &*found.data), ("a", &[42][..]));
    }

    #[test]
    fn info() {
        assert_eq!(parse_info(&[0, 0, 255, 255, 255, 255, 255, 255, 255, 255], 0, FORMAT).unwrap(), None);
        let dense = parse_info(&[0, 1, 9, 0, 8, 0, 0, 0, 16, 0, 0, 0], 0, FORMAT).unwrap();
        assert_eq!(dense, Some(DenseStorage { heap: 8, names: 16 }));
        assert!(parse_info(&[0, 0, 8, 0, 0, 0, 255, 255, 255, 255], 0, FORMAT).is_err());
    }
}
