//! The entry points of the fuzz targets.

mod codecs;
mod damage;
mod differential;
pub mod differential_targets;
pub mod mutate;
pub mod oracle;
mod texts;

pub use codecs::{codecs, images};
pub use texts::{listing, names, parquet_metadata, references, service, zarr_metadata};

use futures::executor::block_on;
use virtualize_bytes::{Limits, MemorySource};
use virtualize_references::Format;
use virtualize_map::{MapOptions, Mapped};
use virtualize_zarr::Source;

/// Limits that keep each run short and small.
const LIMITS: Limits = Limits {
    objects: 10_000,
    depth: 32,
    chunks: 100_000,
    structure_bytes: 1 << 24,
    metadata_bytes: 1 << 26,
    attributes: 10_000,
};

/// Reads, maps and emits an HDF5 file.
pub fn hdf5(data: &[u8]) {
    let source = MemorySource(bytes::Bytes::copy_from_slice(data));
    if let Ok(file) = block_on(virtualize_hdf5::read(&source, &LIMITS)) {
        emit(|options| virtualize_map::hdf5::map_file(&file, origin(data), options));
    }
}

/// Reads, maps and emits a NetCDF classic file.
pub fn netcdf3(data: &[u8]) {
    let source = MemorySource(bytes::Bytes::copy_from_slice(data));
    if let Ok(file) = block_on(virtualize_netcdf3::read(&source, &LIMITS)) {
        emit(|options| virtualize_map::hdf5::map_file(&file, origin(data), options));
    }
}

/// Reads, maps and emits a DMR++ sidecar.
pub fn dmrpp(data: &[u8]) {
    let source = MemorySource(bytes::Bytes::copy_from_slice(data));
    let file = virtualize_dmrpp::DataFile { name: "a.nc", size: 1 << 20 };
    if let Ok(file) = block_on(virtualize_dmrpp::read(&source, file, &LIMITS)) {
        emit(|options| virtualize_map::hdf5::map_file(&file, origin(data), options));
    }
}

/// Reads, maps and emits a TIFF file.
pub fn tiff(data: &[u8]) {
    let source = MemorySource(bytes::Bytes::copy_from_slice(data));
    if let Ok(file) = block_on(virtualize_tiff::read(&source, &LIMITS)) {
        emit(|options| virtualize_map::tiff::map_file(&file, origin(data), options));
    }
}

/// Runs everything that the library does with a file, including inlining of chunks.
pub fn open(data: &[u8]) {
    for format in [Format::KERCHUNK_JSON, Format::ZARR3_JSON] {
        let map = MapOptions { format: format.zarr_format(), inline_limit: 1 << 16, ..MapOptions::default() };
        let options = virtualize::Options { map, limits: LIMITS, ..virtualize::Options::default() };
        let object = virtualize_store::Object::in_memory("memory:///fuzz", data.to_vec());
        if let Ok(store) = block_on(virtualize::open_object(object, &options)) {
            drop(virtualize::write_to(&store, format, &mut std::io::sink()));
        }
    }
}

/// Builds a TIFF file of one byte with this GDAL metadata.
pub fn gdal_metadata(data: &[u8]) {
    const ENTRIES: u16 = 10;
    let after = 8 + 2 + u32::from(ENTRIES) * 12 + 4;
    let length = data.len() as u32;
    let mut file = b"II\x2a\0\x08\0\0\0".to_vec();
    file.extend(ENTRIES.to_le_bytes());
    let mut entry = |tag: u16, kind: u16, count: u32, value: u32| {
        file.extend(tag.to_le_bytes());
        file.extend(kind.to_le_bytes());
        file.extend(count.to_le_bytes());
        file.extend(value.to_le_bytes());
    };
    for (tag, value) in
        [(256, 1), (257, 1), (258, 8), (259, 1), (262, 1), (273, 0), (277, 1), (278, 1), (279, 1)]
    {
        entry(tag, 3, 1, value);
    }
    match length {
        0..=4 => entry(42112, 2, 1, 0),
        _ => entry(42112, 2, length, after),
    }
    file.extend([0; 4]);
    file.extend(data);
    tiff(&file);
}

fn origin(data: &[u8]) -> Source {
    Source { url: "file:///fuzz".to_owned(), etag: None, size: data.len() as u64, modified: None }
}

/// Maps a file for both formats and emits it, if no inline tasks remain.
fn emit(map: impl Fn(&MapOptions) -> Mapped) {
    for format in [Format::KERCHUNK_JSON, Format::ZARR3_JSON] {
        let options = MapOptions {
            format: format.zarr_format(),
            inline_limit: 1 << 20,
            constant_chunk_limit: 100,
            ..MapOptions::default()
        };
        let mapped = map(&options);
        drop(virtualize_references::write(&mapped.hierarchy, format, &mut std::io::sink()));
    }
}
