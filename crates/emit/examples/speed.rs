//! Times the emitters: `speed [CHUNKS [FILES]]`, for an array whose chunks are divided among the files in turn.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement prints, and fails by panicking")]

use std::{io, time::Instant};

use virtualize_emit::{Format, Sink, write, write_files};
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, Hierarchy, Lengths, Node, References, Source, SourceId,
    ZarrFormat,
};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().unwrap());
    let chunks = arguments.next().unwrap_or(1_000_000);
    let files = arguments.next().unwrap_or(1);
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

fn hierarchy(format: ZarrFormat, chunks: u64, files: u64) -> Hierarchy {
    let per_file = chunks / files;
    let column = |file: u64| References {
        source: SourceId(u32::try_from(file).unwrap()),
        positions: Some((file * per_file..(file + 1) * per_file).collect()),
        offsets: (0..per_file).map(|at| 4096 + at * 17_301).collect(),
        lengths: Lengths::Each(
            (0..per_file).map(|at| u32::try_from(17_000 + at * at % 301).unwrap()).collect(),
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
    let url = |file: u64| format!("s3://archive/observations/2024/{:03}/station-{file:07}.nc", file % 366);
    hierarchy.sources = (0..files).map(|file| Source { url: url(file), ..Source::default() }).collect();
    hierarchy
}

struct Nowhere;

impl Sink for Nowhere {
    fn create(&mut self, _: &str) -> io::Result<Box<dyn io::Write + Send + '_>> {
        Ok(Box::new(io::sink()))
    }
}
