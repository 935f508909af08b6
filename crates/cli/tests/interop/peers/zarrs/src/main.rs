//! Reads every array of reference files with zarrs: `peer-zarrs REFERENCES.json…` prints one line of JSON an array,
//! with its elements in C order as base64 of little-endian bytes (or as texts), or the reason why it cannot.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    panic::catch_unwind,
    sync::Arc,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use zarrs::{
    array::{Array, ArrayBytes, ArraySubset},
    storage::{StoreKey, WritableStorageTraits, store::MemoryStore},
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    std::panic::set_hook(Box::new(|_| {}));
    for file in std::env::args().skip(1) {
        let references: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
        let store = Arc::new(MemoryStore::new());
        let mut arrays = Vec::new();
        for (key, value) in references["refs"].as_object().ok_or("no refs")? {
            let bytes = fetch(value)?;
            arrays.extend(array_of(key, &bytes));
            store.set(&StoreKey::new(key)?, bytes.into())?;
        }
        for path in arrays {
            let read = catch_unwind(|| read(&store, &path)).unwrap_or_else(|_| Err("panicked".into()));
            let mut line = read.unwrap_or_else(|error| json!({"error": chain(error.as_ref())}));
            line["references"] = json!(file);
            line["array"] = json!(path);
            println!("{line}");
        }
    }
    Ok(())
}

/// The bytes that a reference means.
fn fetch(reference: &Value) -> Result<Vec<u8>, Failure> {
    if let Some(text) = reference.as_str() {
        return match text.strip_prefix("base64:") {
            Some(encoded) => Ok(BASE64_STANDARD.decode(encoded)?),
            None => Ok(text.into()),
        };
    }
    let part = |index: usize| reference[index].as_u64().ok_or("no range");
    let url = reference[0].as_str().ok_or("no url")?;
    let mut file = File::open(url.strip_prefix("file://").unwrap_or(url))?;
    file.seek(SeekFrom::Start(part(1)?))?;
    let mut bytes = vec![0; usize::try_from(part(2)?)?];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The path of an array whose metadata this is.
fn array_of(key: &str, document: &[u8]) -> Option<String> {
    let (path, name) = key.rsplit_once('/').unwrap_or(("", key));
    let is_array = match name {
        ".zarray" => true,
        "zarr.json" => serde_json::from_slice::<Value>(document).ok()?["node_type"] == "array",
        _ => false,
    };
    is_array.then(|| path.to_owned())
}

fn read(store: &Arc<MemoryStore>, path: &str) -> Result<Value, Failure> {
    let array = Array::open(store.clone(), &format!("/{path}"))?;
    // Of chunks at an edge it decodes a part, and then checks less.
    for chunk in &ArraySubset::new_with_shape(array.chunk_grid_shape().to_vec()).indices() {
        array.retrieve_chunk::<ArrayBytes<'static>>(&chunk)?;
    }
    let bytes: ArrayBytes<'static> = array.retrieve_array_subset(&array.subset_all())?;
    match bytes {
        ArrayBytes::Fixed(bytes) => Ok(json!({"values": BASE64_STANDARD.encode(&bytes)})),
        ArrayBytes::Variable(variable) => {
            let offsets: Vec<usize> = variable.offsets().iter().copied().collect();
            let texts =
                offsets.windows(2).map(|ends| String::from_utf8_lossy(&variable.bytes()[ends[0]..ends[1]]));
            Ok(json!({"texts": texts.collect::<Vec<_>>()}))
        }
        ArrayBytes::Optional(_) => Err("values with a mask".into()),
    }
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
