//! Reads object headers with their continuation blocks, all of a level together.

use std::collections::BTreeSet;

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use crate::{
    Error, attribute,
    batch::read_whole,
    context::Format,
    io::Io,
    layout::{self, LayoutMessage},
    model::ChunkIndexKind,
    object_header::{
        Continuation, Message, Prefix, kind, parse_continuation, parse_continuation_message, parse_header,
        parse_prefix,
    },
    sized::read_sized,
};

/// Bytes of an object header to fetch first. Most headers are smaller.
const GUESS: u64 = 512;

/// Bytes of a chunk index to announce: the root of a B-tree, or a header.
const INDEX: u64 = 4 << 10;

/// Bytes before and after an object header that usually contain more of the object: the rest of its header, its heap of
/// attributes, and the root of its chunk index.
const NEIGHBOURHOOD: u64 = 8 << 10;

/// An object header with all its messages, including those of continuation blocks.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) address: u64,
    /// Addresses of continuation blocks.
    pub(crate) blocks: BTreeSet<u64>,
    pub(crate) messages: Vec<Message>,
}

impl Header {
    /// Returns the first message of a type.
    pub(crate) fn find(&self, kind: u16) -> Option<&Message> {
        self.messages.iter().find(|message| message.kind == kind)
    }

    /// Returns all messages of a type.
    pub(crate) fn all(&self, kind: u16) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| message.kind == kind)
    }
}

/// A header in progress.
struct Reading {
    header: Header,
    prefix: Prefix,
    next: Vec<Continuation>,
}

/// Reads the object headers at these addresses.
pub(crate) async fn read_headers(
    io: &Io<'_>,
    format: Format,
    addresses: &[u64],
) -> Result<Vec<Result<Header, Error>>, Error> {
    io.may_read(addresses.iter().map(neighbourhood));
    let length = |bytes: &[u8], address| parse_prefix(bytes, address, format).map(Prefix::length);
    let blocks = read_sized(io, "object header", addresses, GUESS, length).await?;
    let begin = |(block, &address): (Result<Bytes, Error>, &u64)| {
        let block = block?;
        let prefix = parse_prefix(&block, address, format)?;
        let messages = parse_header(&block, address, prefix, format)?;
        let header = Header { address, blocks: BTreeSet::new(), messages: Vec::new() };
        let mut reading = Reading { header, prefix, next: Vec::new() };
        reading.add(io, messages, format)?;
        Ok(reading)
    };
    let mut readings: Vec<_> = blocks.into_iter().zip(addresses).map(begin).collect();
    let headers = readings.iter().flatten().map(|reading| &reading.header);
    io.will_read(headers.flat_map(|header| structures(header, format)));
    while continue_all(io, format, &mut readings).await {}
    Ok(readings.into_iter().map(|reading| reading.map(|reading| reading.header)).collect())
}

/// Returns the start of the structures to which a header refers: its chunk index, and the heap and B-tree of its
/// attributes.
fn structures(header: &Header, format: Format) -> impl Iterator<Item = ByteRange> {
    let layout = header.find(kind::LAYOUT);
    let index = match layout.map(|m| layout::parse(&m.body, m.address, format)) {
        Some(Ok(LayoutMessage::Chunked(chunked))) => match chunked.index {
            ChunkIndexKind::Single | ChunkIndexKind::Implicit => None,
            _ => chunked.address,
        },
        _ => None,
    };
    let info = header.find(kind::ATTRIBUTE_INFO);
    let dense = match info.map(|m| attribute::parse_info(&m.body, m.address, format)) {
        Some(Ok(dense)) => dense,
        _ => None,
    };
    let dense = dense.into_iter().flat_map(|dense| [dense.heap, dense.names]);
    let index = index.map(|address| ByteRange::new(address, INDEX));
    index.into_iter().chain(dense.map(|address| ByteRange::new(address, GUESS)))
}

fn neighbourhood(address: &u64) -> ByteRange {
    let start = address.saturating_sub(NEIGHBOURHOOD);
    ByteRange::new(start, address.saturating_sub(start).saturating_add(NEIGHBOURHOOD))
}

/// Reads the next continuation blocks of all headers. Returns whether there were any.
async fn continue_all(io: &Io<'_>, format: Format, readings: &mut [Result<Reading, Error>]) -> bool {
    let mut wanted = Vec::new();
    for (index, reading) in readings.iter_mut().enumerate() {
        let next = reading.as_mut().map(|reading| std::mem::take(&mut reading.next)).unwrap_or_default();
        wanted.extend(next.into_iter().map(|continuation| (index, continuation)));
    }
    let ranges: Vec<_> = wanted.iter().map(|(_, at)| ByteRange::new(at.address, at.length)).collect();
    let blocks = read_whole(io, "object header continuation", &ranges).await;
    for ((index, at), block) in wanted.iter().zip(blocks) {
        let Some(place) = readings.get_mut(*index) else { continue };
        let Ok(reading) = place else { continue };
        let added = block.and_then(|block| parse_continuation(&block, *at, reading.prefix, format));
        if let Err(error) = added.and_then(|messages| reading.add(io, messages, format)) {
            *place = Err(error);
        }
    }
    !wanted.is_empty()
}

impl Reading {
    /// Adds messages. Continuation messages are not part of the header: their blocks are read next.
    fn add(&mut self, io: &Io<'_>, messages: Vec<Message>, format: Format) -> Result<(), Error> {
        let bytes = (messages.len() as u64).saturating_mul(size_of::<Message>() as u64);
        io.hold("messages of object headers", bytes)?;
        let (found, others) =
            messages.into_iter().partition::<Vec<_>, _>(|message| message.kind == kind::CONTINUATION);
        self.header.messages.extend(others);
        for message in found {
            let continuation = parse_continuation_message(&message, format)?;
            if !self.header.blocks.insert(continuation.address) {
                let problem = format!("second continuation at {:#x}, expected one", continuation.address);
                return Err(Error::malformed("object header", self.header.address, problem));
            }
            self.next.push(continuation);
        }
        Ok(())
    }
}
