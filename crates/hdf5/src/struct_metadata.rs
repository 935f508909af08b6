//! Reads the StructMetadata text of HDF-EOS5 files, which a few string datasets contain.

use std::collections::BTreeMap;

use virtualize_bytes::{Address, ByteRange};

use crate::{
    Error,
    cursor::text_before_nul,
    io::Io,
    model::{Datatype, File, Layout, Link, LinkTarget, Object},
};

const GROUP: &str = "HDFEOS INFORMATION";
/// Limit on the size of the text in bytes.
const LIMIT: u64 = 16 << 20;

/// Returns the text if it is stored in unfiltered fixed-length strings, up to the first one that exceeds the file or the
/// limit.
pub(crate) async fn struct_metadata(io: &Io<'_>, file: &File) -> Result<Option<String>, Error> {
    let links_of = |address: Address| match file.objects.get(&address) {
        Some(Object::Group(group)) => &*group.links,
        _ => &[],
    };
    let group = hard_links(links_of(file.root)).find(|(name, _)| *name == GROUP);
    let links = group.map_or(&[][..], |(_, group)| links_of(group));
    let names: BTreeMap<&str, Address> = hard_links(links).collect();
    let mut left = LIMIT;
    let range = |number: usize| {
        let Object::Dataset(dataset) = file.objects.get(names.get(&*format!("StructMetadata.{number}"))?)?
        else {
            return None;
        };
        let Datatype::String { size, .. } = dataset.datatype else { return None };
        let is_single = dataset.dataspace.shape()?.iter().all(|n| *n == 1) && dataset.filters.is_empty();
        let Layout::Contiguous(Some(range)) = dataset.layout else { return None };
        let range = ByteRange::new(range.start, range.length.min(size.into()));
        left = left.checked_sub(range.length)?;
        (is_single && range.end() <= io.size()).then_some(range)
    };
    let ranges: Vec<_> = (0..links.len()).map_while(range).collect();
    if ranges.is_empty() {
        return Ok(None);
    }
    let parts = io.read(&ranges).await?;
    Ok(Some(parts.iter().map(|part| text_before_nul(part)).collect()))
}

fn hard_links(links: &[Link]) -> impl Iterator<Item = (&str, Address)> {
    links.iter().filter_map(|link| match link.target {
        LinkTarget::Hard(address) => Some((link.name.as_str(), address)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use virtualize_bytes::{Limits, MemorySource};

    use super::*;
    use crate::{
        model::{
            CharacterSet, Dataset, Dataspace, FillMessage, FillTime, FillValue, Filter, Group, StringPadding,
        },
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
