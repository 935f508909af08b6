//! Names and configurations of single codecs.

use serde_json::{Map, Value, json};

use crate::{Codec, CodecError, Endian, ZarrFormat, cast_value, client_codecs};

impl Codec {
    /// The codec as an entry of `filters` or as the `compressor` of a Zarr v2 array.
    ///
    /// # Errors
    /// Where v2 has no name for it, and for [`Codec::Bytes`], [`Codec::ReversedBytes`] and [`Codec::Transpose`], which v2
    /// says elsewhere.
    pub fn to_v2(&self) -> Result<Value, CodecError> {
        Ok(match self {
            Self::Delta { axis, dtype, shape } => {
                json!({"id": "imagecodecs_delta", "shape": shape, "dtype": dtype, "axis": axis, "dist": 1})
            }
            Self::FloatPredictor { axis, dtype, shape } => {
                json!({"id": "imagecodecs_floatpred", "shape": shape, "dtype": dtype, "axis": axis, "dist": 1})
            }
            Self::PackBitsOfIntegers { bits_per_sample, run_length, dtype } => {
                json!({"id": "imagecodecs_packints", "dtype": dtype, "bitspersample": bits_per_sample, "runlen": run_length})
            }
            Self::VlenUtf8 => json!({"id": "vlen-utf8"}),
            Self::VlenBytes => json!({"id": "vlen-bytes"}),
            Self::Image { name, configuration } | Self::Named { name, configuration } => {
                client_codecs::entry_of(self).ok_or_else(|| self.nameless("v2"))?;
                with_id(name, configuration)
            }
            Self::Blosc2Nd => json!({"id": "imagecodecs_b2nd"}),
            Self::Gzip { level } => json!({"id": "gzip", "level": level}),
            Self::Zlib { level } => json!({"id": "zlib", "level": level}),
            Self::Zstd { level, checksum: false } => json!({"id": "zstd", "level": level}),
            Self::Zstd { level, checksum } => json!({"id": "zstd", "level": level, "checksum": checksum}),
            Self::Blosc { cname, clevel, shuffle, blocksize, .. } => {
                json!({"id": "blosc", "cname": cname, "clevel": clevel, "shuffle": shuffle, "blocksize": blocksize})
            }
            Self::Shuffle { element_size } => json!({"id": "shuffle", "elementsize": element_size}),
            Self::Fletcher32 => json!({"id": "fletcher32"}),
            Self::Bz2 { level } => json!({"id": "bz2", "level": level}),
            Self::Lzma { format } => {
                json!({"id": "lzma", "format": format, "check": -1, "preset": null, "filters": null})
            }
            Self::Lzw => json!({"id": "imagecodecs_lzw"}),
            Self::PackBits => json!({"id": "imagecodecs_packbits"}),
            Self::Lzf => json!({"id": "imagecodecs_lzf", "header": false}),
            Self::BitOrder => json!({"id": "imagecodecs_bitorder"}),
            Self::Hdf5Lz4 => json!({"id": "imagecodecs_lz4h5"}),
            Self::Hdf5Szip(client_data) => with_id("imagecodecs_szip", &self.szip(client_data, "v2")?),
            Self::Foreign { spelled, format: ZarrFormat::V2, .. } => spelled.clone(),
            Self::Transpose { .. }
            | Self::ReversedBytes { .. }
            | Self::Foreign { .. }
            | Self::ScaleOffset { .. }
            | Self::CastValue { .. }
            | Self::Bytes { .. }
            | Self::Hdf5Nbit(_)
            | Self::Hdf5ScaleOffset(_)
            | Self::Hdf5Bitshuffle(_)
            | Self::Tiff(_) => return Err(self.nameless("v2")),
        })
    }

    /// The codec as an entry of `codecs` of a Zarr v3 array.
    ///
    /// # Errors
    /// Where v3 has no name for it.
    pub fn to_v3(&self) -> Result<Value, CodecError> {
        Ok(match self {
            Self::Transpose { order } => named("transpose", json!({"order": order})),
            Self::Delta { axis, .. } => named("imagecodecs_delta", json!({"axis": axis, "dist": 1})),
            Self::FloatPredictor { axis, .. } => {
                named("imagecodecs_floatpred", json!({"axis": axis, "dist": 1}))
            }
            Self::PackBitsOfIntegers { bits_per_sample, run_length, .. } => {
                named("imagecodecs_packints", json!({"bitspersample": bits_per_sample, "runlen": run_length}))
            }
            Self::ReversedBytes { dtype } => {
                named("numcodecs.astype", json!({"encode_dtype": dtype, "decode_dtype": native(dtype)}))
            }
            Self::ScaleOffset { offset, scale } => scale_offset(offset.as_ref(), scale.as_ref()),
            Self::CastValue { data_type, rounding, out_of_range, scalar_map } => {
                cast_value::to_v3(data_type, *rounding, *out_of_range, scalar_map)?
            }
            Self::Bytes { endian: None } => json!({"name": "bytes"}),
            Self::Bytes { endian: Some(Endian::Little) } => named("bytes", json!({"endian": "little"})),
            Self::Bytes { endian: Some(Endian::Big) } => named("bytes", json!({"endian": "big"})),
            Self::VlenUtf8 => json!({"name": "vlen-utf8"}),
            Self::VlenBytes => json!({"name": "vlen-bytes"}),
            Self::Image { name, configuration } | Self::Named { name, configuration } => {
                let known = client_codecs::entry_of(self).ok_or_else(|| self.nameless("v3"))?;
                named(name, known.in_v3(configuration))
            }
            Self::Gzip { level } => named("gzip", json!({"level": level})),
            Self::Zlib { level } => named("numcodecs.zlib", json!({"level": level})),
            Self::Zstd { level, checksum } => named("zstd", json!({"level": level, "checksum": checksum})),
            Self::Blosc { .. } => self.blosc_v3(),
            Self::Shuffle { element_size } => {
                named("numcodecs.shuffle", json!({"elementsize": element_size}))
            }
            Self::Fletcher32 => named("numcodecs.fletcher32", json!({})),
            Self::Bz2 { level } => named("numcodecs.bz2", json!({"level": level})),
            Self::Lzma { format } => named(
                "numcodecs.lzma",
                json!({"format": format, "check": -1, "preset": null, "filters": null}),
            ),
            Self::Lzw => json!({"name": "imagecodecs_lzw"}),
            Self::PackBits => json!({"name": "imagecodecs_packbits"}),
            Self::Lzf => named("imagecodecs_lzf", json!({"header": false})),
            Self::BitOrder => json!({"name": "imagecodecs_bitorder"}),
            Self::Hdf5Lz4 => json!({"name": "imagecodecs_lz4h5"}),
            Self::Hdf5Szip(client_data) => {
                named("imagecodecs_szip", Value::Object(self.szip(client_data, "v3")?))
            }
            Self::Foreign { spelled, format: ZarrFormat::V3, .. } => spelled.clone(),
            Self::Foreign { .. }
            | Self::Blosc2Nd
            | Self::Hdf5Nbit(_)
            | Self::Hdf5ScaleOffset(_)
            | Self::Hdf5Bitshuffle(_)
            | Self::Tiff(_) => {
                return Err(self.nameless("v3"));
            }
        })
    }

    /// What it does, in words for a message.
    pub fn describe(&self) -> String {
        match self {
            Self::Transpose { order } => format!("a transposition of axes to {order:?}"),
            Self::ScaleOffset { .. } => "a scale and offset".to_owned(),
            Self::CastValue { data_type, .. } => format!("a cast to {data_type}"),
            Self::Bytes { .. } | Self::ReversedBytes { .. } => "a byte order".to_owned(),
            Self::Blosc2Nd => "Blosc 2 with an n-dimensional layer".to_owned(),
            Self::BitOrder => "a reversed bit order".to_owned(),
            Self::Hdf5Nbit(_) => "the HDF5 filter nbit".to_owned(),
            Self::Hdf5ScaleOffset(_) => "the HDF5 filter scale-offset".to_owned(),
            Self::Tiff(scheme) => scheme.describe().to_owned(),
            Self::Hdf5Bitshuffle(_) => "the HDF5 filter bitshuffle".to_owned(),
            Self::Hdf5Szip(_) => "the HDF5 filter szip".to_owned(),
            Self::Foreign { spelled, .. } => {
                let name = spelled.get("id").or_else(|| spelled.get("name")).and_then(Value::as_str);
                name.map_or_else(|| spelled.to_string(), str::to_owned)
            }
            Self::Image { name, .. } | Self::Named { name, .. } => (*name).to_owned(),
            other => other
                .to_v2()
                .ok()
                .and_then(|v2| v2.get("id")?.as_str().map(str::to_owned))
                .unwrap_or_default(),
        }
    }

    pub(crate) fn nameless(&self, format: &'static str) -> CodecError {
        CodecError { codec: self.describe(), format }
    }

    fn szip(&self, client_data: &[u32], format: &'static str) -> Result<Map<String, Value>, CodecError> {
        let names = ["options_mask", "pixels_per_block", "bits_per_pixel", "pixels_per_scanline"];
        if client_data.len() < names.len() {
            return Err(self.nameless(format));
        }
        let mut configuration: Map<_, _> = names
            .iter()
            .zip(client_data)
            .map(|(name, value)| ((*name).to_owned(), (*value).into()))
            .collect();
        configuration.insert("header".to_owned(), true.into());
        Ok(configuration)
    }

    fn blosc_v3(&self) -> Value {
        let Self::Blosc { cname, clevel, shuffle, typesize, blocksize } = self else { return Value::Null };
        let shuffle = match shuffle {
            0 => "noshuffle",
            1 => "shuffle",
            _ => "bitshuffle",
        };
        named(
            "blosc",
            json!({"cname": cname, "clevel": clevel, "shuffle": shuffle, "typesize": typesize, "blocksize": blocksize}),
        )
    }
}

/// The same type in the byte order of machines.
pub(crate) fn native(dtype: &str) -> String {
    dtype.replace('>', "<")
}

fn named(name: &str, configuration: Value) -> Value {
    json!({"name": name, "configuration": configuration})
}

fn with_id(id: &str, configuration: &Map<String, Value>) -> Value {
    let mut all = configuration.clone();
    all.insert("id".to_owned(), id.into());
    Value::Object(all)
}

fn scale_offset(offset: Option<&Value>, scale: Option<&Value>) -> Value {
    let given = [("offset", offset), ("scale", scale)];
    let configuration: Map<String, Value> =
        given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.clone()))).collect();
    if configuration.is_empty() {
        json!({"name": "scale_offset"})
    } else {
        named("scale_offset", Value::Object(configuration))
    }
}
