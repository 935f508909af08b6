//! Reads the attributes of all objects together: dense ones from their heaps, shared parts from their headers and
//! heaps, variable-length values from the global heap.

use std::collections::BTreeSet;

use crate::{
    Error,
    attribute::{self, AttributeMessage, Part, parse_info},
    context::Format,
    dataspace, datatype,
    dense::{DenseKind, IndexedName, read_dense},
    global_heap_walk::fetch_collections,
    headers::Header,
    io::Io,
    model::{Attribute, Dataspace, Datatype},
    object_header::kind,
    shared::{self, SharedReference},
    shared_walk::{Body, SharedMessages},
    value::{Collections, Decoder},
};

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
    /// The name in a name index.
    name: Option<IndexedName>,
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
    let mut pending = find_all(io, format, headers).await?;
    resolve_messages(io, format, &mut pending, shared).await?;
    resolve_parts(io, format, &mut pending, shared).await?;
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

/// Collects all attribute messages: compact ones in the order of the header, dense ones in creation order.
async fn find_all(io: &Io<'_>, format: Format, headers: &[&Header]) -> Result<Vec<Pending>, Error> {
    let mut pending = Vec::new();
    let mut dense = Vec::new();
    for (object, header) in headers.iter().enumerate() {
        for message in header.all(kind::ATTRIBUTE) {
            let body = Body { address: message.address, bytes: message.body.clone() };
            let found = match message.shared {
                true => found_shared(shared::parse(&body.bytes, body.address, kind::ATTRIBUTE, format)),
                false => Found::Here(body),
            };
            pending.push(Pending { object, name: None, stage: Stage::Found(found) });
        }
        let info = header.find(kind::ATTRIBUTE_INFO).map(|m| parse_info(&m.body, m.address, format));
        match info {
            Some(Ok(Some(storage))) => dense.push((object, storage)),
            Some(Err(error)) => pending.push(Pending { object, name: None, stage: Stage::Failed(error) }),
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
                    Pending { object, name: Some(entry.name), stage: Stage::Found(found) }
                });
                pending.extend(found);
            }
            Err(error) => pending.push(Pending { object, name: None, stage: Stage::Failed(error) }),
        }
    }
    Ok(pending)
}

fn found_shared(reference: Result<SharedReference, Error>) -> Found {
    match reference {
        Ok(reference) => Found::Shared(reference),
        Err(error) => Found::Failed(error),
    }
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
    for Pending { stage, name, .. } in pending {
        let Stage::Found(found) = &*stage else { continue };
        let body = match found {
            Found::Here(body) => Ok(body.clone()),
            Found::Shared(reference) => shared.get(*reference),
            Found::Failed(error) => Err(error.clone()),
        };
        let parsed = body.and_then(|body| parsed(&body, *name, format));
        *stage = parsed.map_or_else(Stage::Failed, |parsed| Stage::Parsed(Box::new(parsed)));
    }
    Ok(())
}

/// Parses an attribute message. In dense storage, the index has a checksum of the name.
fn parsed(body: &Body, name: Option<IndexedName>, format: Format) -> Result<AttributeMessage, Error> {
    let parsed = attribute::parse(&body.bytes, body.address, format)?;
    name.map_or(Ok(()), |name| name.check("attribute message", body.address, parsed.hash))?;
    Ok(parsed)
}

/// Resolves shared datatypes and dataspaces, then parses all.
async fn resolve_parts(
    io: &Io<'_>,
    format: Format,
    pending: &mut [Pending],
    shared: &mut SharedMessages,
) -> Result<(), Error> {
    let mut references = BTreeSet::new();
    for Pending { stage, .. } in &*pending {
        let Stage::Parsed(parsed) = stage else { continue };
        for part in [&parsed.datatype, &parsed.dataspace] {
            if let Part::Shared(reference) = part {
                references.insert(*reference);
            }
        }
    }
    shared.look_up(io, format, references).await?;
    for Pending { stage, .. } in pending {
        let Stage::Parsed(parsed) = &mut *stage else { continue };
        for part in [&parsed.datatype, &parsed.dataspace] {
            if let Part::Shared(reference) = part {
                shared.hold(io, *reference)?;
            }
        }
        let typed = type_of(parsed, format, shared);
        *stage = typed.map_or_else(Stage::Failed, |typed| Stage::Typed(Box::new(typed)));
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
    use crate::checksum::lookup3;

    /// libhdf5 does not find an attribute by its name if the index has another checksum.
    #[test]
    fn names_have_the_checksum_of_the_index() {
        let format = Format { base: 0, offset_size: 4, length_size: 4 };
        let bytes = Bytes::from_static(&[3, 1, 2, 0, 6, 0, 1, 0, 1, b'a', 0, 3, 2, 0x40, 0, 0, 0, 8, 42]);
        let body = Body { address: 0, bytes };
        for (hash, is_right) in [(None, true), (Some(lookup3(b"a")), true), (Some(lookup3(b"b")), false)] {
            let name = hash.map(|hash| IndexedName { hash, is_in_order: true });
            assert_eq!(parsed(&body, name, format).is_ok(), is_right);
        }
    }
}
