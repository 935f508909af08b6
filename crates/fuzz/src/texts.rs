//! Untrusted documents, patterns and requests.

use std::{fs, path::PathBuf, sync::LazyLock};

use futures::StreamExt;
use serde_json::Value;
use tower::ServiceExt;
use virtualize_archive::{
    NamePattern,
    list::{Filter, Input, ListOptions, list},
};
use virtualize_references::Format;
use virtualize_references::{ParquetReferences, ReferenceSet, from_json, translate};
use virtualize_store::{Allowed, StoreOptions};
use virtualize_zarr::{Array, ZarrFormat};

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
        assert!(format.zarr_format() != own || translated.changed.is_empty(), "nothing changes within a format");
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
