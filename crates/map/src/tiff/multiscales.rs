//! Masks and pyramids: the attributes that relate a mask to its image, the levels of an image in the Zarr convention
//! `multiscales`, and the layout of OME-NGFF, version 0.5 (<https://ngff.openmicroscopy.org/0.5/>).
//!
//! As OME-Zarr, a file with one image becomes that image: the root lists the levels `0`, `1`, … of its pyramid. Several
//! images become the groups `0`, `1`, … of the layout of bioformats2raw. Axes are in the order of the specification: time,
//! channel, space. The samples of a pixel are channels.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value, json};
use virtualize_remedy::{Code, OptionName, Remedy};
use virtualize_tiff::model::{Cut, File, Ifd, Image};
use virtualize_zarr::cf::conventions::Convention;
use virtualize_zarr::node::{self, join};
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, Group, Hierarchy, Node, NodePath, References,
    ReferencesBuilder, ZarrFormat, chunk_indices, chunk_position,
};

use super::ARRAY;
use super::georeference::texts_of_vlen_utf8;
use super::ome::path;
use crate::{Diagnostic, Mapped};

/// Lists the levels in the attributes of the root, if there are overviews.
pub(super) fn describe(file: &File, hierarchy: &mut Hierarchy) {
    let Some(main) = file.ifds.first() else { return };
    let Ok(image) = &main.image else { return };
    let Some(array) = hierarchy.array(ARRAY) else { return };
    // How many pixels of the main image a pixel of a level covers, along y and x.
    let transform = |level: &Image| {
        let scale = [image.height as f64 / level.height as f64, image.width as f64 / level.width as f64];
        json!({ "scale": scale, "translation": [0.0, 0.0] })
    };
    let others = |array: &Array, image: &Image| {
        let all = array.shape.iter().fold(1_u64, |all, size| all.saturating_mul(*size));
        all.checked_div(image.width.saturating_mul(image.height).saturating_mul(image.depth))
    };
    let mut layout = vec![json!({ "asset": ARRAY, "transform": transform(image) })];
    for (ifd, level) in levels_of(file, main, image) {
        let path = path(ifd);
        // Arrays of levels differ only in rows, columns and planes.
        if hierarchy.array(&path).is_some_and(|overview| {
            array.data_type == overview.data_type
                && array.shape.len() == overview.shape.len()
                && others(array, image) == others(overview, level)
        }) {
            layout.push(json!({ "asset": path, "derived_from": ARRAY, "transform": transform(level) }));
        }
    }
    if layout.len() > 1 {
        let attributes = &mut hierarchy.root.attributes;
        attributes.insert("multiscales".into(), json!({ "layout": layout }));
        Convention::Multiscales.declare(attributes);
    }
}

/// Returns the directories of the levels, from fine to coarse: images like the main one, reduced by a whole factor. Label and
/// macro images differ in their proportions, and thumbnails in their division.
fn levels_of<'a>(file: &'a File, main: &'a Ifd, image: &Image) -> Vec<(&'a Ifd, &'a Image)> {
    let is_tiled = |image: &Image| matches!(image.cut, Cut::Tiles { .. });
    let is_similar = |level: &Image| {
        level.subfile_type & MASK == 0
            && level.bits_per_sample == image.bits_per_sample
            && level.sample_format == image.sample_format
            && (is_tiled(level) || !is_tiled(image))
            && (level.width, level.height) != (image.width, image.height)
    };
    let all = main.sub_ifds.iter().chain(file.ifds.iter().skip(1));
    let similar: Vec<(&Ifd, &Image)> = all
        .filter_map(|ifd| ifd.image.as_ref().ok().map(|level| (ifd, level)))
        .filter(|(_, level)| is_similar(level))
        .collect();
    // Images without the bit of reduced images are levels in some programs only.
    let description = main.description().unwrap_or_default().trim();
    let starts = |names: &[&str]| names.iter().any(|name| description.starts_with(name));
    let are_tiles = starts(&["Aperio ", "Mikroscan Image Structure", "Motic "]);
    // All tiled images behind the thumbnail of Aperio SVS and formats like it; the SubIFDs of OME-TIFF; a sequence with one
    // factor, as in tifffile. As in GDAL, there are none in GeoTIFF, and where a description declares the order of the images.
    let are_sub_ifds = !are_tiles && description.contains("<OME");
    let is_declared = main.geo.is_some()
        || main.second_description.is_some()
        || starts(&["{", "shape=", "ImageJ=", "SCIFIO="]);
    let marked = |(_, level): &&(&Ifd, &Image)| level.subfile_type & REDUCED != 0 && is_reduced(image, level);
    let mut levels: Vec<(&Ifd, &Image)> = similar.iter().filter(marked).copied().collect();
    if are_tiles || are_sub_ifds {
        levels.extend(similar.iter().filter(|(ifd, level)| {
            let is_behind = if are_tiles { ifd.path.first() > Some(&1) } else { ifd.path.len() > 1 };
            is_behind && level.subfile_type == 0 && is_reduced(image, level)
        }));
    } else if !is_declared {
        levels.extend(steps(file, image, &similar));
    }
    // The sort is stable: of several focal planes, the first belongs to the main image.
    levels.sort_by_key(|(_, level)| std::cmp::Reverse((level.width, level.height)));
    levels.dedup_by_key(|(_, level)| (level.width, level.height));
    levels
}

const REDUCED: u32 = 1;
const MASK: u32 = 4;

/// Whether a whole factor of 2 or more divides all sizes of the main image to those of the level, rounded up or down.
pub(super) fn is_reduced(main: &Image, level: &Image) -> bool {
    let sizes = [(main.width, level.width), (main.height, level.height), (main.depth, level.depth)];
    // Of a size, the factors between size / (reduced + 1) and size / (reduced - 1) yield the reduced one.
    let least = sizes.iter().map(|(size, reduced)| size / (reduced + 1) + 1).fold(2, u64::max);
    let most = sizes.iter().filter(|(_, reduced)| *reduced > 1);
    let most = most.map(|(size, reduced)| size.div_ceil(reduced - 1) - 1).fold(u64::MAX, u64::min);
    least <= most
}

/// Returns the images without the bit of reduced images that continue the main image in steps of 2, 3 or 4. A pyramid has as
/// many images of each size.
fn steps<'a>(file: &File, main: &Image, similar: &[(&'a Ifd, &'a Image)]) -> Vec<(&'a Ifd, &'a Image)> {
    let divides = |(size, reduced): (u64, u64), by: u64| {
        size >= by && (size / by == reduced || size.div_ceil(by) == reduced)
    };
    let is_step = |finer: &Image, coarser: &Image, by: u64| {
        let sizes = [(finer.width, coarser.width), (finer.height, coarser.height)];
        sizes.into_iter().all(|sizes| divides(sizes, by)) && finer.depth == coarser.depth
    };
    let size = |image: &Image| (image.width, image.height);
    let mut count_of = BTreeMap::new();
    let pages = file.ifds.iter().filter_map(|ifd| ifd.image.as_ref().ok());
    pages.for_each(|page| *count_of.entry(size(page)).or_insert(0) += 1);
    let mut levels = Vec::new();
    let (mut finest, mut factor) = (main, None);
    for (ifd, level) in similar.iter().filter(|(_, level)| level.subfile_type & REDUCED == 0) {
        if count_of.get(&size(level)).unwrap_or(&1) != count_of.get(&size(main)).unwrap_or(&1) {
            continue;
        }
        let by = match factor {
            None => [2, 3, 4].into_iter().find(|by| is_step(finest, level, *by)),
            Some(by) => Some(by).filter(|by| is_step(finest, level, *by)),
        };
        if let Some(by) = by {
            (finest, factor) = (level, Some(by));
            levels.push((*ifd, *level));
        }
    }
    levels
}

/// Adds the attribute `mask` to each masked image and `mask_of` to each mask. Both are paths from the root.
pub(super) fn describe_masks(file: &File, hierarchy: &mut Hierarchy) {
    let images = file.all_ifds().filter_map(|ifd| Some((ifd, ifd.image.as_ref().ok()?)));
    let images: Vec<(&Ifd, &Image)> = images.collect();
    let mut candidates = Candidates::new();
    // The masks of overviews may precede their images.
    for (at, (ifd, image)) in images.iter().enumerate() {
        if image.subfile_type & (MASK | REDUCED) == REDUCED {
            candidates.entry(key(image)).or_default().entry(ifd.path.len()).or_default().push_back((at, ifd));
        }
    }
    for (at, (ifd, image)) in images.iter().enumerate() {
        if image.subfile_type & MASK != 0 {
            let Some(found) = candidates.get_mut(&key(image)) else { continue };
            if let Some(masked) = take(found, ifd.path.len(), image.subfile_type & REDUCED != 0) {
                tie(path(masked), path(ifd), image, hierarchy);
            }
        } else if image.subfile_type & REDUCED == 0 {
            candidates.entry(key(image)).or_default().entry(ifd.path.len()).or_default().push_back((at, ifd));
        }
    }
}

/// Images without a mask, with their positions, by the properties that they share with their masks and by the depth of their
/// directories.
type Candidates<'a> = BTreeMap<(u32, u64, u64, u64), BTreeMap<usize, VecDeque<(usize, &'a Ifd)>>>;

fn key(image: &Image) -> (u32, u64, u64, u64) {
    (image.subfile_type & REDUCED, image.width, image.height, image.depth)
}

/// Takes the image of a mask at a depth of directories, which is not deeper: the first overview, or the last one of full
/// images, which precede their masks.
fn take<'a>(
    found: &mut BTreeMap<usize, VecDeque<(usize, &'a Ifd)>>,
    depth: usize,
    is_reduced: bool,
) -> Option<&'a Ifd> {
    let at_depths = found.range_mut(..=depth).map(|(_, images)| images).filter(|images| !images.is_empty());
    let (_, image) = if is_reduced {
        at_depths.min_by_key(|images| images.front().map(|(at, _)| *at))?.pop_front()?
    } else {
        at_depths.max_by_key(|images| images.back().map(|(at, _)| *at))?.pop_back()?
    };
    Some(image)
}

fn tie(image: NodePath, mask: NodePath, stored: &Image, hierarchy: &mut Hierarchy) {
    if hierarchy.array(&image).is_none() {
        return;
    }
    let Some(array) = hierarchy.array_mut(&mask) else { return };
    array.attributes.insert("mask_of".into(), image.clone().into());
    if stored.bits_per_sample.iter().all(|bits| *bits == 1) {
        // GDAL shows such masks as 0 and 255.
        array.attributes.insert("flag_values".into(), json!([0, 1]));
        array.attributes.insert("flag_meanings".into(), "masked valid".into());
    }
    if let Some(array) = hierarchy.array_mut(&image) {
        array.attributes.insert("mask".into(), mask.into());
    }
}

/// Version of OME-NGFF.
const VERSION: &str = "0.5";

/// Colors of channels, in turn.
const COLORS: [&str; 6] = ["FF0000", "00FF00", "0000FF", "FF00FF", "00FFFF", "FFFF00"];

/// Rearranges the arrays of a mapped file. All chunks must have been made: tasks are not moved.
///
/// # Errors
/// The format is Zarr v2, there is no image, or one has axes or a georeference that OME-NGFF cannot express.
pub fn arrange_as_ome_zarr(mapped: &mut Mapped) -> Result<(), Diagnostic> {
    let hierarchy = &mut mapped.hierarchy;
    if hierarchy.format == ZarrFormat::V2 {
        let remedy = Remedy::set(OptionName::Format, "zarr3-json", "write Zarr v3");
        return Err(refused("", "OME-NGFF 0.5 needs a Zarr v3 format").with(remedy));
    }
    let images = images(hierarchy);
    if images.is_empty() {
        return Err(refused("", "the file has no image of a TIFF"));
    }
    let target = |image: usize, level: usize| match images.len() {
        1 => level.to_string(),
        _ => format!("{image}/{level}"),
    };
    let moves: BTreeMap<NodePath, NodePath> = (images.iter().enumerate())
        .flat_map(|(image, levels)| {
            levels.iter().enumerate().map(move |(level, path)| (path.clone(), target(image, level)))
        })
        .collect();
    let mut root = Group::default();
    for (number, levels) in images.iter().enumerate() {
        let group = if images.len() == 1 { String::new() } else { number.to_string() };
        let Some(group) = root.make_group(&group) else { continue };
        add_image(hierarchy, levels, group)?;
    }
    if images.len() > 1 {
        let numbers: Vec<String> = (0..images.len()).map(|number| number.to_string()).collect();
        root.attributes.insert("ome".into(), json!({ "version": VERSION, "bioformats2raw.layout": 3 }));
        if let Some(series) = root.make_group("OME") {
            series.attributes.insert("ome".into(), json!({ "version": VERSION, "series": numbers }));
        }
    }
    let mut old = std::mem::replace(&mut hierarchy.root, root);
    Convention::Multiscales.withdraw(&mut old.attributes);
    old.attributes.remove("ome_series");
    hierarchy.root.attributes.append(&mut old.attributes);
    for path in moves.values() {
        let Some(array) = hierarchy.array_mut(path) else { continue };
        for name in ["mask", "mask_of"] {
            let moved = array.attributes.get(name).and_then(Value::as_str).and_then(|path| moves.get(path));
            if let Some(moved) = moved.cloned() {
                array.attributes.insert(name.into(), moved.into());
            }
        }
    }
    let reports = std::mem::take(&mut mapped.report.arrays).into_iter();
    mapped.report.arrays = reports
        .map(|(path, report)| (moves.get(&path).cloned().unwrap_or(path), report))
        .filter(|(path, report)| report.omitted.is_some() || mapped.hierarchy.array(path).is_some())
        .collect();
    Ok(())
}

fn refused(path: &str, why: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(Code::OmeZarr, path, format!("cannot be written as OME-Zarr: {why}"))
}

/// Returns the arrays of each image, from the full resolution to the lowest, in the order of their directories.
fn images(hierarchy: &Hierarchy) -> Vec<Vec<NodePath>> {
    let arrays = hierarchy.arrays();
    let mut found: Vec<(Vec<u64>, NodePath, &Array)> = arrays
        .into_iter()
        .filter(|(path, _)| node::name(path) == ARRAY)
        .map(|(path, array)| (directory(node::parent(&path)), path, array))
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let declared = hierarchy.root.attributes.get("multiscales").and_then(|it| it.get("layout")?.as_array());
    let declared = declared.into_iter().flatten().filter_map(|level| level.get("asset")?.as_str());
    let declared: Vec<NodePath> =
        declared.filter(|path| hierarchy.array(path).is_some()).map(str::to_owned).collect();
    // A SubIFD is a level of its image if it has fewer pixels, and is alike otherwise.
    let is_level = |main: &Array, level: &Array| {
        let mut sizes = main.shape.iter().zip(&level.shape).zip(&main.dimension_names);
        main.data_type == level.data_type
            && main.shape.len() == level.shape.len()
            && main.shape != level.shape
            && !level.attributes.contains_key("mask_of")
            && sizes.all(|((size, reduced), name)| match slot(name.as_deref().unwrap_or_default()) {
                Some(3 | 4) => (1..=*size).contains(reduced),
                _ => size == reduced,
            })
    };
    let mut used = BTreeSet::new();
    let mut images = Vec::new();
    for (at, (number, path, array)) in found.iter().enumerate() {
        if used.contains(path) {
            continue;
        }
        let levels = if declared.first() == Some(path) {
            declared.clone()
        } else {
            // SubIFDs follow the directory that they belong to.
            let below = found.iter().skip(at + 1).take_while(|level| level.0.starts_with(number));
            let mut levels: Vec<_> = below
                .filter(|level| level.0.len() == number.len() + 1 && is_level(array, level.2))
                .filter(|level| !used.contains(&level.1))
                .collect();
            levels.sort_by_key(|level| {
                std::cmp::Reverse(level.2.shape.iter().copied().fold(1, u64::saturating_mul))
            });
            std::iter::once(path).chain(levels.into_iter().map(|level| &level.1)).cloned().collect()
        };
        used.extend(levels.iter().cloned());
        images.push(levels);
    }
    images
}

/// Returns the numbers of a directory: 0 for the root, which has the first image.
fn directory(group: &str) -> Vec<u64> {
    if group.is_empty() { vec![0] } else { group.split('/').filter_map(|step| step.parse().ok()).collect() }
}

/// Axes of OME-NGFF in their order, with their types.
const AXES: [(&str, &str); 5] =
    [("t", "time"), ("c", "channel"), ("z", "space"), ("y", "space"), ("x", "space")];

/// Returns the position in [`AXES`] of a dimension. Dimensions of groups have the number of the group as their suffix.
fn slot(dimension: &str) -> Option<usize> {
    match dimension.split('_').next() {
        Some("band") => Some(1),
        name => AXES.iter().position(|(axis, _)| name == Some(*axis)),
    }
}

/// Adds the levels of an image to a group, and the metadata that describes them.
fn add_image(hierarchy: &Hierarchy, levels: &[NodePath], group: &mut Group) -> Result<(), Diagnostic> {
    let (mut datasets, mut axes, mut full) = (Vec::new(), Vec::new(), None);
    let mut names = Vec::new();
    for (number, path) in levels.iter().enumerate() {
        let Some(array) = hierarchy.array(path) else { continue };
        if array.attributes.contains_key("grid_mapping") || array.attributes.contains_key("spatial:transform")
        {
            return Err(refused(path, "OME-NGFF has no coordinate reference systems"));
        }
        let (slots, mut level) = regroup(array).map_err(|why| refused(path, why))?;
        let shape = level.shape.clone();
        let (full_shape, attributes) = full.get_or_insert_with(|| (shape.clone(), array.attributes.clone()));
        let size_of = |slot: usize| physical(attributes, slot);
        let scale: Vec<f64> = (slots.iter().zip(full_shape.iter().zip(&shape)))
            .map(|(slot, (full, own))| size_of(*slot).0 * (*full as f64 / (*own).max(1) as f64))
            .collect();
        let transform = json!({ "type": "scale", "scale": scale });
        datasets.push(json!({ "path": number.to_string(), "coordinateTransformations": [transform] }));
        if number == 0 {
            let texts = ["channel_name", "band_name"].into_iter().find_map(|name| {
                let names = hierarchy.array(&join(node::parent(path), name))?;
                let is_own = names.dimension_names.iter().all(|name| array.dimension_names.contains(name));
                names.chunks.inline.get(&0).filter(|_| is_own)
            });
            names = texts.and_then(|chunk| texts_of_vlen_utf8(chunk)).unwrap_or_default();
            axes = slots.iter().map(|slot| axis(*slot, size_of(*slot).1)).collect();
        }
        level.attributes.remove("coordinates");
        group.children.insert(number.to_string(), Node::Array(Box::new(level)));
    }
    let Some((shape, attributes)) = full else { return Ok(()) };
    let name = attributes.get("ome_name").map(|name| ("name".to_owned(), name.clone()));
    let parts = [("axes".to_owned(), json!(axes)), ("datasets".to_owned(), datasets.into())];
    let image: Map<String, Value> = parts.into_iter().chain(name).collect();
    let channel = axes.iter().position(|axis| axis["name"] == "c");
    let channels = channel.and_then(|at| shape.get(at)).map_or(1, |count| *count);
    let first = levels.first().and_then(|path| hierarchy.array(path));
    let window = first.and_then(|array| window(&array.data_type, &attributes));
    let omero = window.filter(|_| !names.is_empty() && names.len() as u64 == channels).map(|window| {
        let colors: &[&str] = if names.len() == 1 { &["FFFFFF"] } else { &COLORS };
        let channels = names
            .iter()
            .zip(colors.iter().cycle())
            .map(|(name, color)| json!({ "label": name, "color": color, "window": window, "active": true }));
        ("omero".to_owned(), json!({ "channels": channels.collect::<Vec<_>>() }))
    });
    let parts = [("version".to_owned(), VERSION.into()), ("multiscales".to_owned(), json!([image]))];
    let ome: Map<String, Value> = parts.into_iter().chain(omero).collect();
    group.attributes.insert("ome".into(), ome.into());
    Ok(())
}

fn axis(slot: usize, unit: Option<String>) -> Value {
    let (name, kind) = AXES.get(slot).copied().unwrap_or_default();
    match unit {
        Some(unit) => json!({ "name": name, "type": kind, "unit": unit }),
        None => json!({ "name": name, "type": kind }),
    }
}

/// Returns the distance of two pixels along an axis with its unit; 1 if OME-XML does not declare it.
fn physical(attributes: &Map<String, Value>, slot: usize) -> (f64, Option<String>) {
    let (name, base, default) = match slot {
        0 => ("TimeIncrement", "second", "s"),
        2 => ("PhysicalSizeZ", "meter", "µm"),
        3 => ("PhysicalSizeY", "meter", "µm"),
        4 => ("PhysicalSizeX", "meter", "µm"),
        _ => return (1.0, None),
    };
    let text = |name: &str| attributes.get(name).and_then(Value::as_str);
    let size = text(name).and_then(|size| size.trim().parse::<f64>().ok());
    let Some(size) = size.filter(|size| size.is_finite() && *size > 0.0) else { return (1.0, None) };
    (size, unit(text(&format!("{name}Unit")).unwrap_or(default).trim(), base))
}

/// Returns the name of a unit in UDUNITS, which OME-NGFF uses; `None` if OME-NGFF does not list it.
fn unit(symbol: &str, base: &str) -> Option<String> {
    const SYMBOLS: &str = "YZEPTGMkhdcmµ\u{3bc}npfazy";
    const PREFIXES: [&str; 20] = [
        "yotta", "zetta", "exa", "peta", "tera", "giga", "mega", "kilo", "hecto", "deci", "centi", "milli",
        "micro", "micro", "nano", "pico", "femto", "atto", "zepto", "yocto",
    ];
    let own = match (base, symbol) {
        ("meter", "Å") => "angstrom",
        ("meter", "in") => "inch",
        ("meter", "ft") => "foot",
        ("meter", "yd") => "yard",
        ("meter", "mi") => "mile",
        ("meter", "pc") => "parsec",
        ("second", "min") => "minute",
        ("second", "h") => "hour",
        ("second", "d") => "day",
        ("meter", "m") | ("second", "s") => base,
        _ => {
            let prefix = symbol.strip_suffix(if base == "meter" { 'm' } else { 's' })?;
            let (_, prefix) =
                SYMBOLS.chars().zip(PREFIXES).find(|(symbol, _)| prefix.chars().eq([*symbol]))?;
            return Some(format!("{prefix}{base}"));
        }
    };
    Some(own.to_owned())
}

/// Returns the range of values that viewers show at first: that of the significant bits, or of the data type.
fn window(data_type: &DataType, attributes: &Map<String, Value>) -> Option<Value> {
    let width = u32::try_from(data_type.number_size()).ok()?.checked_mul(8)?;
    let declared = attributes.get("SignificantBits").and_then(Value::as_str);
    let declared = declared.and_then(|bits| bits.parse().ok()).filter(|bits| (1..=width).contains(bits));
    let values = |bits: u32| 2_f64.powf(f64::from(bits));
    let (min, max) = if data_type.is_signed_integer() {
        (-values(width) / 2.0, values(width) / 2.0 - 1.0)
    } else if data_type.is_integer() {
        (0.0, values(declared.unwrap_or(width)) - 1.0)
    } else if data_type.is_float() {
        (0.0, 1.0)
    } else {
        return None;
    };
    Some(json!({ "min": min, "max": max, "start": min, "end": max }))
}

/// Returns the array with the axes of [`AXES`], and which of them it has. The samples of a pixel follow their channel; a
/// single one has no axis.
fn regroup(array: &Array) -> Result<(Vec<usize>, Array), String> {
    let of_axis = |at: usize| array.shape.get(at).copied().unwrap_or(1);
    let mut members: [Vec<usize>; AXES.len()] = Default::default();
    for (at, name) in array.dimension_names.iter().enumerate() {
        let name = name.as_deref().unwrap_or_default();
        let slot = slot(name).ok_or_else(|| format!("OME-NGFF has no axis like {name:?}"))?;
        let is_band = name.split('_').next() == Some("band");
        if !is_band || of_axis(at) != 1 {
            members.get_mut(slot).into_iter().for_each(|members| members.push(at));
        }
    }
    let slots: Vec<usize> =
        (0..AXES.len()).filter(|slot| members.get(*slot).is_some_and(|it| !it.is_empty())).collect();
    let groups: Vec<&[usize]> =
        slots.iter().filter_map(|slot| members.get(*slot).map(Vec::as_slice)).collect();
    let order: Vec<usize> = groups.iter().flat_map(|group| group.iter().copied()).collect();
    let chunk_is_longer = |at: usize| match &array.chunk_grid {
        ChunkGrid::Regular(chunk) => chunk.get(at).is_some_and(|length| *length > 1),
        ChunkGrid::Rectilinear(edges) => {
            edges.get(at).is_some_and(|edges| edges.iter().any(|edge| *edge > 1))
        }
    };
    let longer: Vec<usize> = order.iter().copied().filter(|at| chunk_is_longer(*at)).collect();
    let too_many = groups.iter().any(|group| match group {
        [_] => false,
        [outer, inner] => chunk_is_longer(*outer) || !divides(array, *inner),
        _ => true,
    });
    if too_many || !longer.is_sorted() {
        return Err("its chunks have several elements along axes that would have to be reordered".into());
    }
    let mut result = array.clone();
    result.dimension_names =
        slots.iter().filter_map(|slot| AXES.get(*slot)).map(|(name, _)| Some((*name).to_owned())).collect();
    result.shape = groups.iter().map(|group| group.iter().map(|at| of_axis(*at)).product()).collect();
    result.chunk_grid = match &array.chunk_grid {
        ChunkGrid::Regular(chunk) => ChunkGrid::Regular(
            groups.iter().map(|group| group.iter().filter_map(|at| chunk.get(*at)).product()).collect(),
        ),
        ChunkGrid::Rectilinear(edges) => {
            let joined = |group: &&[usize]| {
                let inner = group.last().and_then(|at| edges.get(*at)).cloned().unwrap_or_default();
                let outer: usize =
                    group.iter().rev().skip(1).filter_map(|at| edges.get(*at)).map(Vec::len).product();
                inner.repeat(outer)
            };
            ChunkGrid::Rectilinear(groups.iter().map(joined).collect())
        }
    };
    // An axis that is dropped or joined with the next has chunks of one element, whose position has no effect.
    let new: BTreeMap<usize, usize> =
        groups.iter().enumerate().filter_map(|(new, group)| Some((*group.last()?, new))).collect();
    result.codecs.retain_mut(|codec| match codec {
        Codec::Transpose { order } => {
            *order = order.iter().filter_map(|at| new.get(at).copied()).collect();
            !order.is_sorted()
        }
        _ => true,
    });
    if !order.is_sorted() {
        let (from, to) = (array.chunk_grid.counts(&array.shape), result.chunk_grid.counts(&result.shape));
        let moved = |position: u64| {
            let indices = chunk_indices(position, &from)?;
            let index = |group: &&[usize]| {
                group.iter().try_fold(0_u64, |sum, at| {
                    sum.checked_mul(*from.get(*at)?)?.checked_add(*indices.get(*at)?)
                })
            };
            let indices: Option<Vec<u64>> = groups.iter().map(index).collect();
            chunk_position(indices?, &to)
        };
        result.chunks = move_chunks(&array.chunks, moved).ok_or("its chunks cannot be counted")?;
    }
    Ok((slots, result))
}

/// Whether all chunks along an axis have one length.
fn divides(array: &Array, at: usize) -> bool {
    match &array.chunk_grid {
        ChunkGrid::Regular(chunk) => {
            let (size, chunk) = (array.shape.get(at).copied(), chunk.get(at).copied());
            size.zip(chunk).is_some_and(|(size, chunk)| size.checked_rem(chunk) == Some(0))
        }
        ChunkGrid::Rectilinear(_) => true,
    }
}

fn move_chunks(chunks: &ChunkManifest, moved: impl Fn(u64) -> Option<u64>) -> Option<ChunkManifest> {
    let mut references = Vec::new();
    for column in &chunks.references {
        let mut builder = ReferencesBuilder::default();
        for (position, at) in References::iter(column) {
            builder.push(moved(position)?, at.offset, at.length);
        }
        references.extend(builder.finish(column.source));
    }
    let inline = chunks.inline.iter().map(|(position, bytes)| Some((moved(*position)?, bytes.clone())));
    Some(ChunkManifest { references, inline: inline.collect::<Option<_>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiff::tests::ifd;
    use crate::tiff::tests::image;

    /// 40,000 images before their masks, of which each belongs to the last image without one. The steps may not grow with the
    /// product of images and masks: 64 trillion would take a day.
    #[test]
    fn masks_are_found_without_a_search() {
        const IMAGES: usize = 40_000;
        let page = |index: usize| {
            let subfile_type = if index < IMAGES { 0 } else { MASK };
            Ifd { path: vec![index], ..ifd(Image { subfile_type, ..image(4, 6, 1, 6) }) }
        };
        let ifds = (0..2 * IMAGES).map(page).collect();
        let file = File { endian: virtualize_bytes::Endian::Big, big: false, ifds, chain_error: None };
        describe_masks(&file, &mut Hierarchy::new(virtualize_zarr::ZarrFormat::V3));
        let mut found = BTreeMap::from([
            (1, VecDeque::from([(0, &file.ifds[0]), (2, &file.ifds[2])])),
            (2, VecDeque::from([(1, &file.ifds[1])])),
        ]);
        let mut next = |depth, is_reduced| take(&mut found, depth, is_reduced).map(|ifd| ifd.path[0]);
        assert_eq!(
            [next(1, true), next(2, false), next(1, true), next(2, true), next(2, true)],
            [Some(0), Some(2), None, Some(1), None]
        );
    }
}
