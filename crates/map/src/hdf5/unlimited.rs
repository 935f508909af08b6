//! Virtual datasets with unlimited selections or numbered sources (`%b` in their names). Their extent follows from the
//! sources that exist, with the defaults of libhdf5: view "last available" (`H5D_VDS_LAST_AVAILABLE`), printf gap 0.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use virtualize_bytes::{Address, Budget};
use virtualize_hdf5::model::{Dataset, Dataspace, File, Layout, Object, Selection, Slab, VirtualMapping};

use super::links::{OtherFile, OtherFiles, grown, no_dataset};
use super::objects::Lookup;
use super::selection::endless;
use crate::mapped::resolve_relative;
use crate::{Error, Result};

/// Longest chain of such datasets that is resolved.
const PASSES: u32 = 9;

/// Maximum number of numbered sources of a file.
const BLOCKS: u32 = 100_000;

fn too_large() -> Error {
    Error::overflow("the extent")
}

/// A dataset: url of its file, and address in it.
type Key = (String, Address);

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
    known: &'a BTreeMap<Key, Result<ResolvedExtent>>,
    blocks: Cell<u32>,
    lookup: &'a Lookup<'a>,
}

/// Resolves the extents of unlimited virtual datasets, in a file at `own` and in the other files, and bounds their
/// selections. A dataset that cannot be resolved gets an unreadable layout.
pub fn resolve_extents(file: &mut File, own: &str, others: &mut OtherFiles, budget: &Budget<'_>) {
    let read = others.files.iter().filter_map(|(url, other)| match other {
        OtherFile::Read(file, _) if url != own => Some((url.as_str(), file.as_ref())),
        _ => None,
    });
    let mut open: Vec<Key> = Vec::new();
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
        let view = View { own, file, others, known: &known, blocks: Cell::new(BLOCKS), lookup: &lookup };
        let next: BTreeMap<Key, _> = open.iter().map(|key| (key.clone(), view.resolve(key))).collect();
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
            apply(dataset, address, resolved);
            if dataset.dataspace != before {
                others.grown.insert((url, address));
            }
        }
    }
}

fn apply(dataset: &mut Dataset, address: Address, resolved: Result<ResolvedExtent>) {
    match resolved {
        Ok(resolved) => {
            if let Dataspace::Simple { shape, .. } = &mut dataset.dataspace {
                *shape = resolved.shape;
            }
            dataset.layout = Layout::Virtual(resolved.mappings);
        }
        Err(error) => {
            let (structure, problem) = ("virtual dataset", error.to_string());
            let error = virtualize_hdf5::Error::Unsupported { structure, address: address.0, problem };
            dataset.layout = Layout::Unreadable(error);
        }
    }
}

fn malformed(problem: String) -> Error {
    Error::malformed("virtual mapping", problem)
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

    fn resolve(&self, (url, address): &Key) -> Result<ResolvedExtent> {
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
                    Err(malformed("a numbered source without an unlimited destination".to_owned()))
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
                        let too_many = || Error::limit("numbered sources", BLOCKS.into());
                        self.blocks.set(self.blocks.get().checked_sub(1).ok_or_else(too_many)?);
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
                _ => Err(malformed("only one of its two selections has an end".to_owned())),
            }?;
        }
        let shape = extent.over(shape);
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
                None => Err(name(malformed("it depends on itself".to_owned()))),
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

    /// Returns the resulting extent, for the one that the file declares.
    fn over(&self, shape: &[u64]) -> Vec<u64> {
        let sizes = shape.iter().zip(&self.grown).zip(&self.least);
        sizes.map(|((size, grown), least)| grown.map_or(*size, |grown| grown.max(*least))).collect()
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
    let slab =
        slab.ok_or_else(|| malformed("the destination of numbered sources has no blocks".to_owned()))?;
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
                    return Err(Error::malformed("virtual mapping", problem));
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
