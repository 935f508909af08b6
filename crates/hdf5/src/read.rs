//! Assembles the model of a file.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::future::try_join;
use virtualize_bytes::{Address, ByteRange, Limits, ReadRanges};

use crate::{
    Error,
    attribute::read_attributes,
    btree1,
    cursor::Format,
    dataspace, datatype, fill_value, filters,
    global_heap::{self, fetch_collections, items_in},
    groups::{is_group, read_links},
    io::{Io, LARGEST_PAGE},
    layout::{self, LayoutRequest, read_layouts},
    model::{Dataset, Datatype, Element, File, Group, Layout, Link, LinkTarget, Object},
    object_header::{Header, kind, read_headers},
    shared::{self, SharedMessages, SharedReference, Stored},
    struct_metadata::struct_metadata,
    superblock::{self, Superblock},
    value::{Collections, Decoder},
};

/// Reads the metadata of a file, but no data of datasets.
///
/// # Errors
/// The file is not HDF5, its superblock or root group cannot be read, a limit on the whole file is exceeded, or bytes
/// cannot be fetched. Any other error is recorded in the model, at the affected item.
pub async fn read(source: &dyn ReadRanges, limits: &Limits) -> Result<File, Error> {
    let (io, superblock, extension) = open(source, limits).await?;
    let format = superblock.format;
    let mut shared = SharedMessages::open(&io, format, extension.as_ref()).await?;
    let mut graph = read_graph(&io, format, superblock.root).await?;
    if let Some(Err(error)) = graph.get(&superblock.root) {
        return Err(error.clone());
    }
    let references = graph.values().flatten().flat_map(|node| shared_references(&node.header, format));
    shared.look_up(&io, format, references.collect()).await?;
    let mut requests = Vec::new();
    let mut objects = BTreeMap::new();
    for (address, node) in &mut graph {
        io.hold("objects", (size_of::<Dataset>() as u64).saturating_add(size_of::<LayoutRequest>() as u64))?;
        let object = match node {
            Ok(node) => {
                shared_references(&node.header, format).try_for_each(|at| shared.hold(&io, at))?;
                object(&node.header, node.links.take(), format, &shared, &mut requests)
            }
            Err(error) => Err(error.clone()),
        };
        objects.insert(Address(*address), object.unwrap_or_else(Object::Unreadable));
    }
    let headers: Vec<_> = graph.values().flatten().map(|node| &node.header).collect();
    let (attributes, layouts) =
        try_join(read_attributes(&io, format, &headers, &mut shared), read_layouts(&io, format, requests))
            .await?;
    for (header, found) in headers.iter().zip(attributes) {
        let (attributes, unreadable_attributes) = match objects.get_mut(&Address(header.address)) {
            Some(Object::Group(group)) => (&mut group.attributes, &mut group.unreadable_attributes),
            Some(Object::Dataset(dataset)) => (&mut dataset.attributes, &mut dataset.unreadable_attributes),
            _ => continue,
        };
        (*attributes, *unreadable_attributes) = found;
    }
    for (address, layout) in layouts {
        if let Some(Object::Dataset(dataset)) = objects.get_mut(&Address(address)) {
            dataset.layout = layout;
        }
    }
    let mut file = File {
        superblock_version: superblock.version,
        base_address: Address(superblock.address),
        end: Address(io.size()),
        cached: io.overlay().clone(),
        offset_size: format.offset_size,
        length_size: format.length_size,
        root: Address(superblock.root),
        objects,
        struct_metadata: None,
        classic: None,
    };
    let errors = file.objects.values().flat_map(errors_of);
    if let Some(error) = errors.into_iter().find(|error| matches!(error, Error::Read(_))) {
        return Err(error.clone());
    }
    file.struct_metadata = struct_metadata(&io, &file).await?;
    Ok(file)
}

/// Completes a model from another reader with the end of the file and the structures of its metadata cache image, which
/// [`resolve_elements`] and [`read_sequences`] need.
///
/// # Errors
/// The superblock or its extension is damaged, or bytes cannot be fetched.
pub async fn complete(source: &dyn ReadRanges, limits: &Limits, file: &mut File) -> Result<(), Error> {
    let (io, ..) = open(source, limits).await?;
    (file.end, file.cached) = (Address(io.size()), io.overlay().clone());
    Ok(())
}

/// Bytes to fetch from the start of a file before anything is parsed: all of most small files, and the root group of
/// large ones.
const HEAD_BYTES: u64 = 64 << 10;

/// Reads the superblock and its extension. Files of the multi and family drivers, whose data is spread over several files,
/// are rejected.
async fn open<'a>(
    source: &'a dyn ReadRanges,
    limits: &Limits,
) -> Result<(Io<'a>, Superblock, Option<Header>), Error> {
    let mut io = Io::new(source, *limits);
    io.head = io.read(&[ByteRange::new(0, HEAD_BYTES)]).await?.pop().unwrap_or_default();
    // Tries offset 0 first, then all other possible offsets in one batch.
    let candidates: Vec<_> = superblock::candidates(io.size()).collect();
    let (first, others) = candidates.split_at(candidates.len().min(1));
    let mut superblock = None;
    for addresses in [first, others] {
        let ranges: Vec<_> = addresses.iter().map(|&at| ByteRange::new(at, superblock::LENGTH)).collect();
        let blocks = io.read(&ranges).await?;
        let mut found = blocks.iter().zip(addresses);
        if let Some((bytes, &at)) = found.find(|(bytes, _)| bytes.starts_with(&superblock::SIGNATURE)) {
            superblock = Some(superblock::parse(bytes, at)?);
            break;
        }
    }
    let superblock = superblock.ok_or(Error::NotHdf5)?;
    superblock.check_end(io.size())?;
    io.set_end(superblock.end);
    let format = superblock.format;
    let driver = |address: u64, name: Option<&[u8]>| {
        let name = name.unwrap_or_default().escape_ascii().to_string();
        let problem = format!("file driver {name:?}, expected none: data may be in other files");
        Err(Error::unsupported("driver information", address, problem))
    };
    if let Some(address) = superblock.driver_block {
        let block = io.read(&[ByteRange::new(address, 16)]).await?.pop().unwrap_or_default();
        return driver(address, block.get(8..16));
    }
    let extension = match superblock.extension {
        Some(address) => read_headers(&io, format, &[address]).await?.pop().transpose()?,
        None => None,
    };
    let Some(extension) = extension else {
        io.ranks = superblock.ranks;
        return Ok((io, superblock, None));
    };
    if let Some(body) = extension.body(kind::DRIVER_INFO) {
        return driver(body.address, body.bytes.get(1..9));
    }
    io.ranks = extension.parsed(kind::TREE_RANKS, format, btree1::parse)?.unwrap_or(superblock.ranks);
    if let Ok(Some(Some(size))) = extension.parsed(kind::FILE_SPACE, format, superblock::parse_page_size) {
        io.pages = Some((format.base, size)).filter(|_| size <= LARGEST_PAGE);
    }
    // Restores structures from the metadata cache image, if the file has one.
    if let Some(range) = extension.parsed(kind::CACHE_IMAGE, format, superblock::parse_message)?.flatten() {
        let block = io.read(&[range]).await?.pop().unwrap_or_default();
        io.add_overlay(superblock::parse_image(&block, range.start, format)?);
    }
    Ok((io, superblock, Some(extension)))
}

/// Decodes consecutive elements of a dataset from `raw`, a decoded chunk. Variable-length elements are fetched from the
/// global heap.
///
/// # Errors
/// `raw` is not a whole number of elements, the global heap is damaged, or bytes cannot be fetched.
pub async fn resolve_elements(
    source: &dyn ReadRanges,
    limits: &Limits,
    file: &File,
    datatype: &Datatype,
    raw: &[u8],
) -> Result<Vec<Element>, Error> {
    let (io, format) = (Io::of_file(source, *limits, file), format_of(file));
    let count = (raw.len() as u64).checked_div(datatype.size()).unwrap_or(0);
    if count.checked_mul(datatype.size()) != Some(raw.len() as u64) {
        let problem = format!("{} bytes, expected a multiple of {}", raw.len(), datatype.size());
        return Err(Error::malformed("element", 0, problem));
    }
    let mut collections = Collections::new();
    loop {
        let most = limits.structure_bytes.min(io.left());
        let mut decoder = Decoder::new(Some((format, &collections)), most);
        let elements = decoder.elements(datatype, count, raw)?;
        let missing = std::mem::take(&mut decoder.missing);
        if missing.is_empty() {
            return Ok(elements);
        }
        fetch_collections(&io, format, missing, &mut collections).await?;
    }
}

/// Returns the stored bytes of consecutive variable-length elements with items of `item_size` bytes. `raw` contains their
/// pointers, from a decoded chunk. Elements that share an object of the global heap share its memory.
///
/// # Errors
/// `raw` is not a whole number of pointers, the global heap is damaged, or bytes cannot be fetched.
pub async fn read_sequences(
    source: &dyn ReadRanges,
    limits: &Limits,
    file: &File,
    item_size: u64,
    raw: &[u8],
) -> Result<Vec<Bytes>, Error> {
    let (io, format) = (Io::of_file(source, *limits, file), format_of(file));
    let pointers = raw.chunks(usize::from(format.offset_size).saturating_add(8));
    let elements =
        pointers.map(|bytes| global_heap::parse_variable(bytes, format)).collect::<Result<Vec<_>, _>>()?;
    let addresses = elements.iter().filter_map(|element| element.pointer).map(|pointer| pointer.collection);
    let mut collections = Collections::new();
    fetch_collections(&io, format, addresses.collect(), &mut collections).await?;
    let items = |element| Ok(items_in(&collections, element, item_size)?.unwrap_or_default());
    elements.into_iter().map(items).collect()
}

const fn format_of(file: &File) -> Format {
    Format { base: file.base_address.0, offset_size: file.offset_size, length_size: file.length_size }
}

/// Returns the references to the shared messages of a header, apart from attributes.
fn shared_references(header: &Header, format: Format) -> impl Iterator<Item = SharedReference> {
    let messages = header.messages.iter().filter(|m| m.shared && m.kind != kind::ATTRIBUTE);
    messages.filter_map(move |m| shared::parse(&m.body.bytes, m.body.address, m.kind, format).ok())
}

/// Returns an object without its attributes. The layout of a dataset is requested.
fn object(
    header: &Header,
    links: Option<Vec<Link>>,
    format: Format,
    shared: &SharedMessages,
    requests: &mut Vec<LayoutRequest>,
) -> Result<Object, Error> {
    if let Some(links) = links {
        return Ok(Object::Group(Group { links, ..Group::default() }));
    }
    let lacks = |what| Error::malformed("object header", header.address, format!("no {what} message"));
    let datatype = shared.parsed(header, kind::DATATYPE, format, datatype::parse)?;
    let datatype = datatype.ok_or_else(|| lacks("datatype"))?;
    if header.find(kind::DATASPACE).is_none() && header.find(kind::LAYOUT).is_none() {
        return Ok(Object::Datatype(datatype));
    }
    let dataspace = shared.parsed(header, kind::DATASPACE, format, dataspace::parse)?;
    let dataspace = dataspace.ok_or_else(|| lacks("dataspace"))?;
    let mut fill = match shared.parsed(header, kind::FILL_VALUE, format, fill_value::parse)? {
        Some(fill) => fill,
        None => {
            let old = shared.parsed(header, kind::OLD_FILL_VALUE, format, fill_value::parse_old)?;
            old.unwrap_or(fill_value::ABSENT)
        }
    };
    fill.value = fill_value::checked(fill.value, &datatype, header.address)?;
    let filters = shared.parsed(header, kind::FILTERS, format, filters::parse)?.unwrap_or_default();
    let message = header.parsed(kind::LAYOUT, format, layout::parse);
    let message = message.and_then(|message| message.ok_or_else(|| lacks("data layout")));
    let external = header.parsed(kind::EXTERNAL_FILES, format, layout::parse_external);
    let layout = match message.and_then(|message| Ok((message, external?))) {
        Ok((message, external)) => {
            requests.push(LayoutRequest {
                message,
                external,
                dataspace: dataspace.clone(),
                element_size: datatype.size(),
                filtered: !filters.is_empty(),
                header: header.address,
            });
            Layout::Contiguous(None)
        }
        Err(error) => Layout::Unreadable(error),
    };
    let stored = header.find(kind::DATATYPE).and_then(|message| Stored::new(message.clone(), format).ok());
    let committed_datatype = match stored {
        Some(Stored::Shared(SharedReference::Committed(address))) => Some(Address(address)),
        _ => None,
    };
    Ok(Object::Dataset(Box::new(Dataset {
        datatype,
        committed_datatype,
        dataspace,
        dimensions: None,
        fill,
        filters,
        layout,
        attributes: Vec::new(),
        unreadable_attributes: Vec::new(),
    })))
}

fn errors_of(object: &Object) -> Vec<&Error> {
    match object {
        Object::Group(group) => {
            let links = group.links.iter().filter_map(|link| match &link.target {
                LinkTarget::Unreadable(error) => Some(error),
                _ => None,
            });
            links.chain(&group.unreadable_attributes).collect()
        }
        Object::Dataset(dataset) => {
            let layout = match &dataset.layout {
                Layout::Unreadable(error) => Some(error),
                _ => None,
            };
            layout.into_iter().chain(&dataset.unreadable_attributes).collect()
        }
        Object::Datatype(_) => Vec::new(),
        Object::Unreadable(error) => vec![error],
    }
}

// The object graph.

/// An object header and, for a group, its links.
struct Node {
    header: Header,
    links: Option<Vec<Link>>,
}

/// Objects by the address of their headers.
type Graph = BTreeMap<u64, Result<Node, Error>>;

/// Reads all objects that hard links reach from the group at `root`.
async fn read_graph(io: &Io<'_>, format: Format, root: u64) -> Result<Graph, Error> {
    let mut graph = Graph::new();
    let mut level = vec![root];
    while !level.is_empty() {
        let (count, most) = (graph.len().saturating_add(level.len()) as u64, io.limits().objects);
        if count > most {
            let problem = format!("at least {count} objects, expected at most {most}");
            return Err(Error::limit("group", level.first().copied().unwrap_or(0), problem));
        }
        let headers = read_headers(io, format, &level).await?;
        let groups: Vec<_> = headers.iter().flatten().filter(|header| is_group(header)).collect();
        let mut links = read_links(io, format, &groups).await?.into_iter();
        let mut next = BTreeSet::new();
        for (address, header) in level.into_iter().zip(headers) {
            let node = header.and_then(|header| {
                let links = if is_group(&header) { links.next().transpose()? } else { None };
                next.extend(links.iter().flatten().filter_map(|link| match link.target {
                    LinkTarget::Hard(address) => Some(address.0),
                    _ => None,
                }));
                Ok(Node { header, links })
            });
            graph.insert(address, node);
        }
        next.retain(|address| !graph.contains_key(address));
        level = next.into_iter().collect();
    }
    Ok(graph)
}
