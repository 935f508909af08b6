//! Prints the model of TIFF files, one JSON line per file: `dump FILE…`.

#![allow(clippy::print_stdout, clippy::panic, clippy::unwrap_used)]

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use serde_json::{Value as Json, json};
use virtualize_bytes::{Limits, MemorySource};
use virtualize_tiff::{
    Error,
    model::{Cut, File, Ifd, Image, Value},
    read,
};

fn main() {
    for path in std::env::args().skip(1) {
        let source = MemorySource(Bytes::from(std::fs::read(&path).unwrap()));
        let start = std::time::Instant::now();
        let result = now(&source);
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{}",
            json!({"path": path, "seconds": seconds, "result": outcome(result.as_ref().map(file))})
        );
    }
}

/// One poll is enough, because memory is always ready.
fn now(source: &MemorySource) -> Result<File, Error> {
    let limits = Limits::default();
    match pin!(read(source, &limits)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("memory never waits"),
    }
}

fn outcome(result: Result<Json, &Error>) -> Json {
    result.unwrap_or_else(|error| json!({"error": error.to_string()}))
}

fn file(file: &File) -> Json {
    json!({
        "endian": format!("{:?}", file.endian), "big": file.big,
        "ifds": file.ifds.iter().map(ifd).collect::<Vec<_>>(),
        "chain_error": file.chain_error.as_ref().map(ToString::to_string),
    })
}

fn ifd(ifd: &Ifd) -> Json {
    let tags: serde_json::Map<String, Json> =
        ifd.tags.iter().map(|(tag, tag_value)| (tag.to_string(), value(tag_value))).collect();
    json!({
        "path": ifd.path, "offset": ifd.offset, "tags": tags, "gdal_nodata": ifd.gdal_nodata,
        "unreadable": ifd.unreadable_tags.iter().chain(&ifd.unreadable_sub_ifds).map(ToString::to_string).collect::<Vec<_>>(),
        "image": outcome(ifd.image.as_ref().map(image)),
        "gdal_metadata": ifd.gdal_metadata.iter().map(|item| {
            json!([item.domain, item.name, item.sample, item.role, item.value])
        }).collect::<Vec<_>>(),
        "geo": ifd.geo.as_ref().map(|geo| json!({
            "scale": geo.pixel_scale, "tie_points": geo.tie_points, "transformation": geo.transformation,
            "rpc": geo.rpc,
            "keys": geo.keys.iter().map(|(id, key)| (id.to_string(), format!("{key:?}").into())).collect::<serde_json::Map<_, _>>(),
        })),
        "sub_ifds": ifd.sub_ifds.iter().map(self::ifd).collect::<Vec<_>>(),
    })
}

fn value(value: &Value) -> Json {
    match value {
        Value::Unsigned(numbers) => json!(numbers),
        Value::Signed(numbers) => json!(numbers),
        Value::Float(numbers) => json!(numbers),
        Value::Rational(pairs) => json!(pairs),
        Value::SignedRational(pairs) => json!(pairs),
        Value::Text(strings) => json!(strings),
        Value::Bytes(bytes) => json!({"bytes": bytes}),
    }
}

fn image(image: &Image) -> Json {
    let tile = match image.cut {
        Cut::Strips { rows } => json!([rows]),
        Cut::Tiles { width, height, depth } => json!([depth, height, width]),
    };
    json!({
        "subfile_type": image.subfile_type, "width": image.width, "height": image.height, "depth": image.depth,
        "bits": image.bits_per_sample, "samples": image.samples_per_pixel,
        "format": image.sample_format.iter().map(|format| format!("{format:?}")).collect::<Vec<_>>(),
        "extra": image.extra_samples, "photometric": image.photometric, "compression": image.compression,
        "predictor": image.predictor, "reversed_bits": image.reversed_bits, "planar": image.planar, "tile": tile,
        "offsets": image.offsets, "byte_counts": image.byte_counts, "derived": image.derived_byte_counts,
        "jpeg_tables": image.jpeg_tables.as_ref().map(Vec::len), "subsampling": image.ycbcr_subsampling,
        "color_map": image.color_map.as_ref().map(Vec::len), "fax": image.fax_options, "lerc": image.lerc_parameters,
    })
}
