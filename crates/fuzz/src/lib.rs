//! The entry points of the fuzz targets.

mod differential;
pub mod differential_targets;
pub mod mutate;
pub mod oracle;
mod texts;

pub use texts::{listing, names, parquet_metadata, references, service, zarr_metadata};

use futures::executor::block_on;
use virtualize_bytes::{Limits, MemorySource};
use virtualize_emit::Format;
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
        emit(|options| virtualize_map::netcdf3::map_file(&file, origin(data), options));
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

/// Decodes a chunk. The first bytes select codec, parameters and size.
pub fn codecs(data: &[u8]) {
    use virtualize_zarr::Codec;
    let Some((&[which, parameter, low, high], rest)) = data.split_first_chunk() else { return };
    let expected = usize::from(u16::from_le_bytes([low, high]));
    let words = || {
        rest.chunks_exact(4)
            .take(usize::from(parameter))
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect::<Vec<_>>()
    };
    let after_words = rest.get(usize::from(parameter) * 4..).unwrap_or_default();
    let dtype = ["<u1", ">u2", "<u4", "<f4", ">f8", "<f2"][usize::from(parameter) % 6].to_owned();
    let shape = vec![u64::from(low), u64::from(high)];
    let sz3 = || Codec::sz3(usize::from(parameter) % 10).map(|codec| (codec, rest));
    let sperr = || {
        let dtype = if parameter & 1 == 0 { "<f4" } else { "<f8" };
        let shape = if parameter & 2 == 0 { shape.clone() } else { vec![9, low.into(), high.into()] };
        Codec::Sperr { dtype, shape, has_mode: parameter & 4 == 0 }
    };
    let sz = || Codec::sz(usize::from(parameter & 1), shape.clone()).map(|codec| (codec, rest));
    let (codec, bytes) = match which % 20 {
        0 => (Codec::Hdf5Szip(words().into()), after_words),
        1 => (Codec::Hdf5Nbit(words().into()), after_words),
        2 => (Codec::Hdf5ScaleOffset(words().into()), after_words),
        3 => (Codec::Hdf5Bitshuffle(words().into()), after_words),
        4 => (Codec::Lzw, rest),
        5 => (Codec::PackBits, rest),
        6 => (Codec::Lzf, rest),
        7 => (Codec::Hdf5Lz4, rest),
        8 => (Codec::Delta { axis: isize::from(parameter % 4) - 2, dtype, shape }, rest),
        9 => (Codec::FloatPredictor { axis: isize::from(parameter % 4) - 2, dtype, shape }, rest),
        10 => (
            Codec::PackBitsOfIntegers { bits_per_sample: parameter.into(), run_length: low.into(), dtype },
            rest,
        ),
        11 => (Codec::Fletcher32, rest),
        12 => (Codec::Shuffle { element_size: parameter.into() }, rest),
        13 => (Codec::Zstd { level: 0, checksum: false }, rest),
        15 => (Codec::JpegLs { by_pixel: parameter & 1 == 0 }, rest),
        16 => (sperr(), rest),
        17 => sz3().unwrap_or((Codec::Lzf, rest)),
        18 => (Codec::Blosc2, rest),
        19 => sz().unwrap_or((Codec::Lzf, rest)),
        14 => return lerc(rest, low.into(), high.into()),
        _ => (Codec::Bz2 { level: 1 }, rest),
    };
    drop(virtualize_codec::decode(&[codec], bytes, expected));
}

/// Parses the header, the mask and the values of LERC blobs.
fn lerc(data: &[u8], rows: u64, columns: u64) {
    use virtualize_codec::lerc::{Layout, decode};
    use virtualize_zarr::DataType::{Float32, Float64, Int16, UInt8};
    for (data_type, size) in [(UInt8, 1), (Int16, 2), (Float32, 4), (Float64, 8)] {
        let layout = Layout { rows, columns, samples: 2, has_alpha: true };
        if let Ok(values) = decode(data, &data_type, &layout) {
            assert_eq!(values.len() as u64, rows * columns * 2 * size, "the requested number of values");
        }
    }
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
        drop(virtualize_emit::write(&mapped.hierarchy, format, &mut std::io::sink()));
    }
}
