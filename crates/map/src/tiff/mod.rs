//! Mapping of TIFF: each image becomes an array `band_data` with coordinates and georeferencing.

mod attributes;
mod chunks;
mod compression;
mod coordinates;
mod crs;
mod datum;
mod geo_keys;
mod geometry;
mod georeference;
mod heights;
mod image;
mod join;
mod lerc;
mod masks;
mod multiscales;
mod nodata;
mod number;
mod old_jpeg;
mod ome;
mod packing;
mod planes;
mod registry;
mod sample;
mod sidecars;
mod stack;
mod tags;
mod tiff_schemes;
mod wkt;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_attributes;
#[cfg(test)]
mod tests_of_chunks;
#[cfg(test)]
mod tests_of_georeference;
#[cfg(test)]
mod tests_of_keys;
#[cfg(test)]
mod tests_of_probes;
#[cfg(test)]
mod tests_of_series;

use std::collections::BTreeSet;

use virtualize_bytes::{Budget, Limits};
use virtualize_remedy::{Code, OptionName, Remedy, alternatives};
use virtualize_tiff::model::{File, Ifd};
use virtualize_zarr::{References, Source, ZarrFormat};

use self::image::ImageMapper;
pub use self::lerc::{LercChunk, lerc_outer_codecs, lerc_to_examine, settle_lerc, stored_type};
pub use self::ome::{OtherTiff, OtherTiffs, ome_files};
pub use self::sidecars::{Sidecar, SidecarKind, merge_sidecars, sidecar_names};
use crate::{ChunkGridChoice, Diagnostic, MapOptions, Mapped, Severity};

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
    mapped.report.diagnostics.extend(grid_advice(options));
    masks::describe(file, &mut mapped.hierarchy);
    let joined = options.ifds.is_empty() && ome::join_series(file, others, &mut mapped, options, budget);
    if options.stack && !joined {
        stack::stack(file, &mut mapped, options);
    }
    multiscales::describe(file, &mut mapped.hierarchy);
    if options.unpack && options.format == ZarrFormat::V3 {
        packing::unpack_all(&mut mapped);
    }
    mapped.finish(options, budget);
    mapped
}

/// Maps the chosen images, or all if none is chosen. Returns the chosen positions that no image has.
fn map_images<'a>(mapper: &ImageMapper<'a>, file: &File, mapped: &mut Mapped) -> BTreeSet<&'a [usize]> {
    let ifds = &mapper.options.ifds;
    let mut pending: Vec<&Ifd> = file.ifds.iter().rev().collect();
    let mut wanted: BTreeSet<&[usize]> = ifds.iter().map(Vec::as_slice).collect();
    while let Some(ifd) = pending.pop().filter(|_| mapper.budget.refused().is_none()) {
        let group = group_path(ifd);
        let missing = ifd.unreadable_sub_ifds.iter().map(|error| missing_images(&group, error));
        mapped.report.diagnostics.extend(missing);
        if ifds.is_empty() || wanted.remove(ifd.path.as_slice()) {
            mapper.map(ifd, &group, mapped);
        }
        pending.extend(ifd.sub_ifds.iter().rev());
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
    Diagnostic {
        severity: Severity::Warning,
        code: Code::TiffChain,
        path: format!("/{group}"),
        message: format!("further images may be missing: {why}"),
        remedy: None,
    }
}

fn no_such_image(path: &[usize], file: &File) -> Diagnostic {
    let mut existing = Vec::new();
    let mut pending: Vec<&Ifd> = file.ifds.iter().rev().collect();
    while let Some(ifd) = pending.pop() {
        existing.push(joined(&ifd.path));
        pending.extend(ifd.sub_ifds.iter().rev());
    }
    let path = joined(path);
    let existing = alternatives("images", &path, existing.iter().map(String::as_str));
    Diagnostic {
        severity: Severity::Error,
        code: Code::TiffNoSuchIfd,
        path: "/".into(),
        message: format!("the file has no image {path}{existing}"),
        remedy: Some(Remedy::advice("list the images with `virtualize inspect`")),
    }
}

fn grid_advice(options: &MapOptions) -> Option<Diagnostic> {
    let ignored = options.chunk_grid == ChunkGridChoice::Rectilinear && options.format == ZarrFormat::V2;
    ignored.then(|| Diagnostic {
        severity: Severity::Warning,
        code: Code::ChunkGrid,
        path: "/".into(),
        message: "Zarr v2 has regular chunk grids only, which are written".into(),
        remedy: Some(Remedy::set(OptionName::Format, "zarr3-json", "write Zarr v3")),
    })
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
