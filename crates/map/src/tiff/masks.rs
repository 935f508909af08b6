//! Transparency masks (value 4 of NewSubfileType): attributes that tie each mask to its image.

use std::collections::{BTreeMap, VecDeque};

use serde_json::json;
use virtualize_tiff::model::{File, Ifd, Image};
use virtualize_zarr::{Hierarchy, NodePath, node::join};

use super::{ARRAY, group_path};

const REDUCED: u32 = 1;
const MASK: u32 = 4;

/// Adds the attribute `mask` to each masked image and `mask_of` to each mask. Both are paths from the root.
pub(super) fn describe(file: &File, hierarchy: &mut Hierarchy) {
    let mut images: Vec<(&Ifd, &Image)> = Vec::new();
    collect(&file.ifds, &mut images);
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

/// Collects all images in depth-first order.
fn collect<'a>(ifds: &'a [Ifd], images: &mut Vec<(&'a Ifd, &'a Image)>) {
    let mut pending: Vec<&Ifd> = ifds.iter().rev().collect();
    while let Some(ifd) = pending.pop() {
        images.extend(ifd.image.as_ref().ok().map(|image| (ifd, image)));
        pending.extend(ifd.sub_ifds.iter().rev());
    }
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

fn path(ifd: &Ifd) -> NodePath {
    join(&group_path(ifd), ARRAY)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ifd, image};
    use super::*;

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
        describe(&file, &mut Hierarchy::new(virtualize_zarr::ZarrFormat::V3));
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
