//! The description of an HDF-EOS5 file, which is the content of a few datasets of text.

use virtualize_bytes::{Address, ByteRange};

use super::Io;
use crate::{
    Error,
    model::{Dataset, Datatype, File, Group, Layout, LinkTarget, Object},
};

const GROUP: &str = "HDFEOS INFORMATION";
/// Bytes of text that a file may have of it.
const LIMIT: u64 = 16 << 20;

/// The text, where the file has it in fixed-length strings that went through no filter.
pub(crate) async fn struct_metadata(io: &Io<'_>, file: &File) -> Result<Option<String>, Error> {
    let ranges = ranges(io, file);
    if ranges.is_empty() {
        return Ok(None);
    }
    let parts = io.read(&ranges).await?;
    let text = |bytes: &bytes::Bytes| {
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    };
    Ok(Some(parts.iter().map(text).collect()))
}

/// Where the parts lie, in their order, as far as they lie within the file.
fn ranges(io: &Io<'_>, file: &File) -> Vec<ByteRange> {
    let Some(Object::Group(root)) = file.objects.get(&file.root) else { return Vec::new() };
    let Some(Object::Group(group)) = child(root, GROUP).and_then(|at| file.objects.get(&at)) else {
        return Vec::new();
    };
    let part = |number: usize| match file.objects.get(&child(group, &format!("StructMetadata.{number}"))?)? {
        Object::Dataset(dataset) => text_range(dataset).filter(|range| range.end() <= io.size()),
        _ => None,
    };
    let mut rest = LIMIT;
    let mut fits = |range: &ByteRange| match rest.checked_sub(range.length) {
        Some(left) => {
            rest = left;
            true
        }
        None => false,
    };
    (0..group.links.len()).map_while(part).take_while(|range| fits(range)).collect()
}

fn child(group: &Group, name: &str) -> Option<Address> {
    let link = group.links.iter().find(|link| link.name == name)?;
    match link.target {
        LinkTarget::Hard(address) => Some(address),
        _ => None,
    }
}

/// Where a single fixed-length string lies.
fn text_range(dataset: &Dataset) -> Option<ByteRange> {
    let Datatype::String { size, .. } = dataset.datatype else { return None };
    let one = dataset.dataspace.shape()?.iter().all(|n| *n == 1);
    match dataset.layout {
        Layout::Contiguous(Some(range)) if one && dataset.filters.is_empty() => {
            Some(ByteRange::new(range.start, range.length.min(size.into())))
        }
        _ => None,
    }
}
