//! Datasets whose elements point into the global heap, and whose shape or type depends on what is stored there: structures with
//! text of variable length, and sequences.
//!
//! [`heap_tasks`] lists what has to be read before the file is mapped. From the values, [`flatten`] makes datasets of
//! elements of fixed size, which are mapped like any other dataset that is stored in its object header.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use virtualize_bytes::{Address, Budget};
use virtualize_hdf5::model::{
    Attribute, ByteOrder, CharacterSet, Dataset, Dataspace, Datatype, Element, File, FillMessage, FillTime,
    FillValue as StoredFill, Integer, Layout, Member, Object, ReferenceKind, StringPadding,
};
use virtualize_remedy::Code;
use virtualize_zarr::node::join;
use virtualize_zarr::{
    ChunkGrid, DataType, Endian, FillValue, Group, Node, Source, SourceId, ZarrFormat, chunk_indices,
};

use super::chunks::{ChunkPlan, ChunkPlanner, item_type};
use super::dataset::array_shape;
use super::datatype::{ElementType, array_as_compound, array_items, array_member, element_type};
use super::dimensions::{AxisDimension, Lengths};
use super::fill::DatasetFill;
use super::links::{FileContext, OpenFile, OtherFile, OtherFiles};
use super::tree::Place;
use super::tree::{HeapPointers, Lookup, ObjectNames};
use super::{Mapper, SourceTable};
use crate::{ChunkContent, Error, MapOptions, ReferenceText, Result};

/// A dataset: the url of its file, and its address there.
pub type DatasetKey = (String, Address);

/// What has to be read before a dataset can be mapped.
#[derive(Clone, Debug)]
pub struct HeapTask {
    /// Urls of the files; a [`SourceId`] is a place in this list.
    pub sources: Vec<String>,
    /// Recipe of all elements, pointers included, in one chunk.
    pub content: ChunkContent,
    /// The fill value, an element that follows the others.
    pub fill: Bytes,
    /// File of the heap.
    pub heap: SourceId,
    /// Pointers of an element, in the order of their offsets.
    pub pointers: Vec<HeapPointer>,
    /// The dataset, without its chunks.
    dataset: Dataset,
    /// Maximum number of bytes of values.
    limit: u64,
}

/// A pointer of each element.
#[derive(Clone, Debug)]
pub struct HeapPointer {
    /// Offset in the element, in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// Type of what it points at, and paths of objects; pointers that are followed alike share it.
    pub context: Arc<HeapPointers>,
    /// Text of a reference to an object.
    pub references: Option<ReferenceText>,
}

/// The elements of a dataset, and what they point at.
#[derive(Clone, Debug)]
pub struct HeapValues {
    /// Elements with their pointers, the fill value last.
    pub elements: Vec<u8>,
    /// For each pointer of [`HeapTask::pointers`], the value in each element.
    pub values: Vec<Vec<Bytes>>,
}

/// Datasets with elements of fixed size that represent one with elements of variable length.
#[derive(Clone, Debug)]
pub enum Flattened {
    /// Structures with text of fixed length.
    Structures(Box<Dataset>),
    /// Sequences, as contiguous ragged array.
    Ragged {
        /// Items of all sequences, one sequence after the other.
        values: Box<Dataset>,
        /// Number of items of each sequence, in the shape of the dataset.
        row_sizes: Box<Dataset>,
    },
}

/// Returns the datasets that represent the dataset of a task.
///
/// # Errors
/// The values are too large, or contradict the type.
pub fn flatten(task: &HeapTask, values: &HeapValues, budget: &Budget<'_>) -> Result<Flattened> {
    match item_type(&task.dataset.datatype) {
        Datatype::Sequence { base, .. } => ragged(task, base, values, budget),
        _ => structures(task, values, budget),
    }
}

impl HeapTask {
    /// Returns the dataset with other elements, stored in its object header.
    fn stored_as(&self, item: Datatype, elements: Vec<u8>, fill: StoredFill) -> Dataset {
        let datatype = match &self.dataset.datatype {
            Datatype::Array { .. } => with_item(&self.dataset.datatype, item),
            _ => item,
        };
        Dataset {
            datatype,
            committed_datatype: None,
            fill: FillMessage { value: fill, ..self.dataset.fill.clone() },
            filters: Vec::new(),
            layout: Layout::Compact(elements.into()),
            ..self.dataset.clone()
        }
    }

    /// Takes memory for values that are put inline.
    fn take(&self, bytes: Option<u64>, why: &'static str, budget: &Budget<'_>) -> Result<()> {
        match bytes {
            Some(bytes) if bytes <= self.limit => Ok(budget.take("values of variable length", bytes)?),
            _ => Err(Error::inline_limit(
                why,
                &bytes.map_or("its values".to_owned(), |bytes| format!("{bytes} bytes")),
                self.limit,
            )),
        }
    }
}

/// Returns a (nested) array type with other items.
fn with_item(datatype: &Datatype, item: Datatype) -> Datatype {
    match datatype {
        Datatype::Array { base, shape } => {
            Datatype::Array { base: Box::new(with_item(base, item)), shape: shape.clone() }
        }
        _ => item,
    }
}

/// A dataset that is never filled.
const NO_FILL: FillMessage = FillMessage {
    version: None,
    write_time: FillTime::IfSet,
    allocation_time: 0,
    value: StoredFill::Default,
};

/// Suffix of the array with the number of items of each sequence.
const ROW_SIZE: &str = "_row_size";

/// Suffix of the dimension of all items.
const SAMPLE: &str = "_sample";

/// Attribute of the row sizes: the dimension of the items (CF conventions, section 9.3.3).
pub(super) const SAMPLE_DIMENSION: &str = "sample_dimension";

impl<'a> Mapper<'a> {
    /// Returns what represents a dataset whose values were read before; `None` for other datasets.
    pub(super) fn flattened(&self, address: Address) -> Option<&'a Result<Flattened>> {
        let flattened = &self.shared.others.flattened;
        if flattened.is_empty() { None } else { flattened.get(&(self.own.source.url.clone(), address)) }
    }

    /// Maps sequences to their items, which it returns, and to their row sizes, which it adds to the group.
    pub(super) fn ragged(
        &mut self,
        group: &mut Group,
        place: &Place<'_>,
        (name, address): (&str, Address),
        (values, row_sizes): (&Dataset, &Dataset),
        (axes, lengths): (Vec<AxisDimension>, &mut Lengths),
    ) -> Option<Node> {
        let shown = self.variable_name(name);
        let is_taken = |name: &str| {
            lengths.has(name)
                || group.children.contains_key(name)
                || place.scopes.iter().any(|scope| scope.defines(name))
        };
        let free = |suffix: &str| {
            let mut name = format!("{shown}{suffix}");
            while is_taken(&name) {
                name.push('_');
            }
            name
        };
        let (sample, size_name) = (free(SAMPLE), free(ROW_SIZE));
        let axis = AxisDimension { name: Some(sample.clone()), ..AxisDimension::default() };
        let array = self.child_array(place, name, values, (vec![axis], lengths))?;
        let row_sizes =
            Dataset { attributes: vec![text_attribute(SAMPLE_DIMENSION, &sample)], ..row_sizes.clone() };
        let sizes = self.child_array(place, &size_name, &row_sizes, (axes, lengths))?;
        let (path, size_path) = (join(place.path, shown), join(place.path, &size_name));
        if let Some(Object::Dataset(dataset)) = self.own.file.objects.get(&address) {
            self.describe_as(&path, dataset);
            self.describe_as(&size_path, dataset);
        }
        let message =
            format!("\"{shown}\" holds the items of all sequences, \"{size_name}\" their number in each");
        self.report.info(Code::RaggedArray, &path, message);
        group.children.insert(size_name, Node::Array(Box::new(sizes)));
        Some(Node::Array(Box::new(array)))
    }

    /// Reports the source of an array as the dataset that it represents.
    pub(super) fn describe_as(&mut self, path: &str, dataset: &Dataset) {
        self.report.arrays.entry(path.to_owned()).or_default().describe(dataset, self.own.file);
    }
}

fn text_attribute(name: &str, value: &str) -> Attribute {
    let (padding, charset) = (StringPadding::NullTerminated, CharacterSet::Utf8);
    Attribute {
        name: name.to_owned(),
        datatype: Datatype::VariableString { size: 16, padding, charset },
        dataspace: Dataspace::Scalar,
        elements: vec![Element::Text(value.to_owned())],
    }
}

/// Type of the row sizes.
const COUNT: Datatype = Datatype::Integer(Integer {
    size: 8,
    order: ByteOrder::Little,
    signed: true,
    bit_offset: 0,
    precision: 64,
});

/// Returns the items and the row sizes of sequences whose items have the type `base`.
pub(super) fn ragged(
    task: &HeapTask,
    base: &Datatype,
    values: &HeapValues,
    budget: &Budget<'_>,
) -> Result<Flattened> {
    let [rows] = values.values.as_slice() else {
        return Err(Error::malformed("sequence", "its pointers were not read"));
    };
    let rows = rows.split_last().map_or(&[][..], |(_, rows)| rows);
    let bytes = rows.iter().map(|row| row.len() as u64).fold(0, u64::saturating_add);
    task.take(Some(bytes), "sequences are stored in the global heap", budget)?;
    let count = |row: &Bytes| (row.len() as u64).checked_div(base.size()).unwrap_or(0);
    let row_sizes: Vec<u8> = rows.iter().flat_map(|row| count(row).to_le_bytes()).collect();
    let total = rows.iter().map(count).fold(0, u64::saturating_add);
    let row_sizes = Dataset {
        // NetCDF shows sequences past the end of a short variable as empty.
        fill: FillMessage { value: StoredFill::User(Bytes::from_static(&[0; 8])), ..NO_FILL },
        attributes: Vec::new(),
        unreadable_attributes: Vec::new(),
        ..task.stored_as(COUNT, row_sizes, StoredFill::Default)
    };
    let values = Dataset {
        datatype: base.clone(),
        dataspace: Dataspace::Simple { shape: vec![total], max_shape: None },
        fill: NO_FILL,
        layout: Layout::Compact(rows.concat().into()),
        ..task.stored_as(COUNT, Vec::new(), StoredFill::Default)
    };
    Ok(Flattened::Ragged { values: Box::new(values), row_sizes: Box::new(row_sizes) })
}

const WHY: &str = "text of variable length in structures becomes as long as the longest";

/// Whether elements of a dataset point at values in the global heap that its type or shape depends on.
pub(super) fn holds_pointers(datatype: &Datatype) -> bool {
    match item_type(datatype) {
        Datatype::Sequence { .. } => true,
        Datatype::Compound { members, .. } => members.iter().any(|member| is_pointer(&member.datatype)),
        _ => false,
    }
}

/// Whether a member is, or contains, a pointer to text.
fn is_pointer(datatype: &Datatype) -> bool {
    match datatype {
        Datatype::VariableString { .. } => true,
        // Text has no room for the part that other references select.
        Datatype::Reference { kind: ReferenceKind::Object | ReferenceKind::Standard(2), .. } => true,
        Datatype::Compound { members, .. } => members.iter().any(|member| is_pointer(&member.datatype)),
        Datatype::Array { base, .. } => is_pointer(base),
        _ => false,
    }
}

/// Returns the pointers of a structure, as (offset, type).
pub(super) fn pointers(datatype: &Datatype, offset: u32) -> Vec<(u32, &Datatype)> {
    match datatype {
        Datatype::Compound { members, .. } => members
            .iter()
            .flat_map(|member| pointers(&member.datatype, offset.saturating_add(member.offset)))
            .collect(),
        Datatype::Array { base, shape } if is_pointer(base) => {
            let size = u32::try_from(base.size()).unwrap_or(u32::MAX);
            let items = u32::try_from(array_items(shape).unwrap_or(0)).unwrap_or(0);
            (0..items).flat_map(|n| pointers(base, offset.saturating_add(n.saturating_mul(size)))).collect()
        }
        pointer if is_pointer(pointer) => vec![(offset, pointer)],
        _ => Vec::new(),
    }
}

/// Where bytes of a flat element come from.
enum Part {
    /// Bytes of the stored element: (offset, size).
    Stored(usize, usize),
    /// Text of the next pointer, padded with NULs to this size.
    Text(usize),
}

/// The layout of a flat element.
#[derive(Default)]
struct Flat {
    parts: Vec<Part>,
    /// Bytes so far.
    size: u32,
}

impl Flat {
    /// Appends a datatype stored at `offset`, and returns its flat type. `longest` has the size of each text.
    fn push(
        &mut self,
        datatype: &Datatype,
        offset: u32,
        longest: &mut dyn Iterator<Item = u32>,
    ) -> Result<Datatype> {
        if !is_pointer(datatype) {
            let size = u32::try_from(datatype.size()).map_err(|_| too_large())?;
            self.append(Part::Stored(index(offset)?, index(size)?), size)?;
            return Ok(datatype.clone());
        }
        if let Datatype::Array { base, shape } = datatype {
            return self.push(&array_as_compound(base, shape)?, offset, longest);
        }
        let Datatype::Compound { members, .. } = datatype else {
            let size = longest.next().unwrap_or(1);
            self.append(Part::Text(index(size)?), size)?;
            let charset = CharacterSet::Utf8;
            return Ok(Datatype::String { size, padding: StringPadding::NullPadded, charset });
        };
        let start = self.size;
        let flat = |member: &Member| {
            let at = self.size - start;
            let from = offset.checked_add(member.offset).ok_or_else(too_large)?;
            let datatype = self.push(&member.datatype, from, longest)?;
            Ok(Member { name: member.name.clone(), offset: at, datatype })
        };
        let members = members.iter().map(flat).collect::<Result<Vec<_>>>()?;
        Ok(Datatype::Compound { size: self.size - start, members })
    }

    fn append(&mut self, part: Part, size: u32) -> Result<()> {
        self.parts.push(part);
        self.size = self.size.checked_add(size).ok_or_else(too_large)?;
        Ok(())
    }

    /// Appends a flat element to `out`. `texts` are those of its pointers.
    fn write<'a>(
        &self,
        stored: &[u8],
        mut texts: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        for part in &self.parts {
            match part {
                Part::Stored(from, size) => out.extend_from_slice(stored.get(*from..)?.get(..*size)?),
                Part::Text(size) => {
                    let text = texts.next()?;
                    out.extend_from_slice(text);
                    out.resize(out.len().checked_add(size.checked_sub(text.len())?)?, 0);
                }
            }
        }
        Some(())
    }
}

fn too_large() -> Error {
    Error::overflow("the datatype")
}

fn index(number: u32) -> Result<usize> {
    usize::try_from(number).map_err(|_| too_large())
}

/// Returns text as libhdf5 does: its first NUL ends it.
fn text(value: &Bytes) -> &[u8] {
    value.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Returns the dataset with each text padded to the longest one at its place.
pub(super) fn structures(task: &HeapTask, values: &HeapValues, budget: &Budget<'_>) -> Result<Flattened> {
    let item = item_type(&task.dataset.datatype);
    let longest = values.values.iter().map(|texts| {
        let longest = texts.iter().map(|value| text(value).len()).max().unwrap_or(0);
        u32::try_from(longest.max(1)).map_err(|_| too_large())
    });
    let longest: Vec<u32> = longest.collect::<Result<_>>()?;
    let mut flat = Flat::default();
    let flat_type = flat.push(item, 0, &mut longest.into_iter())?;
    let stored_size = usize::try_from(item.size()).unwrap_or(usize::MAX).max(1);
    let count = values.elements.len() / stored_size;
    task.take((count as u64).checked_mul(flat.size.into()), WHY, budget)?;
    let mut elements = Vec::with_capacity(count.saturating_mul(index(flat.size)?));
    for (row, stored) in values.elements.chunks_exact(stored_size).enumerate() {
        let texts = values.values.iter().filter_map(|texts| texts.get(row).map(text));
        flat.write(stored, texts, &mut elements)
            .ok_or_else(|| Error::malformed("compound", "members past its end"))?;
    }
    let fill = elements.split_off(elements.len().saturating_sub(index(flat.size)?));
    let items = item_count(&task.dataset.datatype);
    let fill = match &task.dataset.fill.value {
        StoredFill::User(_) => StoredFill::User(fill.repeat(usize::try_from(items).unwrap_or(0)).into()),
        other => other.clone(),
    };
    let is_unwritten = task.content.pieces().is_empty();
    let mut dataset = task.stored_as(flat_type, elements, fill);
    if is_unwritten {
        dataset.layout = Layout::Contiguous(None);
    }
    Ok(Flattened::Structures(Box::new(dataset)))
}

/// Returns the items of an element of a (nested) array type; 1 for other types.
fn item_count(datatype: &Datatype) -> u64 {
    match datatype {
        Datatype::Array { base, shape } => shape.iter().copied().fold(item_count(base), u64::saturating_mul),
        _ => 1,
    }
}

/// Text of one byte.
const BYTE: Datatype =
    Datatype::String { size: 1, padding: StringPadding::NullPadded, charset: CharacterSet::Ascii };

/// Lists the datasets of a file, and of the files that its links lead to, whose values decide how they are mapped. Datasets
/// that cannot be mapped whatever their values are not listed.
pub fn heap_tasks(
    file: &File,
    source: &Source,
    others: &OtherFiles,
    options: &MapOptions,
    budget: &Budget<'_>,
) -> Vec<(DatasetKey, Result<HeapTask, Error>)> {
    let lookup = Lookup::new(budget);
    let root = OpenFile { file, source };
    let linked = others.files.values().filter_map(|other| match other {
        OtherFile::Read(file, source) if options.follow_external => Some(OpenFile { file, source }),
        _ => None,
    });
    let mut tasks = Vec::new();
    for here in std::iter::once(root).chain(linked) {
        let context = FileContext { root, here, others, lookup: &lookup, depth: 0 };
        let mut names = None;
        for (address, object) in &here.file.objects {
            let Object::Dataset(dataset) = object else { continue };
            if !is_wanted(dataset, options) {
                continue;
            }
            let names = names.get_or_insert_with(|| {
                let names = ObjectNames::new(here.file);
                Arc::new(if here.source.url == source.url { names } else { names.linked() })
            });
            let key = (here.source.url.clone(), *address);
            tasks.push((key, task(dataset, names, context, options)));
        }
    }
    tasks
}

/// Whether a dataset can be mapped, given its values.
fn is_wanted(dataset: &Dataset, options: &MapOptions) -> bool {
    let is_mapped = |datatype: &Datatype| element_type(datatype, options.format).is_ok();
    match item_type(&dataset.datatype) {
        Datatype::Sequence { base, .. } => options.ragged && is_mapped(base),
        item if array_member(item).is_some() && !options.ragged => false,
        item => {
            let with_short_text = || Flat::default().push(item, 0, &mut std::iter::repeat(1));
            holds_pointers(item) && with_short_text().is_ok_and(|datatype| is_mapped(&datatype))
        }
    }
}

fn task(
    dataset: &Dataset,
    names: &Arc<ObjectNames>,
    context: FileContext<'_>,
    options: &MapOptions,
) -> Result<HeapTask> {
    if matches!(dataset.layout, Layout::Virtual(_)) {
        return Err(Error::unsupported("a virtual dataset", "its elements point into several files"));
    }
    let mut axes = Vec::new();
    let mut item = &dataset.datatype;
    while let Datatype::Array { base, shape } = item {
        axes.extend_from_slice(shape);
        item = base;
    }
    let size = u32::try_from(item.size()).map_err(|_| too_large())?;
    let element = ElementType { axes, ..ElementType::plain(DataType::RawBytes(size), Endian::Little, size) };
    let shape = array_shape(dataset, &element);
    let fill = DatasetFill::of(dataset, &element)?;
    let options =
        MapOptions { own_codecs: false, split_contiguous: None, format: ZarrFormat::V3, ..options.clone() };
    let planner = ChunkPlanner {
        dataset,
        element: &element,
        shape: &shape,
        background: fill.background(),
        objects: names,
        options: &options,
        small_records: None,
        context,
    };
    let mut plan = planner.plan()?;
    let missing = plan.missing_count(&shape);
    fill.check_missing(missing)?;
    let item = item_type(&dataset.datatype);
    let mut contexts: BTreeMap<u32, Arc<HeapPointers>> = BTreeMap::new();
    let found = match item {
        Datatype::Sequence { .. } => vec![(0, item)],
        _ => pointers(item, 0),
    };
    let pointer = |(offset, datatype): (u32, &Datatype)| {
        let size = u32::try_from(datatype.size()).map_err(|_| too_large())?;
        let references = matches!(datatype, Datatype::Reference { .. }).then_some(ReferenceText::Whole);
        let kind = if references.is_some() { size } else { 0 };
        let context = contexts.entry(kind).or_insert_with(|| {
            // Text is read as a sequence of its bytes.
            let datatype = match datatype {
                Datatype::VariableString { size, .. } => {
                    Datatype::Sequence { size: *size, base: Box::new(BYTE) }
                }
                other => other.clone(),
            };
            Arc::new(HeapPointers { datatype, objects: Arc::clone(names) })
        });
        Ok(HeapPointer {
            offset: usize::try_from(offset).map_err(|_| too_large())?,
            size: usize::try_from(size).map_err(|_| too_large())?,
            context: Arc::clone(context),
            references,
        })
    };
    let pointers: Vec<HeapPointer> = found.into_iter().map(pointer).collect::<Result<_>>()?;
    let FillValue::Fixed(stored_fill) = &fill.header else { return Err(Error::overflow("the fill value")) };
    let mut stored_fill = stored_fill.to_vec();
    if missing == 0 {
        // Writers leave invalid pointers in fill values that nothing reads.
        for pointer in &pointers {
            let end = pointer.offset.saturating_add(pointer.size);
            stored_fill.get_mut(pointer.offset..end).into_iter().for_each(|bytes| bytes.fill(0));
        }
    }
    let mut table = SourceTable::new(&context.root.source.url);
    let heap = table.id(&context.here.source.url)?;
    plan.renumber(&context.here.source.url, &mut table)?;
    let content = whole(plan, &planner)?;
    Ok(HeapTask {
        sources: std::iter::once(context.root.source.url.clone()).chain(table.into_others()).collect(),
        content,
        fill: stored_fill.into(),
        heap,
        pointers,
        dataset: Dataset { layout: Layout::Contiguous(None), ..dataset.clone() },
        limit: options.inline_limit,
    })
}

/// Returns all chunks of a plan as one. Without chunks, it has no elements unless they are sequences, whose number counts.
fn whole(plan: ChunkPlan, planner: &ChunkPlanner<'_>) -> Result<ChunkContent> {
    let shape = planner.shape;
    let counts = ChunkGrid::Regular(plan.chunk_shape.clone()).counts(shape);
    let mut pieces = Vec::new();
    for (position, content) in plan.inline {
        let index = chunk_indices(position, &counts).ok_or_else(|| Error::overflow("the chunk table"))?;
        for mut piece in content.pieces().iter().cloned() {
            for ((to, index), size) in piece.to.iter_mut().zip(&index).zip(&plan.chunk_shape) {
                *to = to.saturating_add(index.saturating_mul(*size));
            }
            if piece.clip(shape.iter().copied()) {
                pieces.push(piece);
            }
        }
    }
    let is_sequence = matches!(item_type(&planner.dataset.datatype), Datatype::Sequence { .. });
    let shape = if pieces.is_empty() && !is_sequence { vec![0] } else { shape.to_vec() };
    planner.check_limit(1, &shape, "values of variable length are stored in the global heap")?;
    Ok(ChunkContent::Assemble { shape, background: planner.background_bytes(), pieces })
}
