//! Times the emitters, for an array whose chunks are divided among files: `speed [CHUNKS [FILES]]` with chunks in memory, and
//! `speed [CHUNKS [FILES]] FORMAT` with chunks that are read one after the other.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement prints, and fails by panicking")]

use std::{io, sync::Arc, time::Instant};

use virtualize_references::{Format, Sink, write, write_chunks, write_files, write_files_chunks};
use virtualize_zarr::{
    Array, Chunk, ChunkGrid, ChunkManifest, ChunkReadError, ChunkReader, Chunks, Codec, DataType, Hierarchy,
    Lengths, Node, References, Source, SourceId, SourceRef, ZarrFormat,
};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut numbers = arguments.iter().filter_map(|text| text.parse::<u64>().ok());
    let chunks = numbers.next().unwrap_or(1_000_000);
    let files = numbers.next().unwrap_or(1);
    if let Some(format) = arguments.iter().find_map(|text| Format::from_name(text)) {
        return streamed(format, chunks, files);
    }
    for format in Format::ALL {
        let hierarchy = hierarchy(format.zarr_format(), chunks, files);
        let mut seconds = f64::INFINITY;
        for _ in 0..5 {
            let start = Instant::now();
            match format.is_several_files() {
                true => write_files(&hierarchy, format, &mut Nowhere).unwrap(),
                false => write(&hierarchy, format, &mut io::sink()).unwrap(),
            }
            seconds = seconds.min(start.elapsed().as_secs_f64());
        }
        println!("{format}: {chunks} chunks of {files} files in {seconds:.3} s");
    }
}

/// Writes chunks that are read one after the other, and reports the peak memory.
fn streamed(format: Format, chunks: u64, files: u64) {
    let mut hierarchy = hierarchy(format.zarr_format(), 0, 1);
    hierarchy.array_mut("temperature").unwrap().shape = vec![chunks];
    let mut reader = Files { chunks, per_file: chunks / files };
    let start = Instant::now();
    match format.is_several_files() {
        true => write_files_chunks(&hierarchy, &mut reader, format, &mut Nowhere).unwrap(),
        false => write_chunks(&hierarchy, &mut reader, format, &mut io::sink()).unwrap(),
    }
    let seconds = start.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!("{format}: {chunks} chunks of {files} files in {seconds:.1} s, {peak}");
}

/// Chunks of files that follow each other.
struct Files {
    chunks: u64,
    per_file: u64,
}

impl ChunkReader for Files {
    fn chunks<'a>(&'a mut self, _: &str, start: u64) -> Result<Chunks<'a>, ChunkReadError> {
        let per_file = self.per_file;
        let mut source = Arc::new(Source::default());
        Ok(Box::new((start..self.chunks).map(move |position| {
            let (file, at) = (position / per_file, position % per_file);
            if at == 0 || source.url.is_empty() {
                source = Arc::new(Source { url: url(file), ..Source::default() });
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
        Ok(self.chunks)
    }
}

fn url(file: u64) -> String {
    format!("s3://archive/observations/2024/{:03}/station-{file:07}.nc", file % 366)
}

fn hierarchy(format: ZarrFormat, chunks: u64, files: u64) -> Hierarchy {
    let per_file = chunks / files;
    let column = |file: u64| References {
        source: SourceId(u32::try_from(file).unwrap()),
        positions: Some((file * per_file..(file + 1) * per_file).collect::<Vec<_>>().into()),
        offsets: (0..per_file).map(|at| 4096 + at * 17_301).collect::<Vec<_>>().into(),
        lengths: Lengths::Each(
            (0..per_file).map(|at| u32::try_from(17_000 + at * at % 301).unwrap()).collect::<Vec<_>>().into(),
        ),
    };
    let array = Array {
        shape: vec![chunks],
        data_type: DataType::Float64,
        chunk_grid: ChunkGrid::Regular(vec![1]),
        fill_value: None,
        codecs: vec![Codec::Bytes { endian: Some(virtualize_zarr::Endian::Little) }],
        dimension_names: vec![Some("time".to_owned())],
        attributes: serde_json::Map::new(),
        chunks: ChunkManifest { references: (0..files).map(column).collect(), ..ChunkManifest::default() },
    };
    let mut hierarchy = Hierarchy::new(format);
    hierarchy.root.children.insert("temperature".to_owned(), Node::Array(Box::new(array)));
    hierarchy.sources = (0..files).map(|file| Source { url: url(file), ..Source::default() }).collect();
    hierarchy
}

struct Nowhere;

impl Sink for Nowhere {
    fn create(&mut self, _: &str) -> io::Result<Box<dyn io::Write + Send + '_>> {
        Ok(Box::new(io::sink()))
    }
}
