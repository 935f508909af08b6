//! Times a commit of many chunks, and measures what a reader of one chunk fetches:
//! `commit_scale FOLDER FILES CHUNKS_PER_FILE REFERENCES_PER_MANIFEST [CHUNKS_IN_MEMORY]`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement prints, and fails by panicking")]

use std::{fs, path::Path, sync::Arc, time::Instant};

use virtualize_icechunk::{CommitOptions, Mode, RepositoryLocation, commit_chunks};
use virtualize_zarr::{
    Array, Chunk, ChunkGrid, ChunkManifest, ChunkReadError, ChunkReader, Chunks, Codec, DataType, FillValue,
    Hierarchy, Node, Source, SourceRef, ZarrFormat,
};

/// Chunks of files that follow each other along the first axis.
struct Files {
    files: u64,
    chunks_per_file: u64,
}

impl ChunkReader for Files {
    fn chunks<'a>(&'a mut self, _: &str, start: u64) -> Result<Chunks<'a>, ChunkReadError> {
        let per_file = self.chunks_per_file;
        let mut source = Arc::new(Source::default());
        Ok(Box::new((start..self.files * per_file).map(move |position| {
            let (file, at) = (position / per_file, position % per_file);
            if at == 0 || source.url.is_empty() {
                let url = format!("s3://archive/observations/2024/{:03}/station-{file:07}.nc", file % 366);
                let tag = u128::from(file + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
                source = Arc::new(Source { url, etag: Some(format!("\"{tag:032x}\"")), ..Source::default() });
            }
            let (offset, length) =
                (4096 + at * 170_301, 150_000 + position.wrapping_mul(2_654_435_761) % 20_000);
            Ok((
                position,
                Chunk::Reference { source: SourceRef::Shared(Arc::clone(&source)), offset, length },
            ))
        })))
    }

    fn count(&mut self, _: &str) -> Result<u64, ChunkReadError> {
        Ok(self.files * self.chunks_per_file)
    }
}

fn hierarchy(files: &Files) -> Hierarchy {
    let array = Array {
        shape: vec![files.files, files.chunks_per_file],
        data_type: DataType::Float32,
        chunk_grid: ChunkGrid::Regular(vec![1, 1]),
        fill_value: Some(FillValue::zero(&DataType::Float32)),
        codecs: vec![Codec::Bytes { endian: Some(virtualize_zarr::Endian::Little) }],
        dimension_names: vec![Some("time".to_owned()), Some("cell".to_owned())],
        attributes: serde_json::Map::new(),
        chunks: ChunkManifest::default(),
    };
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    hierarchy.root.children.insert("a".to_owned(), Node::Array(Box::new(array)));
    hierarchy
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok());
    let folder = Path::new(arguments.first().unwrap());
    let mut files = Files { files: number(1).unwrap(), chunks_per_file: number(2).unwrap() };
    let mut options = CommitOptions { mode: Mode::Replace, ..CommitOptions::default() };
    options.references_per_manifest = number(3).unwrap_or(options.references_per_manifest);
    options.chunks_in_memory = number(4).unwrap_or(options.chunks_in_memory);
    let hierarchy = hierarchy(&files);
    let start = Instant::now();
    let location = RepositoryLocation::Local(folder.to_owned());
    let done = commit_chunks(&hierarchy, &mut files, &location, &options).await.unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    let snapshot = fs::metadata(folder.join("snapshots").join(&done.snapshot)).unwrap().len();
    let manifests: Vec<u64> = fs::read_dir(folder.join("manifests"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .collect();
    let mean = manifests.iter().sum::<u64>() / manifests.len().max(1) as u64;
    println!(
        "{} chunks in {seconds:.1} s, {peak}; snapshot {snapshot} bytes, {} manifests of {mean} bytes",
        done.chunks,
        manifests.len()
    );
}
