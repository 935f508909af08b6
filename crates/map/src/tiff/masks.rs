//! Transparency masks (value 4 of NewSubfileType): attributes that tie each mask to its image.

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
    let mut masked: Vec<&[usize]> = Vec::new();
    for (at, (ifd, mask)) in
        images.iter().enumerate().filter(|(_, (_, image))| image.subfile_type & MASK != 0)
    {
        let before = images.get(..at).unwrap_or_default();
        let Some(image) = image_of(ifd, mask, before, &images, &masked) else { continue };
        masked.push(&image.path);
        tie(path(image), path(ifd), mask, hierarchy);
    }
}

/// Collects all images in depth-first order.
fn collect<'a>(ifds: &'a [Ifd], images: &mut Vec<(&'a Ifd, &'a Image)>) {
    let mut pending: Vec<&Ifd> = ifds.iter().rev().collect();
    while let Some(ifd) = pending.pop() {
        images.extend(ifd.image.as_ref().ok().map(|image| (ifd, image)));
        pending.extend(ifd.sub_ifds.iter().rev());
    }
}

/// Finds the image of a mask: one of its size that has no mask yet. For masks of full images it is the last one before the
/// mask; for masks of overviews, which may precede their images, the first overview.
fn image_of<'a>(
    ifd: &Ifd,
    mask: &Image,
    before: &[(&'a Ifd, &'a Image)],
    all: &[(&'a Ifd, &'a Image)],
    masked: &[&[usize]],
) -> Option<&'a Ifd> {
    let fits = |(other, image): &&(&'a Ifd, &'a Image)| {
        image.subfile_type & MASK == 0
            && image.subfile_type & REDUCED == mask.subfile_type & REDUCED
            && (image.width, image.height, image.depth) == (mask.width, mask.height, mask.depth)
            && other.path.len() <= ifd.path.len()
            && !masked.contains(&other.path.as_slice())
    };
    let found = match mask.subfile_type & REDUCED {
        0 => before.iter().rev().find(fits),
        _ => all.iter().find(fits),
    };
    found.map(|(image, _)| *image)
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
