//! Selections of a virtual mapping: which elements of the source become which elements of the destination, axis by axis.
//!
//! The extent of a dataset with unlimited selections or numbered sources (`%b` in their names) follows from the sources that
//! exist, with the defaults of libhdf5: view "last available" (`H5D_VDS_LAST_AVAILABLE`), printf gap 0.

use std::collections::{BTreeMap, BTreeSet};

use virtualize_bytes::Budget;
use virtualize_hdf5::model::{Dataspace, File, Layout, Object, Selection, Slab, VirtualMapping};

use super::heap::DatasetKey;
use super::links::{OtherFile, OtherFiles, grown, no_dataset};
use super::tree::Lookup;
use crate::mapped::resolve_relative;
use crate::{Error, Result};

/// The structure in error messages.
const MAPPING: &str = "virtual mapping";

/// Maximum number of spans of one axis.
const SPANS: u64 = 1_000_000;

/// Elements that are contiguous along an axis of both source and destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    /// First element in the destination.
    pub(super) to: u64,
    /// First element in the source.
    pub(super) from: u64,
    /// Number of elements.
    pub(super) length: u64,
}

/// An axis of the destination, of the source, or of both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Axis {
    /// Axis of the destination; `None` for an axis of the source alone.
    pub(super) to: Option<usize>,
    /// Axis of the source; `None` for an axis of the destination alone.
    pub(super) from: Option<usize>,
    /// Spans in order; one element for an axis of one side alone.
    pub(super) spans: Vec<Span>,
}

/// Consecutive elements of an axis: (first, number).
type Run = (u64, u64);

/// Pairs the axes of two selections, within the shapes of their datasets. Elements are mapped in row-major order, so two
/// regular selections agree axis by axis once axes of one element are dropped.
///
/// # Errors
/// A selection is irregular or exceeds its dataset, or the selections differ in shape.
pub(super) fn axes(
    to: &Selection,
    to_shape: &[u64],
    from: &Selection,
    from_shape: &[u64],
) -> Result<Vec<Axis>> {
    let to = runs(to, to_shape)?;
    let from = runs(from, from_shape)?;
    let size = |runs: &Vec<Run>| runs.iter().map(|run| run.1).sum::<u64>();
    if to.iter().map(size).eq(from.iter().map(size)) {
        let pairs = to.iter().zip(&from).enumerate();
        return Ok(pairs.map(|(at, (to, from))| axis(Some((at, to)), Some((at, from)))).collect());
    }
    let (mut axes, mut rest) = (Vec::new(), from.iter().enumerate().peekable());
    for (at, runs) in to.iter().enumerate() {
        if size(runs) == 1 {
            axes.push(axis(Some((at, runs)), None));
            continue;
        }
        while let Some((alone, one)) = rest.next_if(|(_, runs)| size(runs) == 1) {
            axes.push(axis(None, Some((alone, one))));
        }
        match rest.next() {
            Some(source) if size(source.1) == size(runs) => axes.push(axis(Some((at, runs)), Some(source))),
            _ => return Err(malformed("the two selections differ in shape")),
        }
    }
    for (alone, one) in rest {
        if size(one) != 1 {
            return Err(malformed("the two selections differ in shape"));
        }
        axes.push(axis(None, Some((alone, one))));
    }
    Ok(axes)
}

/// An unlimited selection: the axis along which it has no end, and its slabs, one an axis.
pub(super) type Endless<'a> = (usize, &'a [Slab]);

/// Returns the unlimited axis of a selection, if it has one.
pub(super) fn endless(selection: &Selection) -> Option<Endless<'_>> {
    let Selection::Regular(slabs) = selection else { return None };
    let axis = slabs.iter().position(|slab| slab.count.is_none() || slab.block.is_none())?;
    Some((axis, slabs))
}

/// Pairs an axis of the destination with one of the source: splits runs of equal total length wherever one of either side ends.
fn axis(to: Option<(usize, &Vec<Run>)>, from: Option<(usize, &Vec<Run>)>) -> Axis {
    let mut spans = Vec::new();
    match (to, from) {
        (Some((_, to)), Some((_, from))) => {
            let (mut to, mut from) = (to.iter().copied(), from.iter().copied());
            let (mut here, mut there) = (to.next(), from.next());
            while let (Some((at, left)), Some((source, more))) = (here, there) {
                let length = left.min(more);
                spans.push(Span { to: at, from: source, length });
                here = if left > length { Some((at + length, left - length)) } else { to.next() };
                there = if more > length { Some((source + length, more - length)) } else { from.next() };
            }
        }
        (Some((_, to)), None) => {
            spans.extend(to.iter().map(|run| Span { to: run.0, from: 0, length: run.1 }))
        }
        (None, Some((_, from))) => {
            spans.extend(from.iter().map(|run| Span { to: 0, from: run.0, length: run.1 }));
        }
        (None, None) => {}
    }
    Axis { to: to.map(|axis| axis.0), from: from.map(|axis| axis.0), spans }
}

/// Returns the runs of a selection along each axis of `shape`.
fn runs(selection: &Selection, shape: &[u64]) -> Result<Vec<Vec<Run>>> {
    match selection {
        Selection::All => Ok(shape.iter().map(|n| vec![(0, *n)]).collect()),
        Selection::Regular(slabs) => slabs_runs(slabs, None, shape),
        Selection::Clipped { slabs, elements } => slabs_runs(slabs, Some(*elements), shape),
        Selection::None => Err(malformed("an empty selection")),
        Selection::Blocks(blocks) => {
            let mut axes = block_runs(blocks, shape)?;
            let rest = shape.get(axes.len()..).unwrap_or_default();
            axes.extend(rest.iter().map(|n| vec![(0, *n)]));
            Ok(axes)
        }
        Selection::Points(_) => Err(unsupported("selections of points are not supported")),
    }
}

/// Returns the runs along each axis of blocks that are all combinations of such runs, which a single block always is.
fn block_runs(blocks: &[(Vec<u64>, Vec<u64>)], shape: &[u64]) -> Result<Vec<Vec<Run>>> {
    let irregular = || unsupported("irregular selections are not supported");
    let rank = blocks.first().map_or(0, |(first, _)| first.len());
    let all: BTreeSet<_> = blocks.iter().collect();
    let is_sound = |(first, last): &(Vec<u64>, Vec<u64>)| first.len() == rank && last.len() == rank;
    if rank == 0 || rank > shape.len() || !blocks.iter().all(is_sound) || all.len() != blocks.len() {
        return Err(irregular());
    }
    let mut axes = Vec::new();
    for (axis, extent) in shape.iter().take(rank).enumerate() {
        let along = |(first, last): &(Vec<u64>, Vec<u64>)| Some((*first.get(axis)?, *last.get(axis)?));
        let runs: BTreeSet<_> = blocks.iter().filter_map(along).collect();
        let apart = runs.iter().zip(runs.iter().skip(1)).all(|(one, next)| one.1 < next.0);
        if !apart || runs.iter().any(|(first, last)| first > last || last >= extent) {
            return Err(irregular());
        }
        axes.push(runs);
    }
    let count = axes.iter().try_fold(1_usize, |n, runs| n.checked_mul(runs.len()));
    if count == Some(blocks.len()) { Ok(axes.into_iter().map(joined).collect()) } else { Err(irregular()) }
}

/// Converts (first, last) to runs, and joins those that follow each other.
fn joined(runs: BTreeSet<(u64, u64)>) -> Vec<Run> {
    let mut all: Vec<Run> = Vec::new();
    for (first, last) in runs {
        match all.last_mut() {
            Some((start, length)) if *start + *length == first => *length += last - first + 1,
            _ => all.push((first, last - first + 1)),
        }
    }
    all
}

/// Returns the runs along each axis of a regular selection, whose unlimited slab ends after `elements` elements. Axes of array
/// types come after those of the dataspace.
fn slabs_runs(slabs: &[Slab], elements: Option<u64>, shape: &[u64]) -> Result<Vec<Vec<Run>>> {
    let Some(rest) = shape.get(slabs.len()..) else {
        return Err(malformed(format!("a selection has {} axes, not {}", slabs.len(), shape.len())));
    };
    let runs = slabs.iter().zip(shape).map(|(slab, extent)| {
        let Some(elements) = elements.filter(|_| slab.count.is_none() || slab.block.is_none()) else {
            return slab_runs(slab, *extent);
        };
        let block = match (slab.count, slab.block) {
            (None, Some(block)) if slab.stride > block && block > 0 => block,
            _ => elements.max(1),
        };
        let (count, rest) = (elements / block, elements % block);
        let whole = Slab { count: Some(count), block: Some(block), ..*slab };
        let mut runs = if count > 0 { slab_runs(&whole, *extent)? } else { Vec::new() };
        if rest > 0 {
            let start = count.checked_mul(slab.stride).and_then(|n| n.checked_add(slab.start));
            let last = Slab { start: start.unwrap_or(u64::MAX), count: Some(1), block: Some(rest), ..*slab };
            runs.extend(slab_runs(&last, *extent)?);
        }
        Ok(runs)
    });
    runs.chain(rest.iter().map(|n| Ok(vec![(0, *n)]))).collect()
}

fn malformed(problem: impl Into<String>) -> Error {
    Error::malformed(MAPPING, problem)
}

fn unsupported(problem: &'static str) -> Error {
    Error::unsupported(MAPPING, problem)
}

fn slab_runs(slab: &Slab, extent: u64) -> Result<Vec<Run>> {
    let (Some(count), Some(block)) = (slab.count, slab.block) else {
        return Err(unsupported("unlimited selections are not supported here"));
    };
    if count == 0 || block == 0 || (count > 1 && slab.stride < block) {
        return Err(malformed("a selection is empty, or its blocks overlap"));
    }
    let last = (count - 1).checked_mul(slab.stride).and_then(|n| n.checked_add(slab.start));
    if last.and_then(|last| last.checked_add(block)).is_none_or(|end| end > extent) {
        return Err(malformed(format!("a selection passes the extent ({extent}) of its dataset")));
    }
    match count {
        _ if slab.stride == block => Ok(vec![(slab.start, count * block)]),
        _ if count > SPANS => Err(Error::limit("blocks in a selection", SPANS)),
        _ => Ok((0..count).map(|n| (slab.start + n * slab.stride, block)).collect()),
    }
}

/// Longest chain of such datasets that is resolved.
const PASSES: u32 = 9;

fn too_large() -> Error {
    Error::overflow("the extent")
}

/// A virtual dataset with a definite extent, and mappings with definite selections.
#[derive(Clone, PartialEq, Debug)]
struct ResolvedExtent {
    shape: Vec<u64>,
    mappings: Vec<VirtualMapping>,
}

/// The files, and the extents of the previous pass.
struct View<'a> {
    own: &'a str,
    file: &'a File,
    others: &'a OtherFiles,
    known: &'a BTreeMap<DatasetKey, Result<ResolvedExtent>>,
    lookup: &'a Lookup<'a>,
}

/// Resolves the extents of unlimited virtual datasets, in a file at `own` and in the other files, and bounds their
/// selections. A dataset that cannot be resolved gets an unreadable layout.
pub fn resolve_extents(file: &mut File, own: &str, others: &mut OtherFiles, budget: &Budget<'_>) {
    let read = others.files.iter().filter_map(|(url, other)| match other {
        OtherFile::Read(file, _) if url != own => Some((url.as_str(), file.as_ref())),
        _ => None,
    });
    let mut open: Vec<DatasetKey> = Vec::new();
    for (url, file) in std::iter::once((own, &*file)).chain(read) {
        let objects = file.objects.iter().filter(|(_, object)| mappings(object).iter().any(is_open));
        open.extend(objects.map(|(address, _)| (url.to_owned(), *address)));
    }
    if open.is_empty() {
        return;
    }
    let mut known = BTreeMap::new();
    for _ in 0..PASSES {
        let lookup = Lookup::new(budget);
        let view = View { own, file, others, known: &known, lookup: &lookup };
        let next: BTreeMap<DatasetKey, _> = open.iter().map(|key| (key.clone(), view.resolve(key))).collect();
        let is_final = next == known;
        known = next;
        if is_final {
            break;
        }
    }
    for ((url, address), resolved) in known {
        let file = match others.files.get_mut(&url) {
            _ if url == own => &mut *file,
            Some(OtherFile::Read(file, _)) => file,
            _ => continue,
        };
        if let Some(Object::Dataset(dataset)) = file.objects.get_mut(&address) {
            let before = dataset.dataspace.clone();
            match resolved {
                Ok(resolved) => {
                    if let Dataspace::Simple { shape, .. } = &mut dataset.dataspace {
                        *shape = resolved.shape;
                    }
                    dataset.layout = Layout::Virtual(resolved.mappings);
                }
                Err(error) => {
                    let (structure, problem) = ("virtual dataset", error.to_string());
                    let error =
                        virtualize_hdf5::Error::Unsupported { structure, address: address.0, problem };
                    dataset.layout = Layout::Unreadable(error);
                }
            }
            if dataset.dataspace != before {
                others.grown.insert((url, address));
            }
        }
    }
}

/// Returns the mappings of a virtual dataset; none for other objects.
pub(super) fn mappings(object: &Object) -> &[VirtualMapping] {
    match object {
        Object::Dataset(dataset) => match &dataset.layout {
            Layout::Virtual(mappings) => mappings,
            _ => &[],
        },
        _ => &[],
    }
}

fn is_open(mapping: &VirtualMapping) -> bool {
    mapping.file.contains('%')
        || mapping.dataset.contains('%')
        || endless(&mapping.source).is_some()
        || endless(&mapping.destination).is_some()
}

impl View<'_> {
    fn file(&self, url: &str) -> Result<Option<&File>> {
        if url == self.own {
            return Ok(Some(self.file));
        }
        Ok(self.others.read(url, url)?.map(|other| other.file))
    }

    fn resolve(&self, (url, address): &DatasetKey) -> Result<ResolvedExtent> {
        let object = self.file(url)?.and_then(|file| file.objects.get(address));
        let Some(Object::Dataset(dataset)) = object else { return Err(no_dataset()) };
        let Dataspace::Simple { shape, max_shape } = &dataset.dataspace else {
            return Err(Error::malformed("dataspace", "no axes"));
        };
        let mut extent = Extent { least: vec![0; shape.len()], grown: vec![None; shape.len()] };
        let mut made = Vec::new();
        for mapping in object.map(mappings).unwrap_or_default() {
            self.lookup.take("virtual mappings", size_of::<VirtualMapping>() as u64)?;
            let names =
                Names { file: Pattern::new(&mapping.file)?, dataset: Pattern::new(&mapping.dataset)? };
            let is_numbered = names.file.is_numbered() || names.dataset.is_numbered();
            extent.hold(&mapping.destination);
            match (endless(&mapping.destination), endless(&mapping.source)) {
                (None, None) if is_numbered => {
                    Err(malformed("a numbered source without an unlimited destination"))
                }
                (None, None) => {
                    made.push(names.mapping(0, mapping.source.clone(), mapping.destination.clone()));
                    Ok(())
                }
                // Both selections are clipped to the extent of the source. The mapping of a source that does not exist is kept,
                // so that the report names it.
                (Some((axis, to)), Some((source_axis, from))) if !is_numbered => {
                    let source = self.source(url, &names.file.name(0), &names.dataset.name(0))?;
                    let size = source.as_ref().and_then(|shape| shape.get(source_axis)).copied().unwrap_or(0);
                    let elements = from.get(source_axis).map_or(0, |slab| clipped(slab, size));
                    extent.grow(axis, to.get(axis).map_or(Some(0), |slab| end(slab, elements)))?;
                    let clip = |slabs: &[Slab]| Selection::Clipped { slabs: slabs.to_vec(), elements };
                    if elements > 0 || source.is_none() {
                        made.push(names.mapping(0, clip(from), clip(to)));
                    }
                    Ok(())
                }
                (Some(to), None) if is_numbered => {
                    let (axis, to) = to;
                    for n in 0.. {
                        if self.source(url, &names.file.name(n), &names.dataset.name(n))?.is_none() {
                            break;
                        }
                        self.lookup.take("virtual mappings", size_of::<VirtualMapping>() as u64)?;
                        let block = numbered(to, axis, n)?;
                        extent.grow(
                            axis,
                            block.get(axis).and_then(|slab| slab.start.checked_add(slab.block?)),
                        )?;
                        made.push(names.mapping(n, mapping.source.clone(), Selection::Regular(block)));
                    }
                    extent.grow(axis, Some(0))
                }
                _ => Err(malformed("only one of its two selections has an end")),
            }?;
        }
        let sizes = shape.iter().zip(&extent.grown).zip(&extent.least);
        let size =
            |((size, grown), least): ((&u64, &Option<u64>), &u64)| grown.map_or(*size, |n| n.max(*least));
        let shape: Vec<u64> = sizes.map(size).collect();
        let most = max_shape.as_deref().unwrap_or_default();
        if shape.iter().zip(most).any(|(size, most)| most.is_some_and(|most| *size > most)) {
            return Err(malformed(format!("its sources make {shape:?} elements, more than it may have")));
        }
        Ok(ResolvedExtent { shape, mappings: made })
    }

    /// Returns the extent of a source; `None` if it does not exist.
    fn source(&self, own: &str, file: &str, path: &str) -> Result<Option<Vec<u64>>> {
        let name = |error: Error| error.of_source(path, file);
        let url = if file == "." { own.to_owned() } else { resolve_relative(own, file) };
        let Some(found) = self.file(&url).map_err(name)? else { return Ok(None) };
        let Some(address) = self.lookup.find(found, found.root, path).map_err(name)? else { return Ok(None) };
        let object = found.objects.get(&address);
        let Some(Object::Dataset(dataset)) = object else { return Err(name(no_dataset())) };
        if object.is_some_and(|object| mappings(object).iter().any(is_open)) {
            return match self.known.get(&(url, address)) {
                Some(Ok(resolved)) if dataset.dataspace.shape() != Some(&resolved.shape) => {
                    Err(name(grown()))
                }
                Some(Ok(resolved)) => Ok(Some(resolved.shape.clone())),
                Some(Err(error)) => Err(name(error.clone())),
                None => Err(name(malformed("it depends on itself"))),
            };
        }
        Ok(Some(dataset.dataspace.shape().unwrap_or_default().to_vec()))
    }
}

/// The names of a mapping's source, which may contain a block number.
struct Names {
    file: Pattern,
    dataset: Pattern,
}

impl Names {
    /// A mapping from the source of block `n`.
    fn mapping(&self, n: u64, source: Selection, destination: Selection) -> VirtualMapping {
        VirtualMapping { file: self.file.name(n), dataset: self.dataset.name(n), source, destination }
    }
}

/// The extent of a virtual dataset so far.
struct Extent {
    /// Extent that bounded selections need.
    least: Vec<u64>,
    /// Extent that unlimited selections reach, along the axes that have one.
    grown: Vec<Option<u64>>,
}

impl Extent {
    /// Includes the bounds of a selection along the axes where it is bounded.
    fn hold(&mut self, selection: &Selection) {
        for (axis, least) in self.least.iter_mut().enumerate() {
            let end = match selection {
                Selection::Regular(slabs) => slabs.get(axis).and_then(|slab| {
                    let last = slab.count?.checked_sub(1)?.checked_mul(slab.stride)?;
                    last.checked_add(slab.start)?.checked_add(slab.block?)
                }),
                Selection::Blocks(blocks) => {
                    blocks.iter().filter_map(|(_, last)| last.get(axis)?.checked_add(1)).max()
                }
                Selection::Points(points) => {
                    points.iter().filter_map(|point| point.get(axis)?.checked_add(1)).max()
                }
                Selection::None | Selection::All | Selection::Clipped { .. } => None,
            };
            *least = end.map_or(*least, |end| end.max(*least));
        }
    }

    fn grow(&mut self, axis: usize, end: Option<u64>) -> Result<()> {
        let end = end.ok_or_else(too_large)?;
        if let Some(grown) = self.grown.get_mut(axis) {
            *grown = Some(grown.unwrap_or(0).max(end));
        }
        Ok(())
    }
}

/// Returns how many elements of an unlimited slab are within an extent.
pub(super) fn clipped(slab: &Slab, extent: u64) -> u64 {
    let Some(room) = extent.checked_sub(slab.start) else { return 0 };
    match slab.block {
        Some(block) if slab.stride > block => {
            let (whole, rest) = (room / slab.stride, room % slab.stride);
            whole.saturating_mul(block).saturating_add(rest.min(block))
        }
        _ => room,
    }
}

/// Returns where an unlimited slab ends after a number of elements; `None` past 64 bits.
fn end(slab: &Slab, elements: u64) -> Option<u64> {
    match (slab.block, elements) {
        (_, 0) => Some(0),
        (Some(0), _) => None,
        (Some(block), _) if slab.stride > block => {
            let last = (elements - 1) / block;
            slab.start.checked_add(last.checked_mul(slab.stride)?)?.checked_add(elements - last * block)
        }
        _ => slab.start.checked_add(elements),
    }
}

/// Returns the `n`-th block of the slabs along the unlimited axis.
fn numbered(slabs: &[Slab], axis: usize, n: u64) -> Result<Vec<Slab>> {
    let mut block = slabs.to_vec();
    let slab = block.get_mut(axis).filter(|slab| slab.count.is_none() && slab.block.is_some_and(|n| n > 0));
    let slab = slab.ok_or_else(|| malformed("the destination of numbered sources has no blocks"))?;
    let start = n.checked_mul(slab.stride).and_then(|n| n.checked_add(slab.start));
    *slab = Slab { start: start.ok_or_else(too_large)?, count: Some(1), ..*slab };
    Ok(block)
}

/// Files of numbered sources: those of block 0, 1 and so on, until one does not exist.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NumberedFiles {
    own: String,
    name: Pattern,
}

impl NumberedFiles {
    /// Returns the url of the file of a block.
    pub fn url(&self, block: u64) -> String {
        resolve_relative(&self.own, &self.name.name(block))
    }
}

/// Returns the numbered files that a file at `own` names.
pub fn numbered_files(file: &File, own: &str) -> BTreeSet<NumberedFiles> {
    let all = file.objects.values().flat_map(mappings);
    let numbered =
        all.filter(|mapping| mapping.file.contains('%') && endless(&mapping.destination).is_some());
    let names = numbered.filter_map(|mapping| Pattern::new(&mapping.file).ok());
    let files = names.filter(Pattern::is_numbered);
    files.map(|name| NumberedFiles { own: own.to_owned(), name }).collect()
}

/// The name of a source file or dataset. `%b` is replaced by the number of the block, `%%` by a percent sign.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Pattern(Vec<String>);

impl Pattern {
    pub(super) fn new(name: &str) -> Result<Self> {
        let mut parts = vec![String::new()];
        let mut rest = name.chars();
        while let Some(next) = rest.next() {
            match (next, if next == '%' { rest.next() } else { None }) {
                ('%', Some('b')) => parts.push(String::new()),
                ('%', Some('%')) => parts.iter_mut().next_back().into_iter().for_each(|part| part.push('%')),
                ('%', _) => {
                    let problem = format!("the name {name:?} has a percent sign that is neither %b nor %%");
                    return Err(malformed(problem));
                }
                (other, _) => parts.iter_mut().next_back().into_iter().for_each(|part| part.push(other)),
            }
        }
        Ok(Self(parts))
    }

    pub(super) fn is_numbered(&self) -> bool {
        self.0.len() > 1
    }

    pub(super) fn name(&self, n: u64) -> String {
        self.0.join(&n.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slab(start: u64, stride: u64, count: u64, block: u64) -> Slab {
        Slab { start, stride, count: Some(count), block: Some(block) }
    }

    #[test]
    fn axes_of_one_element_have_no_partner() {
        let to = Selection::Regular(vec![slab(3, 1, 1, 1), slab(0, 1, 1, 100)]);
        let axes = axes(&to, &[5, 100], &Selection::All, &[100]).unwrap();
        assert_eq!(
            axes,
            [
                Axis { to: Some(0), from: None, spans: vec![Span { to: 3, from: 0, length: 1 }] },
                Axis { to: Some(1), from: Some(0), spans: vec![Span { to: 0, from: 0, length: 100 }] },
            ]
        );
    }

    #[test]
    fn strides_cut_spans() {
        let to = Selection::Regular(vec![slab(1, 4, 2, 2)]);
        let axes = axes(&to, &[8], &Selection::All, &[4]).unwrap();
        assert_eq!(axes[0].spans, [Span { to: 1, from: 0, length: 2 }, Span { to: 5, from: 2, length: 2 }]);
    }

    #[test]
    fn blocks_are_taken_where_they_are_all_combinations() {
        let shape = [6, 6];
        let block = |first: [u64; 2], last: [u64; 2]| (first.to_vec(), last.to_vec());
        let four =
            [block([0, 0], [0, 1]), block([0, 4], [0, 5]), block([2, 0], [3, 1]), block([2, 4], [3, 5])];
        assert_eq!(block_runs(&four, &shape).unwrap(), [[(0, 1), (2, 2)], [(0, 2), (4, 2)]]);
        assert_eq!(block_runs(&four[..2], &shape).unwrap(), [vec![(0, 1)], vec![(0, 2), (4, 2)]]);
        let adjacent = [block([1, 0], [2, 0]), block([3, 0], [4, 0])];
        assert_eq!(block_runs(&adjacent, &shape).unwrap(), [[(1, 4)], [(0, 1)]]);
        for refused in [
            &four[..3],
            &[block([0, 0], [0, 6])],
            &[(vec![0, 0], vec![0])],
            &[(vec![0; 3], vec![0; 3])],
            &[(vec![], vec![])],
            &[block([0, 0], [1, 1]), block([1, 0], [2, 1])],
            &[block([1, 0], [0, 1])],
            &[block([0, 0], [2, 1]), block([1, 0], [3, 1])],
            &[four[0].clone(), four[0].clone()],
            &[four[0].clone(), four[1].clone(), four[2].clone(), four[2].clone()],
        ] {
            assert!(block_runs(refused, &shape).is_err(), "{refused:?}");
        }
    }

    /// Expected values: the elements that each selection lists, as runs.
    #[test]
    fn unlimited_slabs_end_after_a_number_of_elements() {
        let along = |start, stride, block: Option<u64>, elements, extent: u64| {
            let slabs = vec![Slab { start, stride, count: None, block }];
            runs(&Selection::Clipped { slabs, elements }, &[extent]).map(|axes| axes[0].clone()).ok()
        };
        assert_eq!(along(1, 5, Some(2), 5, 12), Some(vec![(1, 2), (6, 2), (11, 1)]));
        assert_eq!(along(1, 5, Some(2), 4, 8), Some(vec![(1, 2), (6, 2)]));
        assert_eq!(along(1, 5, Some(2), 1, 2), Some(vec![(1, 1)]));
        assert_eq!(along(1, 5, Some(2), 5, 11), None, "past the extent");
        // Blocks that follow each other are one run, as is a block without end.
        assert_eq!(along(3, 2, Some(2), 5, 8), Some(vec![(3, 5)]));
        assert_eq!(along(3, 1, None, 5, 8), Some(vec![(3, 5)]));
        assert_eq!(along(3, 1, Some(1), 5, 7), None);
        assert_eq!(along(0, 3, Some(0), 2, 9), Some(vec![(0, 2)]));
        let both = Selection::Clipped { slabs: vec![slab(2, 1, 1, 3), slab(0, 1, 1, 1)], elements: 9 };
        assert_eq!(runs(&both, &[5, 1, 4]).unwrap(), [[(2, 3)], [(0, 1)], [(0, 4)]], "an axis with an end");
        assert!(runs(&both, &[5]).is_err(), "two slabs for an axis");
    }

    #[test]
    fn selections_are_runs_along_each_axis() {
        let regular = |slabs: &[Slab], shape: &[u64]| runs(&Selection::Regular(slabs.to_vec()), shape).ok();
        assert_eq!(regular(&[slab(1, 2, 3, 2)], &[7]), Some(vec![vec![(1, 6)]]), "adjacent blocks");
        assert_eq!(regular(&[slab(1, 3, 2, 2)], &[6]), Some(vec![vec![(1, 2), (4, 2)]]));
        assert_eq!(regular(&[slab(4, 1, 1, 2)], &[6, 3]), Some(vec![vec![(4, 2)], vec![(0, 3)]]));
        assert_eq!(regular(&[slab(0, 1, 1, 1); 2], &[6]), None, "more axes than the dataset");
        assert_eq!(regular(&[slab(0, 1, 0, 1)], &[6]), None, "no blocks");
        assert_eq!(regular(&[slab(0, 1, 1, 0)], &[6]), None, "empty blocks");
        let most = regular(&[slab(0, 2, SPANS, 1)], &[2 * SPANS]).unwrap();
        assert_eq!(most[0].len() as u64, SPANS);
        assert_eq!(regular(&[slab(0, 2, SPANS + 1, 1)], &[2 * SPANS + 1]), None, "too many blocks");
        let along = |slabs: Vec<Slab>| endless(&Selection::Regular(slabs)).map(|(axis, _)| axis);
        assert_eq!(along(vec![Slab { block: None, ..slab(0, 1, 1, 1) }]), Some(0));
        assert_eq!(along(vec![slab(0, 1, 1, 1), Slab { count: None, ..slab(0, 1, 1, 1) }]), Some(1));
        assert_eq!(along(vec![slab(0, 1, 1, 1)]), None);
        assert_eq!(endless(&Selection::All), None);
        for refused in [Selection::None, Selection::Points(vec![vec![1]]), Selection::Blocks(Vec::new())] {
            assert!(runs(&refused, &[6]).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |to: Vec<Slab>, from: &[u64]| {
            axes(&Selection::Regular(to), &[8], &Selection::All, from).unwrap_err().to_string()
        };
        assert!(refused(vec![slab(1, 4, 2, 2)], &[5]).contains("differ in shape"));
        assert!(refused(vec![slab(1, 4, 2, 2)], &[4, 2]).contains("differ in shape"));
        assert!(refused(vec![slab(5, 1, 1, 4)], &[4]).contains("passes the extent"));
        assert!(refused(vec![slab(u64::MAX, 2, 2, 1)], &[2]).contains("passes the extent"));
        assert!(refused(vec![Slab { count: None, ..slab(0, 1, 1, 1) }], &[8]).contains("unlimited"));
        assert!(refused(vec![slab(0, 1, 2, 2)], &[4]).contains("overlap"));
    }
}

#[cfg(test)]
mod extent_tests {
    use super::*;

    fn slab(start: u64, stride: u64, block: Option<u64>) -> Slab {
        Slab { start, stride, count: None, block }
    }

    #[test]
    fn names_with_numbers() {
        let name = |name: &str, n| Pattern::new(name).map(|pattern| pattern.name(n));
        assert_eq!(name("a%b-%b%%.h5", 12).unwrap(), "a12-12%.h5");
        assert_eq!(name("100%%", 3).unwrap(), "100%");
        assert!(name("a%d", 0).is_err() && name("a%", 0).is_err());
        assert!(Pattern::new("%b").unwrap().is_numbered() && !Pattern::new("%%b").unwrap().is_numbered());
    }

    /// Blocks of 2 every 5 from 1: 1 2, 6 7, 11 12.
    #[test]
    fn slabs_are_clipped() {
        let slab_of_blocks = slab(1, 5, Some(2));
        let counts = [0, 1, 2, 3, 6, 7, 8, 13].map(|extent| clipped(&slab_of_blocks, extent));
        assert_eq!(counts, [0, 0, 1, 2, 2, 3, 4, 6]);
        assert_eq!([0, 1, 2, 3, 6].map(|n| end(&slab_of_blocks, n)), [0, 2, 3, 7, 13].map(Some));
        let whole = slab(3, 1, None);
        assert_eq!((clipped(&whole, 3), clipped(&whole, 10), end(&whole, 7)), (0, 7, Some(10)));
        // Blocks without gaps, and without elements.
        for stride in [0, 1, 4] {
            let dense = slab(2, stride, Some(4));
            assert_eq!((clipped(&dense, 8), end(&dense, 6)), (6, Some(8)), "{stride}");
        }
        let empty = slab(0, 0, Some(0));
        assert_eq!((clipped(&empty, 5), end(&empty, 3), end(&slab(0, 1, Some(0)), 3)), (5, None, None));
    }

    #[test]
    fn numbered_sources_have_blocks() {
        let block = |slab: Slab, n| numbered(&[slab], 0, n).map(|slabs| slabs[0]).ok();
        let third = Slab { start: 11, stride: 5, count: Some(1), block: Some(2) };
        assert_eq!(block(slab(1, 5, Some(2)), 2), Some(third));
        assert_eq!(block(slab(1, 5, Some(0)), 2), None);
        assert_eq!(block(slab(1, 5, None), 2), None);
        assert_eq!(block(third, 2), None, "it has an end");
        assert_eq!(block(slab(1, u64::MAX, Some(2)), 2), None);
    }
}
