//! Which datasets have to be read before a file is mapped.

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use virtualize_bytes::Budget;
use virtualize_hdf5::model::{CharacterSet, Dataset, Datatype, File, Layout, Object, StringPadding};
use virtualize_zarr::{ChunkGrid, DataType, Endian, FillValue, Source, ZarrFormat, chunk_indices};

use super::structures::{holds_pointers, pointers};
use super::{DatasetKey, HeapPointer, HeapTask};
use crate::hdf5::array::array_shape;
use crate::hdf5::element::ElementType;
use crate::hdf5::header_fill::DatasetFill;
use crate::hdf5::lookup::Lookup;
use crate::hdf5::names::{HeapPointers, ObjectNames};
use crate::hdf5::others::{FileContext, OpenFile, OtherFile, OtherFiles};
use crate::hdf5::plan::{ChunkPlan, ChunkPlanner, item_type};
use crate::hdf5::source_table::SourceTable;
use crate::hdf5::structures::{array_as_compound, array_member};
use crate::hdf5::types::element_type;
use crate::{ChunkContent, Error, MapOptions, Piece, ReferenceText, Result};

const TOO_LARGE: Error = Error::Overflow("the datatype");

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
    let (sources_left, lookup) = (Cell::new(0), Lookup::new(budget));
    let root = OpenFile { file, source };
    let linked = others.files.values().filter_map(|other| match other {
        OtherFile::Read(file, source) if options.follow_external => Some(OpenFile { file, source }),
        _ => None,
    });
    let mut tasks = Vec::new();
    for here in std::iter::once(root).chain(linked) {
        let context =
            FileContext { root, here, others, sources_left: &sources_left, lookup: &lookup, depth: 0 };
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
    let is_mapped = |datatype| element_type(datatype, options.format).is_ok();
    match item_type(&dataset.datatype) {
        Datatype::Sequence { base, .. } => options.ragged && is_mapped(base),
        item if array_member(item).is_some() && !options.ragged => false,
        item => holds_pointers(item) && is_mapped(&with_short_text(item)),
    }
}

/// Returns a structure with text of one byte in place of its pointers.
fn with_short_text(datatype: &Datatype) -> Datatype {
    match datatype {
        Datatype::Compound { size, members } => {
            let mut members = members.clone();
            for member in &mut members {
                member.datatype = with_short_text(&member.datatype);
            }
            Datatype::Compound { size: *size, members }
        }
        Datatype::Array { base, shape } if !pointers(base, 0).is_empty() => {
            array_as_compound(base, shape).map_or_else(|_| datatype.clone(), |one| with_short_text(&one))
        }
        other if pointers(other, 0).is_empty() => other.clone(),
        _ => BYTE,
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
    let element = raw_element(&dataset.datatype)?;
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
        file_size: context.here.source.size,
        context,
    };
    let mut plan = planner.plan()?;
    let missing = plan.missing_count(&shape);
    if let Some(problem) = fill.problem.filter(|_| missing > 0) {
        return Err(Error::NoFillValue { missing, problem });
    }
    let pointers = heap_pointers(item_type(&dataset.datatype), names)?;
    let FillValue::Fixed(stored_fill) = &fill.header else { return Err(Error::Overflow("the fill value")) };
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
    renumber(&mut plan, &context.here.source.url, &mut table)?;
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

/// Returns elements as they are stored, pointers included.
fn raw_element(datatype: &Datatype) -> Result<ElementType> {
    let mut axes = Vec::new();
    let mut item = datatype;
    while let Datatype::Array { base, shape } = item {
        axes.extend_from_slice(shape);
        item = base;
    }
    let size = u32::try_from(item.size()).map_err(|_| TOO_LARGE)?;
    Ok(ElementType { axes, ..ElementType::plain(DataType::RawBytes(size), Endian::Little, size) })
}

/// Returns the pointers of an element.
fn heap_pointers(item: &Datatype, names: &Arc<ObjectNames>) -> Result<Vec<HeapPointer>> {
    let mut contexts: BTreeMap<u32, Arc<dyn Any + Send + Sync>> = BTreeMap::new();
    let found = match item {
        Datatype::Sequence { .. } => vec![(0, item)],
        _ => pointers(item, 0),
    };
    let pointer = |(offset, datatype): (u32, &Datatype)| {
        let size = u32::try_from(datatype.size()).map_err(|_| TOO_LARGE)?;
        let references = matches!(datatype, Datatype::Reference { .. }).then_some(ReferenceText::Whole);
        let kind = if references.is_some() { size } else { 0 };
        let context = contexts.entry(kind).or_insert_with(|| context(datatype, names));
        Ok(HeapPointer {
            offset: usize::try_from(offset).map_err(|_| TOO_LARGE)?,
            size: usize::try_from(size).map_err(|_| TOO_LARGE)?,
            context: Arc::clone(context),
            references,
        })
    };
    found.into_iter().map(pointer).collect()
}

fn context(datatype: &Datatype, names: &Arc<ObjectNames>) -> Arc<dyn Any + Send + Sync> {
    // Text is read as a sequence of its bytes.
    let datatype = match datatype {
        Datatype::VariableString { size, .. } => Datatype::Sequence { size: *size, base: Box::new(BYTE) },
        other => other.clone(),
    };
    Arc::new(HeapPointers { datatype, objects: Arc::clone(names) })
}

/// Renumbers the sources of a plan for the dataset of the file `own`.
fn renumber(plan: &mut ChunkPlan, own: &str, table: &mut SourceTable) -> Result<()> {
    let urls = std::iter::once(own).chain(plan.external_files.iter().map(String::as_str));
    let ids = urls.map(|url| table.id(url)).collect::<Result<Vec<_>>>()?;
    for source in plan.inline.iter_mut().flat_map(|(_, content)| content.sources_mut()) {
        *source = *ids.get(source.index()).ok_or(Error::Overflow("the list of source files"))?;
    }
    Ok(())
}

/// Returns all chunks of a plan as one. Without chunks, it has no elements unless they are sequences, whose number counts.
fn whole(plan: ChunkPlan, planner: &ChunkPlanner<'_>) -> Result<ChunkContent> {
    let shape = planner.shape;
    let counts = ChunkGrid::Regular(plan.chunk_shape.clone()).counts(shape);
    let mut pieces = Vec::new();
    for (position, content) in plan.inline {
        let index = chunk_indices(position, &counts).ok_or(Error::Overflow("the chunk table"))?;
        let origin = index.iter().zip(&plan.chunk_shape).map(|(index, size)| index.saturating_mul(*size));
        let origin: Vec<u64> = origin.collect();
        pieces.extend(content.pieces().iter().filter_map(|piece| moved(piece.clone(), &origin, shape)));
    }
    let is_sequence = matches!(item_type(&planner.dataset.datatype), Datatype::Sequence { .. });
    let shape = if pieces.is_empty() && !is_sequence { vec![0] } else { shape.to_vec() };
    planner.check_limit(1, &shape, "values of variable length lie in the global heap")?;
    Ok(ChunkContent::Assemble { shape, background: planner.background_bytes(), pieces })
}

/// Moves a piece of a chunk to its place in the array, and cuts what exceeds the array. `None` if nothing is left.
fn moved(mut piece: Piece, origin: &[u64], shape: &[u64]) -> Option<Piece> {
    for (((to, extent), origin), size) in piece.to.iter_mut().zip(&mut piece.extent).zip(origin).zip(shape) {
        *to = to.saturating_add(*origin);
        *extent = (*extent).min(size.saturating_sub(*to));
    }
    (!piece.extent.contains(&0)).then_some(piece)
}
