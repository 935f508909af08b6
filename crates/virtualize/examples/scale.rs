//! Writes ten million references in a format, and reports time and memory:
//! `cargo run --release -p virtualize --example scale -- FORMAT ARRAYS CHUNKS OUT`, such as `kerchunk-json 1 10000000 /tmp/r.json`.
//! FORMAT `icechunk` commits to the repository OUT.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement that fails by panicking"
)]

use std::{env, fs, io::Write, time::Instant};

use virtualize::{
    Format, Options, VirtualStore,
    zarr::{
        Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, Hierarchy, Lengths, Node,
        References, Source, SourceId, ZarrFormat,
    },
};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [format, arrays, chunks, out] = arguments.as_slice() else { panic!("FORMAT ARRAYS CHUNKS OUT") };
    let (arrays, chunks): (u64, u64) = (arrays.parse().unwrap(), chunks.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let zarr = if format.starts_with("kerchunk") { ZarrFormat::V2 } else { ZarrFormat::V3 };
    let store = VirtualStore::of(hierarchy(zarr, arrays, chunks), "scale");
    let before = peak();
    let start = Instant::now();
    runtime.block_on(write(&store, format, out));
    let seconds = start.elapsed().as_secs_f64();
    let size = size(out.as_ref());
    let mut stdout = std::io::stdout();
    writeln!(
        stdout,
        "{format}: {arrays} arrays of {chunks} chunks: {seconds:.2} s, {:.0} MB, {:.0} MB/s, peak {} MiB (hierarchy {before} MiB)",
        size / 1e6,
        size / 1e6 / seconds,
        peak()
    )
    .unwrap();
}

async fn write(store: &VirtualStore, format: &str, out: &str) {
    let options = Options::default().store;
    if format == "icechunk" {
        #[cfg(feature = "full")]
        virtualize::commit(store, out, &virtualize::CommitOptions::default(), &options).await.unwrap();
        return;
    }
    let format = match format {
        "kerchunk-json" => Format::KERCHUNK_JSON,
        "kerchunk-parquet" => Format::KERCHUNK_PARQUET,
        "zarr3-json" => Format::ZARR3_JSON,
        "zarr3" => Format::ZARR3,
        other => panic!("{other}"),
    };
    virtualize::write(store, format, out, &options).await.unwrap();
}

fn hierarchy(format: ZarrFormat, arrays: u64, chunks: u64) -> Hierarchy {
    let mut hierarchy = Hierarchy::new(format);
    let url = "s3://bucket/a/prefix/of/usual/length/file.nc".to_owned();
    hierarchy.sources.push(Source {
        url,
        etag: Some("\"0123456789abcdef\"".to_owned()),
        size: u64::MAX,
        modified: None,
    });
    for n in 0..arrays {
        let offsets: Vec<_> = (0..chunks).map(|at| 4096 + at * 71_331).collect();
        let lengths = Lengths::Each(
            (0..chunks)
                .map(|at| 50_000 + u32::try_from(at * 7919 % 20_000).unwrap())
                .collect::<Vec<_>>()
                .into(),
        );
        let references =
            References { source: SourceId(0), positions: None, offsets: offsets.into(), lengths };
        let data_type = DataType::Float32;
        let array = Array {
            shape: vec![chunks, 100, 100],
            fill_value: Some(FillValue::zero(&data_type)),
            data_type,
            chunk_grid: ChunkGrid::Regular(vec![1, 100, 100]),
            codecs: vec![Codec::Bytes { endian: Some(Endian::Little) }, Codec::Zlib { level: 4 }],
            dimension_names: ["time", "y", "x"].map(|name| Some(name.to_owned())).into(),
            attributes: serde_json::Map::new(),
            chunks: ChunkManifest::of(references),
        };
        hierarchy.root.children.insert(format!("variable_{n:05}"), Node::Array(Box::new(array)));
    }
    hierarchy
}

/// Returns the peak memory of the process in MiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn size(path: &std::path::Path) -> f64 {
    let found = fs::metadata(path).unwrap();
    match found.is_dir() {
        true => fs::read_dir(path).unwrap().map(|entry| size(&entry.unwrap().path())).sum(),
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        false => found.len() as f64,
    }
}
