//! Image codecs of imagecodecs, which differ in name and configuration only.
//!
//! A name that is not listed here is neither written nor parsed as [`Codec::Image`]. `imagecodecs_sperr` and
//! `imagecodecs_sz3` are not listed on purpose: decoding needs the chunk's shape, which only their classes for Zarr v2
//! take, so neither format can express what the other does. Documents that use them keep their entry
//! ([`Codec::Foreign`]).
//!
//! Decoding was tested with imagecodecs, and is exact where the format is lossless. `imagecodecs_jpeg` takes `tables`
//! (base64 of a JPEGTables tag), `colorspace_jpeg` and `colorspace_data` (`RGB`, `YCbCr`, …); `imagecodecs_lerc` has [`Codec::Zlib`] or [`Codec::Zstd`] after it
//! where TIFF compresses the blob again.

use serde_json::{Map, Value};

use super::{Codec, Definition};
use crate::ZarrFormat;

const NAMES: &[&str] = &[
    "imagecodecs_ccittfax3",
    "imagecodecs_ccittfax4",
    "imagecodecs_ccittrle",
    "imagecodecs_float24",
    "imagecodecs_jpeg",
    "imagecodecs_jpeg2k",
    "imagecodecs_jpegxl",
    "imagecodecs_jpegxr",
    "imagecodecs_lerc",
    "imagecodecs_png",
    "imagecodecs_webp",
    "imagecodecs_zfp",
];

pub(super) const DEFINITION: Definition = Definition {
    configuration: |codec, format| match codec {
        Codec::Image { name, configuration } if NAMES.contains(name) => Some(match format {
            ZarrFormat::V2 => Value::Object(configuration.clone()),
            ZarrFormat::V3 => without_shape(name, configuration),
        }),
        _ => None,
    },
    parse: |encoded| Some(Codec::Image { name: encoded.name, configuration: encoded.configuration() }),
    complete: |codec, _, shape| {
        if let (Codec::Image { name, configuration }, [.., height, width]) = (codec, shape)
            && name.starts_with(CCITT)
        {
            configuration.insert("height".to_owned(), (*height).into());
            configuration.insert("width".to_owned(), (*width).into());
        }
    },
    examples: || {
        let configuration = || Map::from_iter([("level".to_owned(), 1.into())]);
        NAMES.iter().map(|name| Codec::Image { name, configuration: configuration() }).collect()
    },
    ..Definition::image(NAMES)
};

const CCITT: &str = "imagecodecs_ccitt";

/// Removes the members that classes for Zarr v3 reject: they take the size from the chunk.
fn without_shape(name: &str, configuration: &Map<String, Value>) -> Value {
    let v2_only: &[&str] = match name {
        "imagecodecs_zfp" => &["shape", "dtype", "strides"],
        fax if fax.starts_with(CCITT) => &["height", "width"],
        _ => &[],
    };
    let members = configuration.iter().filter(|(member, _)| !v2_only.contains(&member.as_str()));
    Value::Object(members.map(|(member, value)| (member.clone(), value.clone())).collect())
}
