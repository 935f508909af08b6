//! Reads the StructMetadata text of HDF-EOS5 files, which a few string datasets contain.

use std::collections::BTreeMap;

use virtualize_bytes::{Address, ByteRange};

use crate::{
    Error,
    cursor::text_before_nul,
    io::Io,
    model::{Dataset, Datatype, File, Group, Layout, LinkTarget, Object},
};

const GROUP: &str = "HDFEOS INFORMATION";
/// Limit on the size of the text in bytes.
const LIMIT: u64 = 16 << 20;

/// Returns the text if it is stored in unfiltered fixed-length strings.
pub(crate) async fn struct_metadata(io: &Io<'_>, file: &File) -> Result<Option<String>, Error> {
    let ranges = ranges(io, file);
    if ranges.is_empty() {
        return Ok(None);
    }
    let parts = io.read(&ranges).await?;
    Ok(Some(parts.iter().map(|part| text_before_nul(part)).collect()))
}

/// Returns the ranges of the parts in their order, up to the first one that exceeds the file or the limit.
fn ranges(io: &Io<'_>, file: &File) -> Vec<ByteRange> {
    let Some(Object::Group(root)) = file.objects.get(&file.root) else { return Vec::new() };
    let Some(Object::Group(group)) = child(root, GROUP).and_then(|at| file.objects.get(&at)) else {
        return Vec::new();
    };
    let names: BTreeMap<&str, Address> = hard_links(group).collect();
    let part = |number: usize| match file.objects.get(names.get(&*format!("StructMetadata.{number}"))?)? {
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
    hard_links(group).find(|(known, _)| *known == name).map(|(_, address)| address)
}

fn hard_links(group: &Group) -> impl Iterator<Item = (&str, Address)> {
    group.links.iter().filter_map(|link| match link.target {
        LinkTarget::Hard(address) => Some((link.name.as_str(), address)),
        _ => None,
    })
}

/// Returns the range of a single fixed-length string.
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

#[cfg(test)]
mod tests {
    use virtualize_bytes::{Limits, MemorySource};

    use super::*;
    use crate::{
        model::{CharacterSet, Dataspace, FillMessage, FillTime, FillValue, Filter, Link, StringPadding},
        testing::ready,
    };

    fn text(start: u64, size: u32) -> Dataset {
        Dataset {
            datatype: Datatype::String {
                size,
                padding: StringPadding::NullTerminated,
                charset: CharacterSet::Ascii,
            },
            committed_datatype: None,
            dataspace: Dataspace::Scalar,
            dimensions: None,
            fill: FillMessage {
                version: None,
                write_time: FillTime::IfSet,
                allocation_time: 0,
                value: FillValue::Default,
            },
            filters: Vec::<Filter>::new(),
            layout: Layout::Contiguous(Some(ByteRange::new(start, size.into()))),
            attributes: Vec::new(),
            unreadable_attributes: Vec::new(),
        }
    }

    fn group(links: &[(&str, u64)]) -> Object {
        let link = |(name, at): &(&str, u64)| Link {
            name: (*name).to_owned(),
            target: LinkTarget::Hard(Address(*at)),
        };
        Object::Group(Group { links: links.iter().map(link).collect(), ..Group::default() })
    }

    fn read(parts: &[Dataset]) -> Option<String> {
        let names: Vec<_> = (0..parts.len()).map(|n| format!("StructMetadata.{n}")).collect();
        let links: Vec<_> = names.iter().zip(2..).map(|(name, at)| (name.as_str(), at)).collect();
        let mut objects = BTreeMap::from([(Address(0), group(&[(GROUP, 1)])), (Address(1), group(&links))]);
        for (part, at) in parts.iter().zip(2..) {
            objects.insert(Address(at), Object::Dataset(Box::new(part.clone())));
        }
        let file = File::of_objects(objects);
        let source = MemorySource(b"GROUP=a\nEND\0\0\0\0GROUP".as_slice().into());
        ready(struct_metadata(&Io::new(&source, Limits::default()), &file)).unwrap()
    }

    #[test]
    fn parts_are_concatenated_without_padding() {
        assert_eq!(read(&[text(0, 8), text(8, 6)]).as_deref(), Some("GROUP=a\nEND"));
    }

    #[test]
    fn parts_beyond_the_end_of_the_file_are_omitted() {
        assert_eq!(read(&[text(0, 100)]), None);
        assert_eq!(read(&[text(0, 5), text(u64::MAX - 2, 9)]).as_deref(), Some("GROUP"));
        assert_eq!(read(&[]), None);
    }
}
