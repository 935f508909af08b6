//! Reads global heap collections.

use std::collections::BTreeSet;

use crate::{Error, context::Format, global_heap, io::Io, sized::read_sized, value::Collections};

/// Minimum size of a collection in bytes.
const GUESS: u64 = 4096;

/// Fetches collections, all in one batch, and adds them to `collections`.
pub(crate) async fn fetch_collections(
    io: &Io<'_>,
    format: Format,
    addresses: BTreeSet<u64>,
    collections: &mut Collections,
) -> Result<(), Error> {
    let addresses: Vec<_> = addresses.into_iter().collect();
    let length = |bytes: &[u8], address| global_heap::length(bytes, address, format);
    let blocks = read_sized(io, "global heap collection", &addresses, GUESS, length).await?;
    for (address, block) in addresses.into_iter().zip(blocks) {
        let objects = block.and_then(|block| global_heap::parse(&block, address, format));
        collections.insert(address, objects);
    }
    Ok(())
}
