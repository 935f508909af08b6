//! Mapping of TIFF: each image becomes an array `band_data` with coordinates and georeferencing.

mod attributes;
mod chunks;
mod compression;
pub(crate) mod crs;
pub(crate) mod georeference;
mod image;
mod lerc;
mod multiscales;
mod nodata;
mod ome;
mod planes;
mod registry;
mod sample;
mod sidecars;
#[cfg(test)]
mod tests;
mod wkt;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use virtualize_bytes::{Budget, Limits};
use virtualize_remedy::{Code, OptionName, Remedy, alternatives};
use virtualize_tiff::model::{File, Ifd};
use virtualize_zarr::cf::conventions;
use virtualize_zarr::{Array, Node, NodePath, References, Source, ZarrFormat};

use crate::tiff::georeference::{add_numbers, remove_band_names};
use crate::tiff::image::ImageMapper;
use crate::tiff::multiscales::describe_masks;
use crate::tiff::ome::{Move, chunk_count, different_attributes, is_like, join, move_tasks, path, remove};
use crate::tiff::sample::unpack_all;
use crate::{ChunkGridChoice, Diagnostic, MapOptions, Mapped};

pub use crate::tiff::lerc::{LercChunk, lerc_outer_codecs, lerc_to_examine, settle_lerc, stored_type};
pub use crate::tiff::multiscales::arrange_as_ome_zarr;
pub use crate::tiff::ome::{OtherTiff, OtherTiffs, ome_files};
pub use crate::tiff::sidecars::{
    DeclaredBand, Sidecar, SidecarKind, merge_declared, merge_sidecars, sidecar_names,
};

/// Names of the variables that only describe the image in their group.
const COMPANIONS: &[&str] = &["band", "band_name", "x", "y", "spatial_ref"];

/// Size in bytes of the largest file that offsets of 4 bytes can address.
const MAX_CLASSIC: u64 = 1 << 32;

/// Name of an image's array, as in xarray's rasterio engine.
pub(super) const ARRAY: &str = "band_data";

/// Maps a TIFF file. The first image becomes the array `band_data` of the root; each further one (pages, overviews, masks,
/// SubIFDs) that of a group named by its position, such as `1` or `0/0`.
pub fn map_file(file: &File, source: Source, options: &MapOptions) -> Mapped {
    let budget = Budget::of_file(&Limits::default(), source.size);
    map_file_among(file, source, &OtherTiffs::default(), options, &budget)
}

/// Maps a TIFF file together with the other files in which an OME-TIFF has planes ([`ome_files`]). Takes memory for the result
/// from `budget`; if that is spent, the report has an error.
pub fn map_file_among(
    file: &File,
    source: Source,
    others: &OtherTiffs,
    options: &MapOptions,
    budget: &Budget<'_>,
) -> Mapped {
    let mut mapped = Mapped::new(options.format, COMPANIONS);
    let chain_error = file.chain_error.as_ref();
    mapped.report.diagnostics.extend(chain_error.map(|error| missing_images("", error)));
    let mapper = ImageMapper::new(file, source.size, options, budget);
    let wanted = map_images(&mapper, file, &mut mapped);
    if !file.big && source.size > MAX_CLASSIC && !reaches_beyond(&mapped) {
        let why = "offsets of classic TIFF end at 4 GiB, and the file is larger: it is none of the supported dialects with \
                   larger offsets";
        mapped.report.diagnostics.push(missing_images("", &why));
    }
    mapped.hierarchy.sources.push(source);
    mapped.report.diagnostics.extend(wanted.into_iter().map(|path| no_such_image(path, file)));
    if options.chunk_grid == ChunkGridChoice::Rectilinear && options.format == ZarrFormat::V2 {
        let message = "Zarr v2 has regular chunk grids only, which are written";
        let remedy = Remedy::set(OptionName::Format, "zarr3-json", "write Zarr v3");
        mapped.report.diagnostics.push(Diagnostic::warning(Code::ChunkGrid, "", message).with(remedy));
    }
    describe_masks(file, &mut mapped.hierarchy);
    let joined = options.ifds.is_empty() && ome::join_series(file, others, &mut mapped, options, budget);
    if options.stack_pages && !joined {
        stack(file, &mut mapped, options);
    }
    multiscales::describe(file, &mut mapped.hierarchy);
    conventions::describe_members(&mut mapped.hierarchy);
    if options.unpack && options.format == ZarrFormat::V3 {
        unpack_all(&mut mapped);
    }
    mapped.finish(options, budget);
    mapped
}

/// Maps the chosen images, or all if none is chosen. Returns the chosen positions that no image has.
fn map_images<'a>(mapper: &ImageMapper<'a>, file: &File, mapped: &mut Mapped) -> BTreeSet<&'a [usize]> {
    let ifds = &mapper.options.ifds;
    let mut wanted: BTreeSet<&[usize]> = ifds.iter().map(Vec::as_slice).collect();
    for ifd in file.all_ifds() {
        if mapper.budget.refused().is_some() {
            break;
        }
        let group = group_path(ifd);
        let missing = ifd.unreadable_sub_ifds.iter().map(|error| missing_images(&group, error));
        mapped.report.diagnostics.extend(missing);
        if ifds.is_empty() || wanted.remove(ifd.path.as_slice()) {
            mapper.map(ifd, &group, mapped);
        }
    }
    wanted
}

/// Whether a reference ends beyond 4 GiB.
fn reaches_beyond(mapped: &Mapped) -> bool {
    let arrays = mapped.hierarchy.arrays();
    let mut references =
        arrays.iter().flat_map(|(_, array)| array.chunks.references.iter().flat_map(References::iter));
    references.any(|(_, at)| at.offset.saturating_add(at.length) > MAX_CLASSIC)
}

/// Returns the warning that images of a group or below it may be missing.
fn missing_images(group: &str, why: &dyn std::fmt::Display) -> Diagnostic {
    Diagnostic::warning(Code::TiffChain, group, format!("further images may be missing: {why}"))
}

fn no_such_image(path: &[usize], file: &File) -> Diagnostic {
    let existing: Vec<String> = file.all_ifds().map(|ifd| joined(&ifd.path)).collect();
    let path = joined(path);
    let existing = alternatives("images", &path, existing.iter().map(String::as_str));
    Diagnostic::error(Code::TiffNoSuchIfd, "", format!("the file has no image {path}{existing}"))
        .with(Remedy::advice("list the images with `virtualize inspect`"))
}

fn joined(path: &[usize]) -> String {
    path.iter().map(usize::to_string).collect::<Vec<_>>().join("/")
}

/// Returns the path of an image's group, which is the root for the first image.
pub(super) fn group_path(ifd: &Ifd) -> String {
    match ifd.path.as_slice() {
        [0] => String::new(),
        path => joined(path),
    }
}

fn zarr_endian(endian: virtualize_bytes::Endian) -> virtualize_zarr::Endian {
    match endian {
        virtualize_bytes::Endian::Little => virtualize_zarr::Endian::Little,
        virtualize_bytes::Endian::Big => virtualize_zarr::Endian::Big,
    }
}

/// Name of the new axis, and of the variable with the numbers of the pages along it.
const AXIS: &str = "page";

/// Joins the pages that are like the first one into its array. Other pages remain groups of their own.
pub(super) fn stack(file: &File, mapped: &mut Mapped, options: &MapOptions) {
    let Some(first) = file.ifds.iter().find(|ifd| is_page(ifd, mapped)) else { return };
    let is_like_first = |ifd: &&Ifd| {
        let array = |ifd| mapped.hierarchy.array(&path(ifd));
        let (true, Some(one), Some(other)) = (is_page(ifd, mapped), array(ifd), array(first)) else {
            return false;
        };
        is_like(one, other) && ifd.geo == first.geo
    };
    let alike: Vec<&Ifd> = file.ifds.iter().filter(is_like_first).collect();
    let pages: Vec<&Array> = alike.iter().filter_map(|ifd| mapped.hierarchy.array(&path(ifd))).collect();
    let axes = [(AXIS.to_owned(), alike.len() as u64)];
    let members: Vec<_> = pages.iter().map(|page| Some((*page, Default::default()))).collect();
    let joined = pages.first().filter(|_| alike.len() > 1).and_then(|model| join(model, &members, &axes));
    let Some(mut stacked) = joined else {
        let text =
            "nothing to stack: the other pages differ from the first in shape, data type, chunks or codecs";
        mapped.report.info(Code::TiffStack, "", text);
        return;
    };
    let omitted: Vec<String> = different_attributes(&pages);
    stacked.attributes.retain(|name, _| !omitted.contains(name));
    let count: u64 = pages.first().map_or(1, |page| chunk_count(page));
    let others = file.ifds.iter().filter(|ifd| is_page(ifd, mapped)).count().saturating_sub(alike.len());
    let target = path(first);
    let to =
        |number: u64| Move { target: target.clone(), start: number.saturating_mul(count), axes: axes.len() };
    let moves: BTreeMap<NodePath, Move> =
        alike.iter().zip(0..).map(|(page, number)| (path(page), to(number))).collect();
    move_tasks(&mut mapped.tasks, &moves);
    for page in alike.iter().skip(1) {
        remove(page, mapped);
    }
    separate_masks(&moves, mapped);
    if !omitted.is_empty() {
        let text = format!("attributes that differ between pages are omitted: {}", omitted.join(", "));
        mapped.report.info(Code::TiffStack, "", text);
    }
    if others > 0 {
        let text = format!("{others} pages that are unlike the first are not stacked");
        mapped.report.info(Code::TiffStack, "", text);
    }
    let Some(group) = mapped.hierarchy.root.make_group(&group_path(first)) else { return };
    if omitted.iter().any(|name| name == "long_name") {
        remove_band_names(group, &mut stacked.attributes);
    }
    let numbers = alike.iter().filter_map(|ifd| ifd.path.first()).map(|index| *index as u64).collect();
    add_numbers(group, AXIS, numbers, options);
    group.children.insert(ARRAY.to_owned(), Node::Array(Box::new(stacked)));
}

/// Removes `mask_of` from the masks of stacked pages, which are no longer arrays of their own.
fn separate_masks(stacked: &BTreeMap<NodePath, Move>, mapped: &mut Mapped) {
    let of_stacked = |array: &Array| {
        array.attributes.get("mask_of").and_then(Value::as_str).is_some_and(|page| stacked.contains_key(page))
    };
    let arrays = mapped.hierarchy.arrays().into_iter();
    let masks: Vec<NodePath> = arrays.filter(|(_, array)| of_stacked(array)).map(|(path, _)| path).collect();
    for mask in &masks {
        if let Some(array) = mapped.hierarchy.array_mut(mask) {
            array.attributes.remove("mask_of");
        }
        let text = "masks of stacked pages are not stacked, and no longer name their page";
        mapped.report.info(Code::TiffStack, mask, text);
    }
}

/// Whether a directory was mapped to an array, and is neither an overview nor a mask.
fn is_page(ifd: &Ifd, mapped: &Mapped) -> bool {
    ifd.is_page() && mapped.hierarchy.array(&path(ifd)).is_some()
}
