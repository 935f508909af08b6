//! Serializes members.

use std::collections::BTreeMap;

use serde_json::Value;
use virtualize::{
    ArrayValues, from_text, to_text,
    zarr::{Hierarchy, NodePath, Source},
};

use super::MemberRow;
use crate::{Item, Member};

/// Compression level: references are so similar that the fastest level makes them small.
const LEVEL: i32 = 1;

/// Compresses the references of a file. Also returns them as they will be read back: all decisions about a file are
/// based on that form.
pub(crate) fn pack_hierarchy(
    hierarchy: &Hierarchy,
    name: &str,
) -> Result<(Vec<u8>, Hierarchy), virtualize::Error> {
    let text = to_text(hierarchy, name)?;
    let back = from_text(&text, &hierarchy.sources, name)?;
    Ok((compress(&text, name)?, back))
}

/// Compresses values. Layout: length of the header as 4 bytes little-endian, header (lengths by path, as JSON), values.
pub(crate) fn pack_values(
    values: &BTreeMap<NodePath, ArrayValues>,
    name: &str,
) -> Result<Vec<u8>, virtualize::Error> {
    let lengths: BTreeMap<&NodePath, usize> =
        values.iter().map(|(path, values)| (path, values.bytes.len())).collect();
    let head = serde_json::to_vec(&lengths).map_err(|error| broken(name, &error.to_string()))?;
    let length = u32::try_from(head.len()).map_err(|error| broken(name, &error.to_string()))?;
    let mut all = length.to_le_bytes().to_vec();
    all.extend_from_slice(&head);
    for values in values.values() {
        all.extend_from_slice(&values.bytes);
    }
    compress(&all, name)
}

/// Deserializes a member.
pub(crate) fn unpack(item: Item, row: MemberRow) -> Result<Member, virtualize::Error> {
    let name = item.url.as_str();
    let hierarchy = hierarchy(&row.hierarchy, &row.sources, name)?;
    let values = values(&row.values, &hierarchy, name)?;
    let given: BTreeMap<String, Value> = row.given;
    Ok(Member { hierarchy, values, digests: row.digests, given, item })
}

fn hierarchy(bytes: &[u8], sources: &[Source], name: &str) -> Result<Hierarchy, virtualize::Error> {
    from_text(&decompress(bytes, name)?, sources, name)
}

fn values(
    bytes: &[u8],
    hierarchy: &Hierarchy,
    name: &str,
) -> Result<BTreeMap<NodePath, ArrayValues>, virtualize::Error> {
    let short = || broken(name, "its values end early");
    let mut all = bytes::Bytes::from(decompress(bytes, name)?);
    let mut take = |length: usize| (length <= all.len()).then(|| all.split_to(length)).ok_or_else(short);
    let length = <[u8; 4]>::try_from(take(4)?.as_ref()).map_err(|_| short())?;
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(|_| short())?;
    let lengths: BTreeMap<NodePath, usize> =
        serde_json::from_slice(&take(length)?).map_err(|error| broken(name, &error.to_string()))?;
    let mut values = BTreeMap::new();
    for (path, length) in lengths {
        let array =
            hierarchy.array(&path).ok_or_else(|| broken(name, "values of an array that is not there"))?;
        values.insert(path, ArrayValues::of_array(array, take(length)?));
    }
    Ok(values)
}

fn compress(bytes: &[u8], name: &str) -> Result<Vec<u8>, virtualize::Error> {
    zstd::bulk::compress(bytes, LEVEL).map_err(|error| broken(name, &error.to_string()))
}

fn decompress(bytes: &[u8], name: &str) -> Result<Vec<u8>, virtualize::Error> {
    zstd::decode_all(bytes).map_err(|error| broken(name, &error.to_string()))
}

fn broken(name: &str, reason: &str) -> virtualize::Error {
    virtualize::Error::References { name: name.to_owned(), reason: format!("journal: {reason}") }
}
