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
    model::Attribute,
    object_header::{Body, Header, Message, kind},
    shared::{SharedMessages, SharedReference, Stored},
    value::{Collections, Decoder},
};

/// An attribute whose datatype and dataspace may be shared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AttributeMessage {
    pub(crate) name: String,
    pub(crate) datatype: Stored,
    pub(crate) dataspace: Stored,
    /// Elements as stored.
    pub(crate) data: Bytes,
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
    let part = |(address, bytes), shared_flag: u8, kind| {
        let body = Body { address, bytes: Bytes::copy_from_slice(bytes) };
        Stored::new(Message { kind, shared: flags & shared_flag != 0, body }, format)
    };
    Ok(AttributeMessage {
        name: text_before_nul(name.1),
        datatype: part(datatype, 1, kind::DATATYPE)?,
        dataspace: part(dataspace, 2, kind::DATASPACE)?,
        data: slice(bytes, start, bytes.len() as u64).unwrap_or_default(),
    })
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
pub(crate) type Attributes = (Vec<Attribute>, Vec<Error>);

/// Attributes with the indices of their objects.
type Pending<T> = Vec<(usize, Result<T, Error>)>;

/// Reads the attributes of each object, in the order of `headers`.
pub(crate) async fn read_attributes(
    io: &Io<'_>,
    format: Format,
    headers: &[&Header],
    shared: &mut SharedMessages,
) -> Result<Vec<Attributes>, Error> {
    let mut found: Pending<Stored> = Vec::new();
    let mut dense = Vec::new();
    for (object, header) in headers.iter().enumerate() {
        let messages = header.all(kind::ATTRIBUTE).cloned();
        found.extend(messages.map(|message| (object, Stored::new(message, format))));
        match header.parsed(kind::ATTRIBUTE_INFO, format, parse_info) {
            Ok(storage) => dense.extend(storage.flatten().map(|storage| (object, storage))),
            Err(error) => found.push((object, Err(error))),
        }
    }
    let storages: Vec<_> = dense.iter().map(|(_, storage)| *storage).collect();
    let read = read_dense(io, format, DenseKind::Attributes, &storages).await?;
    for ((object, _), entries) in dense.into_iter().zip(read) {
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                found.push((object, Err(error)));
                continue;
            }
        };
        entries.sort_by_key(|(entry, _)| entry.creation);
        found.extend(entries.into_iter().map(|(entry, body)| {
            let reference = SharedReference::Heap { kind: kind::ATTRIBUTE, id: entry.id };
            (object, body.map_or(Ok(Stored::Shared(reference)), |body| body.map(Stored::Here)))
        }));
    }
    let stored = found.iter().filter_map(|(_, stored)| stored.as_ref().ok());
    shared.look_up(io, format, stored.filter_map(Stored::reference).collect()).await?;
    let parse = |stored: Stored| {
        let body = shared.body(&stored)?;
        parse(&body.bytes, body.address, format)
    };
    let parsed = found.into_iter().map(|(object, stored)| (object, stored.and_then(parse)));
    let parsed: Pending<AttributeMessage> = parsed.collect();
    let messages = parsed.iter().filter_map(|(_, message)| message.as_ref().ok());
    let parts = messages.flat_map(|message| [&message.datatype, &message.dataspace]);
    let references: Vec<_> = parts.filter_map(Stored::reference).collect();
    shared.look_up(io, format, references.iter().copied().collect()).await?;
    references.into_iter().try_for_each(|reference| shared.hold(io, reference))?;
    // The elements as stored follow an attribute until they are decoded.
    let typed = |AttributeMessage { name, datatype, dataspace, data }| {
        let datatype = shared.parse(&datatype, format, datatype::parse);
        match datatype
            .and_then(|datatype| Ok((datatype, shared.parse(&dataspace, format, dataspace::parse)?)))
        {
            Ok((datatype, dataspace)) => {
                Ok((Attribute { name, datatype, dataspace, elements: Vec::new() }, Some(data)))
            }
            Err(error) => Err(error.within(&format!("attribute {name:?}"))),
        }
    };
    let pending = parsed.into_iter().map(|(object, message)| (object, message.and_then(typed)));
    let mut pending: Pending<(Attribute, Option<Bytes>)> = pending.collect();
    decode_all(io, format, &mut pending).await?;
    let mut attributes = vec![Attributes::default(); headers.len()];
    for (object, attribute) in pending {
        let Some((read, unreadable)) = attributes.get_mut(object) else { continue };
        match attribute {
            Ok((attribute, _)) => read.push(attribute),
            Err(error) => unreadable.push(error),
        }
    }
    Ok(attributes)
}

/// Decodes all values. Each round fetches the collections that the previous round lacked, so the number of rounds is
/// the nesting depth of variable-length types.
async fn decode_all(
    io: &Io<'_>,
    format: Format,
    pending: &mut Pending<(Attribute, Option<Bytes>)>,
) -> Result<(), Error> {
    /// Memory in bytes for an attribute, in addition to its name and its values.
    const ATTRIBUTE_BYTES: u64 = 192;
    let mut collections = Collections::new();
    loop {
        let mut missing = BTreeSet::new();
        for (_, typed) in pending.iter_mut() {
            let Ok((attribute, data @ Some(_))) = typed else { continue };
            let limit = io.limits().structure_bytes.min(io.left());
            let mut decoder = Decoder::new(Some((format, &collections)), limit);
            let stored = data.as_deref().unwrap_or_default();
            let elements = decoder.elements(&attribute.datatype, attribute.dataspace.elements(), stored);
            if elements.is_ok() && !decoder.missing.is_empty() {
                missing.append(&mut decoder.missing);
                continue;
            }
            let spent = limit.saturating_sub(decoder.left()).saturating_add(ATTRIBUTE_BYTES);
            io.hold("attributes", spent.saturating_add(attribute.name.len() as u64))?;
            match elements {
                Ok(elements) => (attribute.elements, *data) = (elements, None),
                Err(error) => {
                    let error = error.within(&format!("attribute {:?}", attribute.name));
                    *typed = Err(error);
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        fetch_collections(io, format, missing, &mut collections).await?;
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
        assert_eq!(found.datatype, Stored::Here(Body { address: 0x110, bytes: Bytes::from_static(&[7; 9]) }));
        assert_eq!(
            found.dataspace,
            Stored::Here(Body { address: 0x120, bytes: Bytes::from_static(&[8; 3]) })
        );
    }

    #[test]
    fn version_3_with_a_shared_datatype() {
        let bytes = [3, 1, 2, 0, 6, 0, 1, 0, 1, b'a', 0, 3, 2, 0x40, 0, 0, 0, 8, 42];
        let found = parse(&Bytes::copy_from_slice(&bytes), 0, FORMAT).unwrap();
        assert_eq!(found.datatype, Stored::Shared(SharedReference::Committed(0x40)));
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
