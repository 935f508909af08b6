//! Masks and overviews: the Zarr convention `multiscales`, and the attributes that relate a mask to its image.

use std::collections::{BTreeMap, VecDeque};

use serde_json::json;
use virtualize_tiff::model::{Cut, File, Ifd, Image};
use virtualize_zarr::cf::conventions::Convention;
use virtualize_zarr::{Array, Hierarchy, NodePath};

use super::ARRAY;
use super::ome::path;

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
