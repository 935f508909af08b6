//! Images of OME-TIFF (specification version 6): the pages that are planes of one image become one array, along the axes of its
//! OME-XML.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use virtualize_bytes::Budget;
use virtualize_remedy::Code;
use virtualize_tiff::model::{File, Ifd, Value as TagValue};
use virtualize_tiff::{Ome, OmeImage, TiffData, parse_ome};
use virtualize_zarr::cf::attributes;
use virtualize_zarr::node::{self, join as join_path};
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, Node, NodePath, References, ReferencesBuilder, SourceId,
};

use super::georeference::{add_names, remove_band_names};
use super::image::ImageMapper;
use super::{ARRAY, COMPANIONS, group_path, map_images};
use crate::mapped::{OtherFile, resolve_relative};
use crate::{ChunkContent, Error, InlineTask, MapOptions, Mapped, Result};

/// Maximum number of planes of all images of a document.
const MAX_PLANES: u64 = 1 << 20;

/// Another TIFF file that a file names.
pub type OtherTiff = OtherFile<File>;

/// Other TIFF files by url.
#[derive(Clone, Debug, Default)]
pub struct OtherTiffs {
    /// The files by url.
    pub files: BTreeMap<String, OtherTiff>,
}

/// Returns the urls of the other files in which an OME-TIFF at `own` has planes.
pub fn ome_files(file: &File, own: &str) -> BTreeSet<String> {
    let Some(Ok(ome)) = document(file) else { return BTreeSet::new() };
    let data = ome.images.iter().flat_map(|image| &image.data);
    data.filter_map(|data| other_file(data, &ome, own).ok().flatten()).collect()
}

fn too_many() -> Error {
    Error::limit("planes in an OME-TIFF", MAX_PLANES)
}

fn malformed(problem: impl Into<String>) -> Error {
    Error::malformed("OME-XML", problem)
}

/// A page that cannot be joined with the others.
fn unlike(page: impl Into<Cow<'static, str>>, problem: &'static str) -> Error {
    Error::unsupported(page, problem)
}

fn document(file: &File) -> Option<Result<Ome>> {
    let ifd = file.ifds.first()?;
    match ifd.tags.get(&270)? {
        TagValue::Text(texts) => {
            let parsed = parse_ome(&texts.join("\0"), ifd.offset)?;
            Some(parsed.map_err(|error| Error::tag(&error)))
        }
        _ => None,
    }
}

/// Returns the url of the file with these planes; `None` if it is the file at `own` itself.
fn other_file(data: &TiffData, ome: &Ome, own: &str) -> Result<Option<String>> {
    let same = |a: &Option<String>, b: &Option<String>| match (a, b) {
        (Some(a), Some(b)) => a.trim().eq_ignore_ascii_case(b.trim()),
        _ => false,
    };
    let own_name = own.rsplit('/').next().unwrap_or_default();
    match &data.file {
        None => Ok(None),
        _ if same(&data.uuid, &ome.uuid) => Ok(None),
        Some(name) if name == own_name => Ok(None),
        Some(name) if name.is_empty() => Err(malformed("a file of planes has no name")),
        Some(name) => Ok(Some(resolve_relative(own, name))),
    }
}

/// Joins the planes of each image that the OME-XML describes. Returns whether any image was joined.
pub(super) fn join_series(
    file: &File,
    others: &OtherTiffs,
    mapped: &mut Mapped,
    options: &MapOptions,
    budget: &Budget<'_>,
) -> bool {
    let ome = match document(file) {
        None => return false,
        Some(Ok(ome)) => ome,
        Some(Err(error)) => {
            mapped.warn("", Code::OmeSeries, format!("pages are mapped one by one: {error}"), None);
            return false;
        }
    };
    if let Some(name) = &ome.metadata_file {
        let text = format!("its OME-XML is in {name:?}, which is not read: pages are mapped one by one");
        mapped.warn("", Code::OmeSeries, text, None);
        return false;
    }
    let own = mapped.hierarchy.sources.first().map(|source| source.url.clone()).unwrap_or_default();
    let (used, moves) = (BTreeSet::new(), BTreeMap::new());
    let mut series = Series { ome: &ome, own, file, others: Vec::new(), used, moves, options };
    for (url, other) in &others.files {
        let mut source = SourceId(0);
        let content = match other {
            OtherTiff::Refused(why) => Err(why.as_str()),
            OtherTiff::Missing => Err("does not exist"),
            OtherTiff::Read(file, place) => {
                source = SourceId(u32::try_from(mapped.hierarchy.sources.len()).unwrap_or(u32::MAX));
                mapped.hierarchy.sources.push(place.clone());
                let mut mapped = Mapped::new(options.format, COMPANIONS);
                map_images(&ImageMapper::new(file, place.size, options, budget), file, &mut mapped);
                Ok((&**file, mapped))
            }
        };
        let tasks = content.iter().flat_map(|(_, mapped)| &mapped.tasks);
        let made = tasks.map(|task| task.array.clone()).collect();
        series.others.push(Other { url, content, source, made });
    }
    let mut catalogue = Vec::new();
    let mut room = MAX_PLANES;
    for image in ome.images.iter().filter(|image| !image.data.is_empty()) {
        match series.add(image, &mut room, mapped) {
            Ok(path) => catalogue.push(json!({ "name": image.name, "asset": path })),
            Err(error) => {
                let name = image.name.as_deref().unwrap_or_default();
                let text = format!("the pages of image {name:?} are mapped one by one: {error}");
                mapped.warn("", Code::OmeSeries, text, None);
            }
        }
    }
    move_tasks(&mut mapped.tasks, &series.moves);
    let found = !catalogue.is_empty();
    if found {
        mapped.hierarchy.root.attributes.insert("ome_series".into(), catalogue.into());
    }
    found
}

/// Another file, mapped by itself, with its number among the sources.
struct Other<'a> {
    url: &'a str,
    content: Result<(&'a File, Mapped), &'a str>,
    source: SourceId,
    /// Arrays with chunks that have to be made.
    made: BTreeSet<NodePath>,
}

/// A plane as (file, page). File 0 is the one that is open; the others follow from 1.
type Place = (usize, usize);

/// The images of a document while they are joined.
struct Series<'a> {
    ome: &'a Ome,
    own: String,
    /// The open file.
    file: &'a File,
    others: Vec<Other<'a>>,
    /// Pages of the open file that belong to an image.
    used: BTreeSet<usize>,
    /// Where the chunks of these pages are in the joined arrays.
    moves: BTreeMap<NodePath, Move>,
    options: &'a MapOptions,
}

impl Series<'_> {
    /// Joins the planes of one image, at all levels of its pyramid, and returns the path of its array.
    ///
    /// # Errors
    /// The document contradicts the files, or planes differ. Pages are mapped one by one then.
    fn add(&mut self, image: &OmeImage, room: &mut u64, mapped: &mut Mapped) -> Result<NodePath> {
        let own = |data: &&TiffData| matches!(other_file(data, self.ome, &self.own), Ok(None));
        let page = image.data.iter().find(own).map_or(0, |data| data.page);
        let key = usize::try_from(page).ok().and_then(|page| self.file.ifds.get(page));
        let key = key.ok_or_else(|| malformed("a page that it names does not exist"))?;
        let axes = axes(image, key, *room)?;
        let count = axes.iter().try_fold(1_u64, |product, (_, size)| product.checked_mul(*size));
        let count = count.filter(|count| count <= room).ok_or_else(too_many)?;
        *room -= count;
        let places = self.places(image, &axes, count)?;
        let mut pages = BTreeSet::new();
        for (_, page) in places.iter().flatten().filter(|(file, _)| *file == 0) {
            if self.used.contains(page) || !pages.insert(*page) {
                return Err(malformed(format!("page {page} is a plane more than once")));
            }
        }
        let key = pages
            .first()
            .and_then(|page| self.file.ifds.get(*page))
            .ok_or_else(|| malformed("no plane is in this file"))?;
        self.join_level(image, key, &places, &axes, None, mapped)?;
        self.used.append(&mut pages);
        for level in (0..key.sub_ifds.len()).map(Some) {
            if let Err(error) = self.join_level(image, key, &places, &axes, level, mapped) {
                let text = format!("reduced images are mapped one by one: {error}");
                mapped.warn(&path(key), Code::OmeSeries, text, None);
            }
        }
        Ok(path(key))
    }

    /// Returns the page of each plane, in row-major order of the axes; `None` for planes without a page.
    fn places(&self, image: &OmeImage, axes: &[(char, u64)], count: u64) -> Result<Vec<Option<Place>>> {
        let mut places = vec![None; usize::try_from(count).map_err(|_| too_many())?];
        for data in &image.data {
            let file = match other_file(data, self.ome, &self.own)? {
                None => 0,
                Some(url) => {
                    // The files are in the order of their urls.
                    let at = self.others.binary_search_by_key(&url.as_str(), |other| other.url);
                    let at = at.map_err(|_| Error::other_file(&url, "was not read"))?;
                    match self.others.get(at).map(|other| &other.content) {
                        Some(Err(why)) => return Err(Error::other_file(&url, why)),
                        _ => at + 1,
                    }
                }
            };
            // The run gives the axes as the document does, fastest first.
            let mut first = 0_u64;
            for (inside, (name, size)) in data.first.iter().rev().zip(axes) {
                if inside >= size {
                    return Err(malformed(format!("First{name} is {inside}, of {size}")));
                }
                first = first * size + inside;
            }
            let pages = self.file_of(file).map_or(0, |file| file.ifds.len() as u64);
            let rest = (count - first).min(pages.saturating_sub(data.page));
            let run = data.count.unwrap_or(rest);
            if run > count - first || data.page.checked_add(run).is_none_or(|end| end > pages) {
                let page = data.page;
                let end = first.saturating_add(run);
                return Err(malformed(format!(
                    "planes {first} to {end} from page {page} on, of {count} planes and {pages} pages"
                )));
            }
            for step in 0..run {
                let place = |at: u64| usize::try_from(at).map_err(|_| too_many());
                let page = (file, place(data.page + step)?);
                match places.get_mut(place(first + step)?) {
                    Some(plane @ None) => *plane = Some(page),
                    Some(Some(other)) if *other == page => {}
                    _ => return Err(malformed(format!("plane {} is named twice", first + step))),
                }
            }
        }
        Ok(places)
    }

    /// Joins one level of an image: the full resolution, or the `level`-th SubIFD of its pages.
    fn join_level(
        &mut self,
        image: &OmeImage,
        page: &Ifd,
        places: &[Option<Place>],
        axes: &[(char, u64)],
        level: Option<usize>,
        mapped: &mut Mapped,
    ) -> Result<()> {
        let key = at_level(page, level).ok_or_else(|| unlike("a plane", "lacks this level"))?;
        let model =
            mapped.hierarchy.array(&path(key)).ok_or_else(|| unlike("a plane", "could not be mapped"))?;
        if level.is_none() {
            let stored = key.image.as_ref().map_err(Error::image)?;
            let samples = u64::from(stored.samples_per_pixel);
            let found = (stored.width, stored.height, samples);
            let expected = (image.width, image.height, image.samples.unwrap_or(samples));
            if found != expected {
                let what = "columns, rows and samples";
                return Err(malformed(format!("planes have {found:?} {what}, expected {expected:?}")));
            }
        }
        let members = self.members(places, level, model, mapped)?;
        // In xarray's DataTree a dimension has one length in a group and all groups below, so axes in groups have names of
        // their own.
        let name = |axis: char| match page.path.first() {
            None | Some(0) => axis.to_ascii_lowercase().to_string(),
            Some(page) => format!("{}_{page}", axis.to_ascii_lowercase()),
        };
        let named = axes.iter().filter(|(_, size)| *size > 1);
        let named: Vec<(String, u64)> = named.map(|(axis, size)| (name(*axis), *size)).collect();
        if named.iter().any(|(name, _)| model.dimension_names.contains(&Some(name.clone()))) {
            return Err(unlike("its pages", "have an axis of the same name"));
        }
        let mut joined = join(model, &members, &named).ok_or_else(|| Error::overflow("the chunk grid"))?;
        let arrays: Vec<&Array> = members.iter().flatten().map(|(array, _)| *array).collect();
        let mut different = different_attributes(&arrays);
        different.retain(|name| name != "TIFFTAG_IMAGEDESCRIPTION" || key.path != [0]);
        joined.attributes.retain(|name, _| !different.contains(name));
        let missing = places.iter().filter(|place| place.is_none()).count();
        let count = chunk_count(model);
        let axes = named.len();
        let own = places.iter().zip(0_u64..).filter_map(|(place, number)| match place {
            Some((0, page)) => Some((at_level(self.file.ifds.get(*page)?, level)?, number)),
            _ => None,
        });
        let own: Vec<(&Ifd, u64)> = own.collect();
        let target = path(key);
        self.moves.extend(own.iter().map(|(ifd, number)| {
            (path(ifd), Move { target: target.clone(), start: number.saturating_mul(count), axes })
        }));
        for (ifd, _) in own.iter().filter(|(ifd, _)| ifd.path != key.path) {
            remove(ifd, mapped);
        }
        joined.attributes.extend(image.name.iter().map(|name| ("ome_name".into(), name.clone().into())));
        if level.is_none() {
            let physical = image.physical.iter();
            joined.attributes.extend(physical.map(|(name, value)| (name.clone(), value.clone().into())));
        }
        if missing > 0 && level.is_none() {
            let text = format!("{missing} planes are missing and read as the fill value");
            mapped.warn(&path(key), Code::OmeSeries, text, None);
        }
        let Some(group) = mapped.hierarchy.root.make_group(&group_path(key)) else { return Ok(()) };
        if different.iter().any(|name| name == "long_name") {
            remove_band_names(group, &mut joined.attributes);
        }
        let channels = named.iter().find(|(name, _)| name.starts_with('c'));
        if let Some((axis, _)) = channels.filter(|(_, size)| image.channels.len() as u64 == *size) {
            let attributes = &mut joined.attributes;
            add_names(group, "channel_name", axis, &image.channels, attributes, self.options);
        }
        group.children.insert(ARRAY.to_owned(), Node::Array(Box::new(joined)));
        Ok(())
    }

    /// Returns the arrays of the planes, which must be like `model`. Those of other files must not need chunks to be made.
    fn members<'m>(
        &'m self,
        places: &[Option<Place>],
        level: Option<usize>,
        model: &Array,
        mapped: &'m Mapped,
    ) -> Result<Vec<Option<Member<'m>>>> {
        let member = |&(number, page): &Place| {
            let ifd = self.file_of(number).and_then(|file| at_level(file.ifds.get(page)?, level));
            let ifd = ifd.ok_or_else(|| unlike("a plane", "lacks this level"))?;
            let other = number.checked_sub(1).and_then(|at| self.others.get(at));
            let (home, source) = match other {
                None => (mapped, SourceId(0)),
                Some(other) => (
                    other
                        .content
                        .as_ref()
                        .map(|(_, mapped)| mapped)
                        .map_err(|why| Error::other_file(other.url, why))?,
                    other.source,
                ),
            };
            let path = path(ifd);
            let refuse = |problem: &'static str| unlike(format!("page {page}"), problem);
            let array = home.hierarchy.array(&path).ok_or_else(|| refuse("could not be mapped"))?;
            if !is_like(array, model) {
                return Err(refuse("is unlike the first"));
            }
            if other.is_some_and(|other| other.made.contains(&path)) {
                return Err(refuse("is in another file, and its chunks cannot be referenced as they are"));
            }
            Ok((array, source))
        };
        places.iter().map(|place| place.as_ref().map(member).transpose()).collect()
    }

    fn file_of(&self, number: usize) -> Option<&File> {
        match number.checked_sub(1) {
            None => Some(self.file),
            Some(at) => self.others.get(at)?.content.as_ref().ok().map(|(file, _)| *file),
        }
    }
}

fn at_level(ifd: &Ifd, level: Option<usize>) -> Option<&Ifd> {
    match level {
        None => Some(ifd),
        Some(level) => ifd.sub_ifds.get(level),
    }
}

/// Returns the axes of planes with their sizes, slowest first.
fn axes(image: &OmeImage, page: &Ifd, room: u64) -> Result<Vec<(char, u64)>> {
    let samples = match (image.samples, page.image.as_ref()) {
        (Some(samples), _) => samples,
        (None, Ok(page)) => u64::from(page.samples_per_pixel),
        (None, Err(error)) => return Err(Error::image(error)),
    };
    let size = |(name, size): &(char, u64)| match *name {
        'C' if samples == 0 || size % samples != 0 => {
            Err(malformed(format!("SizeC {size} is not a multiple of {samples} samples a pixel")))
        }
        'C' => Ok(('C', size / samples)),
        other => Ok((other, *size)),
    };
    let axes: Vec<(char, u64)> = image.axes.iter().rev().map(size).collect::<Result<_, _>>()?;
    match axes.iter().find(|(_, size)| *size > room) {
        Some((name, size)) => Err(malformed(format!("Size{name} is {size}"))),
        None => Ok(axes),
    }
}

/// A member of the joined array: its array, and the file that stores its chunks.
pub(super) type Member<'a> = (&'a Array, SourceId);

/// Returns the path of an image's array.
pub(super) fn path(ifd: &Ifd) -> NodePath {
    join_path(&group_path(ifd), ARRAY)
}

/// Whether one array can hold both: shape, data type, chunks, codecs, fill value and the attributes that give values their
/// meaning are equal.
pub(super) fn is_like(one: &Array, other: &Array) -> bool {
    let meaning = |array: &Array| attributes::of_array(&array.attributes, array.data_type.is_float());
    one.shape == other.shape
        && one.data_type == other.data_type
        && one.chunk_grid == other.chunk_grid
        && one.codecs == other.codecs
        && one.fill_value == other.fill_value
        && meaning(one) == meaning(other)
}

/// Returns the names of the attributes that differ between arrays, sorted.
pub(super) fn different_attributes(arrays: &[&Array]) -> Vec<String> {
    let Some((first, others)) = arrays.split_first() else { return Vec::new() };
    let names: BTreeSet<&String> = arrays.iter().flat_map(|page| page.attributes.keys()).collect();
    let differs =
        |name: &&String| others.iter().any(|page| page.attributes.get(*name) != first.attributes.get(*name));
    names.into_iter().filter(differs).cloned().collect()
}

/// Returns the number of chunks of an array.
pub(super) fn chunk_count(array: &Array) -> u64 {
    array.chunk_grid.counts(&array.shape).iter().fold(1, |product: u64, count| product.saturating_mul(*count))
}

/// Joins members along `axes`, given as names and sizes, slowest first. Members are in row-major order; one that is missing
/// has no chunks. Everything else is as in `model`. `None` if the chunks cannot be counted.
pub(super) fn join(model: &Array, members: &[Option<Member<'_>>], axes: &[(String, u64)]) -> Option<Array> {
    let mut columns: BTreeMap<SourceId, ReferencesBuilder> = BTreeMap::new();
    let mut inline = BTreeMap::new();
    let count = chunk_count(model);
    for (member, number) in members.iter().zip(0_u64..) {
        let Some((array, source)) = member else { continue };
        let start = number.checked_mul(count)?;
        let column = columns.entry(*source).or_default();
        for (position, place) in array.chunks.references.iter().flat_map(References::iter) {
            column.push(start.checked_add(position)?, place.offset, place.length);
        }
        for (position, content) in &array.chunks.inline {
            inline.insert(start.checked_add(*position)?, content.clone());
        }
    }
    let references = columns.into_iter().flat_map(|(source, column)| column.finish(source)).collect();
    let mut array = Array { chunks: ChunkManifest { references, inline }, ..model.clone() };
    add_axes(&mut array, axes)?;
    Some(array)
}

/// Adds axes before those of an array, given as names and sizes, slowest first, with chunks of length 1. `None` if the chunks
/// cannot be counted.
pub(super) fn add_axes(array: &mut Array, axes: &[(String, u64)]) -> Option<()> {
    for (name, size) in axes.iter().rev() {
        array.shape.insert(0, *size);
        array.dimension_names.insert(0, Some(name.clone()));
        match &mut array.chunk_grid {
            ChunkGrid::Regular(chunk) => chunk.insert(0, 1),
            ChunkGrid::Rectilinear(edges) => edges.insert(0, vec![1; usize::try_from(*size).ok()?]),
        }
        array.codecs.iter_mut().for_each(add_leading_axis);
    }
    Some(())
}

/// Adjusts a codec to chunks with a new first axis of length 1.
fn add_leading_axis(codec: &mut Codec) {
    if let Some(longer) = codec.with_leading_axes(1) {
        *codec = longer;
    }
}

/// Where the chunks of a member are in the joined array.
pub(super) struct Move {
    /// Path of the joined array.
    pub(super) target: NodePath,
    /// Position of the first chunk.
    pub(super) start: u64,
    /// Number of new axes.
    pub(super) axes: usize,
}

/// Moves the tasks of members to the joined arrays. `moves` are by the paths of the members' arrays.
pub(super) fn move_tasks(tasks: &mut [InlineTask], moves: &BTreeMap<NodePath, Move>) {
    for task in tasks {
        let Some(Move { target, start, axes }) = moves.get(&task.array) else { continue };
        target.clone_into(&mut task.array);
        task.positions.iter_mut().for_each(|position| *position = position.saturating_add(*start));
        add_axes_to_content(&mut task.content, *axes);
    }
}

/// Adds axes of length 1 before those of a chunk.
pub(super) fn add_axes_to_content(content: &mut ChunkContent, axes: usize) {
    let ChunkContent::Assemble { shape, pieces, .. } = content else { return };
    for _ in 0..axes {
        shape.insert(0, 1);
        for piece in pieces.iter_mut() {
            piece.shape.insert(0, 1);
            piece.extent.insert(0, 1);
            piece.from.insert(0, 0);
            piece.to.insert(0, 0);
            piece.codecs.iter_mut().for_each(add_leading_axis);
        }
    }
}

/// Removes the array and attributes of a page. The groups of its SubIFDs stay; groups that are empty then are removed.
pub(super) fn remove(page: &Ifd, mapped: &mut Mapped) {
    mapped.report.arrays.remove(&path(page));
    let name = group_path(page);
    let Some(group) = mapped.hierarchy.root.make_group(&name) else { return };
    group.children.retain(|_, node| matches!(node, Node::Group(_)));
    group.attributes.clear();
    let mut name = name.as_str();
    while !name.is_empty()
        && mapped
            .hierarchy
            .root
            .make_group(name)
            .is_some_and(|group| group.children.is_empty() && group.attributes.is_empty())
    {
        let (parent, own) = node::split(name);
        if let Some(parent) = mapped.hierarchy.root.make_group(parent) {
            parent.children.remove(own);
        }
        name = parent;
    }
}
