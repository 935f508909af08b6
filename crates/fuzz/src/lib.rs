//! The entry points of the fuzz targets.

mod damage;
pub mod differential;
pub mod mutate;
pub mod oracle;

use std::{cell::RefCell, fs, path::PathBuf, sync::LazyLock};

use futures::{StreamExt, executor::block_on};
use serde_json::Value;
use tower::ServiceExt;
use virtualize_archive::{
    NamePattern,
    list::{Filter, Input, ListOptions, list},
};
use virtualize_bytes::{Limits, MemorySource};
use virtualize_codec::{CodecFailure, Decoder, Scratch, decode, jpeg, jpeg2000, lerc, png, webp};
use virtualize_map::{MapOptions, Mapped};
use virtualize_references::{Format, ParquetReferences, ReferenceSet, from_json, translate};
use virtualize_store::{Allowed, StoreOptions};
use virtualize_zarr::{Array, Codec, DataType, Source, ZarrFormat};

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

// Stored chunks.

/// Decodes a chunk, codec by codec and into memory of the caller. The input is a JSON array of codecs as the Python
/// package names them, a line feed, the decoded size in 2 bytes, and the chunk.
pub fn codecs(data: &[u8]) {
    let Some((chain, chunk)) = split(data) else { return };
    let Some((&[low, high], chunk)) = chunk.split_first_chunk() else { return };
    let length = usize::from(u16::from_le_bytes([low, high]));
    let expected = decode(&chain, chunk, length);
    thread_local!(static SCRATCH: RefCell<Scratch> = RefCell::default());
    let Ok(decoder) = Decoder::new(&DataType::UInt8, &chain) else { return };
    let mut out = vec![0xAA; length];
    let done = SCRATCH.with_borrow_mut(|scratch| decoder.decode(chunk, &mut out, scratch));
    match (done, expected) {
        (Ok(()), Ok(expected)) => assert_eq!(out, expected, "both ways of {chain:?}"),
        (done, expected) => assert_eq!(done.is_ok(), expected.is_ok(), "both ways of {chain:?}: {done:?}"),
    }
}

fn split(data: &[u8]) -> Option<(Vec<Codec>, &[u8])> {
    let end = data.iter().position(|byte| *byte == b'\n')?;
    let (head, rest) = data.split_at(end);
    let entries: Vec<Value> = serde_json::from_slice(head).ok()?;
    let chain = entries.iter().take(4).map(codec).collect::<Option<_>>()?;
    Some((chain, &rest[1..]))
}

/// Parses a codec under the name of the package, or the plain name of one that the package does not register.
fn codec(entry: &Value) -> Option<Codec> {
    Some(match entry.as_str() {
        Some("zlib") => Codec::Zlib { level: 1 },
        Some("gzip") => Codec::Gzip { level: 1 },
        Some("zstd") => Codec::Zstd { level: 1, checksum: false },
        Some("bz2") => Codec::Bz2 { level: 1 },
        Some("lzma") => Codec::Lzma { format: 1 },
        Some("lzma_alone") => Codec::Lzma { format: 2 },
        Some("fletcher32") => Codec::Fletcher32,
        Some("blosc") => Codec::Blosc { cname: "lz4", clevel: 1, shuffle: 1, typesize: 4, blocksize: 0 },
        Some(_) => return None,
        None => Codec::from_own(entry, ZarrFormat::V3)?,
    })
}

/// Completes a short strip, and reads the headers of images. The first bytes select format, width and rows.
pub fn images(data: &[u8]) {
    let Some((&[which, width, rows, height], image)) = data.split_first_chunk() else { return };
    let (width, rows, height) = (width.into(), rows.into(), height.into());
    let completed = match which % 5 {
        0 => jpeg::with_rows(image, width, rows, height),
        1 => jpeg2000::with_rows(image, width, rows, height),
        2 => png::with_rows(image, width, rows, height),
        3 => webp::with_rows(image, width, rows, height, 1 << 20),
        // The header, the mask and the values of LERC blobs.
        _ => {
            use DataType::{Float32, Float64, Int16, UInt8};
            for (data_type, size) in [(UInt8, 1), (Int16, 2), (Float32, 4), (Float64, 8)] {
                let layout = lerc::Layout { rows, columns: width, samples: 2, has_alpha: true };
                if let Ok(values) = lerc::decode(image, &data_type, &layout) {
                    let expected = rows * width * 2 * size;
                    assert_eq!(values.len() as u64, expected, "the requested number of values");
                }
            }
            return;
        }
    };
    drop::<Result<Vec<u8>, CodecFailure>>(completed);
    drop(jpeg::Header::find(image));
    for codec in ["jpeg2k", "png", "webp", "jpegxl", "lerc"] {
        drop(virtualize_codec::image::Header::find(&format!("imagecodecs_{codec}"), image));
    }
}

// Untrusted documents, patterns and requests.

static RUNTIME: LazyLock<tokio::runtime::Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"));

/// Returns a folder of this process with a file in it.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("virtualize-fuzz-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("a.tif"), b"II\x2a\0\x08\0\0\0\0\0").expect("a file");
    folder
});

/// Reads kerchunk JSON, converts it to the other Zarr format, and writes both.
pub fn references(data: &[u8]) {
    if let Ok(set) = from_json(data) {
        written(set);
    }
}

/// Reads the metadata of kerchunk's Parquet layout, without its Parquet files.
pub fn parquet_metadata(data: &[u8]) {
    let Ok(references) = ParquetReferences::new(data) else { return };
    drop(references.arrays());
    if let Ok(set) = references.finish() {
        written(set);
    }
}

fn written(set: ReferenceSet) {
    let own = set.hierarchy.format;
    for format in [Format::KERCHUNK_JSON, Format::ZARR3_JSON] {
        let translated = translate(set.hierarchy.clone(), format.zarr_format());
        drop(virtualize_references::write(&translated.hierarchy, format, &mut std::io::sink()));
        assert!(
            format.zarr_format() != own || translated.changed.is_empty(),
            "nothing changes within a format"
        );
    }
}

/// Parses a Zarr v3 and a Zarr v2 array document, and writes the result.
pub fn zarr_metadata(data: &[u8]) {
    let Ok(document) = serde_json::from_slice::<Value>(data) else { return };
    let none = Value::Object(serde_json::Map::new());
    for (read, format) in [
        (Array::from_zarr_json(&document), ZarrFormat::V3),
        (Array::from_zarray(&document, &none), ZarrFormat::V2),
    ] {
        let Ok(read) = read else { continue };
        let again = match format {
            ZarrFormat::V3 => read.array.to_zarr_json("a"),
            ZarrFormat::V2 => read.array.to_zarray(),
        };
        if let Ok(again) = again {
            let second = match format {
                ZarrFormat::V3 => Array::from_zarr_json(&again),
                ZarrFormat::V2 => Array::from_zarray(&again, &none),
            };
            let second = second.unwrap_or_else(|error| panic!("{again} is not read again: {error}"));
            assert_eq!(second.array.shape, read.array.shape);
        }
    }
}

/// Lists the files that a STAC document, a list of files or a pattern refers to, within one folder.
pub fn listing(data: &[u8]) {
    let Some((which, text)) = data.split_first() else { return };
    let folder = format!("file://{}", FOLDER.display());
    let input = match which % 3 {
        0 => Input::Stac(document("stac.json", text)),
        1 => Input::List(document(if which & 4 == 0 { "list.jsonl" } else { "list.txt" }, text)),
        _ => match std::str::from_utf8(text) {
            Ok(pattern) => Input::Files(format!("{folder}/{pattern}")),
            Err(_) => return,
        },
    };
    let allowed = Allowed::parse([format!("{folder}/")]).expect("a folder that is there");
    let store = StoreOptions { allowed: Some(allowed), retries: 0, ..StoreOptions::default() };
    let name = std::str::from_utf8(text).ok().filter(|_| which & 64 != 0).map(str::to_owned);
    let options = ListOptions { store, absent: which & 8 != 0, ..ListOptions::default() };
    let Ok(files) = list(vec![input], Filter { name, ..Filter::default() }, options) else { return };
    let files = RUNTIME.block_on(files.take(10_000).collect::<Vec<_>>());
    for item in files.into_iter().flatten() {
        assert!(item.url.starts_with("file:"), "{} was not allowed", item.url);
    }
}

fn document(name: &str, text: &[u8]) -> String {
    let path = FOLDER.join(name);
    fs::write(&path, text).expect("a file");
    path.display().to_string()
}

/// Parses a pattern of names, and a name by it.
pub fn names(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (pattern, name) = text.split_once('\n').unwrap_or((text, text));
    if let Ok(pattern) = NamePattern::new(pattern) {
        drop(pattern.names());
        drop(pattern.given(name));
        assert!(NamePattern::new(&pattern.to_string()).is_ok());
    }
}

/// Requests a path and query from the service, which allows one file.
pub fn service(data: &[u8]) {
    static SERVICE: LazyLock<axum::Router> = LazyLock::new(|| {
        let allow = vec![format!("file://{}/", FOLDER.display())];
        let settings = virtualize_server::Settings { allow, ..virtualize_server::Settings::default() };
        let _guard = RUNTIME.enter();
        virtualize_server::app(settings.check().expect("settings")).expect("a service")
    });
    let Ok(text) = std::str::from_utf8(data) else { return };
    let file = format!("file://{}/a.tif", FOLDER.display());
    // `@` stands for the url of the file, `#` for its base64 form, as in paths of the service.
    let encoded = base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, &file);
    let target = format!("/v1/{}", text.replace('@', &file).replace('#', &encoded));
    let Ok(request) = axum::http::Request::get(target).body(axum::body::Body::empty()) else { return };
    let answer = RUNTIME.block_on(SERVICE.clone().oneshot(request)).expect("an answer");
    assert_ne!(answer.status(), 500, "no internal error");
}
