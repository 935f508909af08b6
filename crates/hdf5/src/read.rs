//! Assembles the model of a file.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::future::try_join;
use virtualize_bytes::{Address, ByteRange, Limits, ReadRanges};

use crate::{
    Error,
    attribute::{Attributes, read_attributes},
    btree1,
    cursor::Format,
    dataspace, datatype, fill_value, filters,
    global_heap::{self, VariableElement, fetch_collections},
    graph::{Graph, Node, read_graph},
    io::Io,
    layout::{self, LayoutRequest, read_layouts},
    model::{Dataset, Datatype, Element, File, FillMessage, Group, Layout, Link, LinkTarget, Object},
    object_header::{Header, Message, kind, read_headers},
    shared::{self, Body, SharedMessages, SharedReference},
    struct_metadata::struct_metadata,
    superblock::{self, Superblock},
    value::{Collections, Decoder, object_in},
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
    let messages = graph.values().flatten().flat_map(|node| &node.header.messages);
    let messages = messages.filter(|message| message.shared && message.kind != kind::ATTRIBUTE);
    let references = messages.filter_map(|message| reference_of(message, format).ok());
    shared.look_up(&io, format, references.collect()).await?;
    let drafts = drafts(&io, &mut graph, format, &shared)?;
    let headers: Vec<_> = graph.values().flatten().map(|node| &node.header).collect();
    let (attributes, layouts) = try_join(
        read_attributes(&io, format, &headers, &mut shared),
        read_layouts(&io, format, layout_requests(&drafts)),
    )
    .await?;
    let mut file = File {
        superblock_version: superblock.version,
        base_address: Address(superblock.address),
        end: Address(io.size()),
        cached: io.overlay().clone(),
        offset_size: format.offset_size,
        length_size: format.length_size,
        root: Address(superblock.root),
        objects: assemble(&graph, drafts, attributes, layouts),
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

/// Reads the superblock and its extension.
async fn open<'a>(
    source: &'a dyn ReadRanges,
    limits: &Limits,
) -> Result<(Io<'a>, Superblock, Option<Header>), Error> {
    let mut io = Io::with_head(source, *limits).await?;
    let superblock = find_superblock(&io).await?;
    io.set_end(superblock.end);
    let extension = read_extension(&io, &superblock).await?;
    io.ranks = match extension.as_ref().and_then(|header| header.find(kind::TREE_RANKS)) {
        Some(message) => btree1::parse(&message.body, message.address, superblock.format)?,
        None => superblock.ranks,
    };
    let message = extension.as_ref().and_then(|header| header.find(kind::FILE_SPACE));
    let size = message.map(|m| superblock::parse_page_size(&m.body, m.address, superblock.format));
    if let Some(Ok(Some(size))) = size {
        io.set_pages(superblock.format.base, size);
    };
    overlay_cache_image(&mut io, superblock.format, extension.as_ref()).await?;
    Ok((io, superblock, extension))
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
    elements.into_iter().map(|element| items_of(element, item_size, &collections)).collect()
}

/// Returns the stored bytes of a variable-length element, whose collection is fetched.
fn items_of(element: VariableElement, item_size: u64, collections: &Collections) -> Result<Bytes, Error> {
    let Some(pointer) = element.pointer else { return Ok(Bytes::new()) };
    let object = object_in(collections, pointer)?.unwrap_or_default();
    if element.length.checked_mul(item_size) == Some(object.len() as u64) {
        return Ok(object);
    }
    let VariableElement { length, .. } = element;
    let problem = format!("{length} items of {item_size} bytes in an object of {}", object.len());
    Err(Error::malformed("variable-length element", pointer.collection, problem))
}

const fn format_of(file: &File) -> Format {
    Format { base: file.base_address.0, offset_size: file.offset_size, length_size: file.length_size }
}

/// Finds the superblock: tries offset 0 first, then all other possible offsets in one batch.
async fn find_superblock(io: &Io<'_>) -> Result<Superblock, Error> {
    let places: Vec<_> = superblock::candidates(io.size()).collect();
    let (first, others) = places.split_at(places.len().min(1));
    for places in [first, others] {
        let ranges: Vec<_> = places.iter().map(|&at| ByteRange::new(at, superblock::LENGTH)).collect();
        let blocks = io.read(&ranges).await?;
        let found = blocks.iter().zip(places).find(|(bytes, _)| superblock::is_superblock(bytes));
        if let Some((bytes, &address)) = found {
            let superblock = superblock::parse(bytes, address)?;
            return superblock.check_end(io.size()).map(|()| superblock);
        }
    }
    Err(Error::NotHdf5)
}

/// Reads the superblock extension. Files of the multi and family drivers, whose data is spread over several files, are
/// rejected.
async fn read_extension(io: &Io<'_>, superblock: &Superblock) -> Result<Option<Header>, Error> {
    if let Some(address) = superblock.driver_block {
        let block = io.read(&[ByteRange::new(address, 16)]).await?.into_iter().next().unwrap_or_default();
        let name = block.get(8..16).unwrap_or_default();
        return Err(driver(address, name));
    }
    let Some(address) = superblock.extension else { return Ok(None) };
    let header = read_headers(io, superblock.format, &[address]).await?.pop().transpose()?;
    match header.as_ref().and_then(|header| header.find(kind::DRIVER_INFO)) {
        Some(message) => Err(driver(message.address, message.body.get(1..9).unwrap_or_default())),
        None => Ok(header),
    }
}

/// Restores structures from the metadata cache image, if the file has one.
async fn overlay_cache_image(
    io: &mut Io<'_>,
    format: Format,
    extension: Option<&Header>,
) -> Result<(), Error> {
    let message = extension.and_then(|header| header.find(kind::CACHE_IMAGE));
    let range = message.map(|m| superblock::parse_message(&m.body, m.address, format)).transpose()?.flatten();
    let Some(range) = range else { return Ok(()) };
    let block = io.read(&[range]).await?.into_iter().next().unwrap_or_default();
    io.add_overlay(superblock::parse_image(&block, range.start, format)?);
    Ok(())
}

fn driver(address: u64, name: &[u8]) -> Error {
    let problem = format!(
        "file driver {:?}, expected none: data may be in other files",
        name.escape_ascii().to_string()
    );
    Error::unsupported("driver information", address, problem)
}

fn reference_of(message: &Message, format: Format) -> Result<SharedReference, Error> {
    shared::parse(&message.body, message.address, message.kind, format)
}

/// An object without its attributes and, for a dataset, its layout.
enum Draft {
    Object(Object),
    Dataset(Box<Dataset>, Result<LayoutRequest, Error>),
}

/// Drafts the objects of the graph, in its order. Moves the links out of the graph.
fn drafts(
    io: &Io<'_>,
    graph: &mut Graph,
    format: Format,
    shared: &SharedMessages,
) -> Result<Vec<Draft>, Error> {
    let draft = |node: &mut Result<Node, Error>| {
        io.hold("objects", (size_of::<Dataset>() as u64).saturating_add(size_of::<LayoutRequest>() as u64))?;
        let draft = node.as_mut().map_err(|error| error.clone()).and_then(|Node { header, links }| {
            let messages = Messages { header, format, shared };
            messages.hold(io)?;
            messages.draft(links.take())
        });
        Ok(draft.unwrap_or_else(|error| Draft::Object(Object::Unreadable(error))))
    };
    graph.values_mut().map(draft).collect()
}

/// The messages of an object header, with shared ones resolved.
struct Messages<'a> {
    header: &'a Header,
    format: Format,
    shared: &'a SharedMessages,
}

impl Messages<'_> {
    /// Returns the body of a message and, if it is that of a committed datatype, the address of the datatype.
    fn body(&self, message: &Message) -> Result<(Body, Option<Address>), Error> {
        if !message.shared {
            return Ok((Body { address: message.address, bytes: message.body.clone() }, None));
        }
        let reference = reference_of(message, self.format)?;
        let committed = match reference {
            SharedReference::Committed(address) => Some(Address(address)),
            SharedReference::Heap { .. } => None,
        };
        Ok((self.shared.get(reference)?, committed))
    }

    /// Charges the shared messages of the header to the memory budget, once per object.
    fn hold(&self, io: &Io<'_>) -> Result<(), Error> {
        let shared = self.header.messages.iter().filter(|m| m.shared && m.kind != kind::ATTRIBUTE);
        let references = shared.filter_map(|message| reference_of(message, self.format).ok());
        references.into_iter().try_for_each(|reference| self.shared.hold(io, reference))
    }

    /// Parses the first message of a type, if there is one.
    fn parsed<T>(
        &self,
        kind: u16,
        parse: impl Fn(&[u8], u64, Format) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let Some(message) = self.header.find(kind) else { return Ok(None) };
        let (body, _) = self.body(message)?;
        parse(&body.bytes, body.address, self.format).map(Some)
    }

    fn draft(&self, links: Option<Vec<Link>>) -> Result<Draft, Error> {
        if let Some(links) = links {
            return Ok(Draft::Object(Object::Group(Group { links, ..Group::default() })));
        }
        if self.header.find(kind::DATASPACE).is_none() && self.header.find(kind::LAYOUT).is_none() {
            return self.committed().map(|datatype| Draft::Object(Object::Datatype(datatype)));
        }
        self.dataset()
    }

    fn committed(&self) -> Result<Datatype, Error> {
        self.parsed(kind::DATATYPE, datatype::parse)?.ok_or_else(|| self.lacks("datatype"))
    }

    fn lacks(&self, what: &str) -> Error {
        Error::malformed("object header", self.header.address, format!("no {what} message"))
    }

    fn dataset(&self) -> Result<Draft, Error> {
        let message = self.header.find(kind::DATATYPE).ok_or_else(|| self.lacks("datatype"))?;
        let (body, committed_datatype) = self.body(message)?;
        let datatype = datatype::parse(&body.bytes, body.address, self.format)?;
        let dataspace = self.parsed(kind::DATASPACE, dataspace::parse)?;
        let dataspace = dataspace.ok_or_else(|| self.lacks("dataspace"))?;
        let mut fill = self.fill()?;
        fill.value = fill_value::checked(fill.value, &datatype, self.header.address)?;
        let filters = self.parsed(kind::FILTERS, filters::parse)?.unwrap_or_default();
        let request = self.layout().map(|(message, external)| LayoutRequest {
            message,
            external,
            dataspace: dataspace.clone(),
            element_size: datatype.size(),
            filtered: !filters.is_empty(),
            header: self.header.address,
        });
        let dataset = Dataset {
            datatype,
            committed_datatype,
            dataspace,
            dimensions: None,
            fill,
            filters,
            layout: Layout::Contiguous(None),
            attributes: Vec::new(),
            unreadable_attributes: Vec::new(),
        };
        Ok(Draft::Dataset(Box::new(dataset), request))
    }

    fn layout(&self) -> Result<(layout::LayoutMessage, Option<layout::ExternalFiles>), Error> {
        let message = self.parsed(kind::LAYOUT, layout::parse)?.ok_or_else(|| self.lacks("data layout"))?;
        Ok((message, self.parsed(kind::EXTERNAL_FILES, layout::parse_external)?))
    }

    fn fill(&self) -> Result<FillMessage, Error> {
        if let Some(fill) = self.parsed(kind::FILL_VALUE, fill_value::parse)? {
            return Ok(fill);
        }
        Ok(self.parsed(kind::OLD_FILL_VALUE, fill_value::parse_old)?.unwrap_or(fill_value::ABSENT))
    }
}

fn layout_requests(drafts: &[Draft]) -> Vec<LayoutRequest> {
    let requests = drafts.iter().filter_map(|draft| match draft {
        Draft::Dataset(_, Ok(request)) => Some(request.clone()),
        _ => None,
    });
    requests.collect()
}

/// Completes the drafts with the layouts of datasets, in the order of [`layout_requests`], and with the attributes of
/// each node that could be read.
fn assemble(
    graph: &Graph,
    drafts: Vec<Draft>,
    attributes: Vec<Attributes>,
    layouts: Vec<Layout>,
) -> BTreeMap<Address, Object> {
    let (mut attributes, mut layouts) = (attributes.into_iter(), layouts.into_iter());
    let object = |((address, node), draft): ((&u64, &Result<Node, Error>), Draft)| {
        let mut object = match draft {
            Draft::Object(object) => object,
            Draft::Dataset(mut dataset, request) => {
                dataset.layout = match request {
                    Ok(_) => layouts.next().unwrap_or(Layout::Contiguous(None)),
                    Err(error) => Layout::Unreadable(error),
                };
                Object::Dataset(dataset)
            }
        };
        if node.is_ok() {
            set_attributes(&mut object, attributes.next().unwrap_or_default());
        }
        (Address(*address), object)
    };
    graph.iter().zip(drafts).map(object).collect()
}

fn set_attributes(object: &mut Object, Attributes { read, unreadable }: Attributes) {
    let (attributes, unreadable_attributes) = match object {
        Object::Group(group) => (&mut group.attributes, &mut group.unreadable_attributes),
        Object::Dataset(dataset) => (&mut dataset.attributes, &mut dataset.unreadable_attributes),
        Object::Datatype(_) | Object::Unreadable(_) => return,
    };
    (*attributes, *unreadable_attributes) = (read, unreadable);
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
