//! Codecs.

use serde_json::{Map, Value};

use super::{ReadError, none_or, wrong};
use crate::{
    Codec, DataType, Endian, ForeignKind, OutOfRange, Rounding, ScalarMap, ZarrFormat, client_codecs,
};

/// Most codecs of an array.
const CODECS: usize = 64;
const BLOSC: &[&str] = &["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];

/// `order`, `filters` and `compressor` of a Zarr v2 array.
pub(super) fn from_v2(
    zarray: &Value,
    data_type: &DataType,
    endian: Endian,
    axes: usize,
) -> Result<Vec<Codec>, ReadError> {
    let mut codecs = Vec::new();
    match zarray.get("order").and_then(Value::as_str) {
        Some("F") if axes > 1 => codecs.push(Codec::Transpose { order: (0..axes).rev().collect() }),
        None | Some("C" | "F") => {}
        Some(_) => return Err(wrong("order", "C or F", zarray.get("order").unwrap_or(&Value::Null))),
    }
    let filters = match zarray.get("filters") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(filters)) if filters.len() < CODECS => filters,
        Some(other) => return Err(wrong("filters", "a list of codecs", other)),
    };
    let compressor = zarray.get("compressor").filter(|compressor| !compressor.is_null());
    for (spelled, is_last) in
        filters.iter().map(|filter| (filter, false)).chain(compressor.map(|last| (last, true)))
    {
        let kind = if is_last { ForeignKind::BytesToBytes } else { ForeignKind::ArrayToArray };
        let size = data_type.size().unwrap_or(1);
        codecs.push(known_v2(spelled, size).unwrap_or_else(|| Codec::Foreign {
            spelled: spelled.clone(),
            format: ZarrFormat::V2,
            kind,
        }));
    }
    if !codecs.iter().any(Codec::is_array_to_bytes) {
        // Filters see the array until one sees bytes.
        let at = codecs.iter().position(Codec::is_bytes_to_bytes).unwrap_or(codecs.len());
        codecs.insert(at, Codec::Bytes { endian: none_or(endian, data_type) });
    } else if none_or(endian, data_type) == Some(Endian::Big)
        && let Some(at) = codecs.iter().position(|codec| matches!(codec, Codec::Image { .. }))
        && let Some(dtype) = zarray.get("dtype").and_then(Value::as_str)
    {
        codecs.insert(at, Codec::ReversedBytes { dtype: dtype.to_owned() });
    }
    Ok(codecs)
}

/// A codec that is spelled exactly as [`Codec::to_v2`] does, or with members more that change nothing.
fn known_v2(spelled: &Value, size: u64) -> Option<Codec> {
    let id = spelled.get("id")?.as_str()?;
    let codec = common(id, spelled).or_else(|| match id {
        "imagecodecs_delta" => Some(Codec::Delta {
            axis: axis(spelled)?,
            dtype: text(spelled, "dtype")?,
            shape: shape(spelled)?,
        }),
        "imagecodecs_floatpred" => Some(Codec::FloatPredictor {
            axis: axis(spelled)?,
            dtype: text(spelled, "dtype")?,
            shape: shape(spelled)?,
        }),
        "zlib" => Some(Codec::Zlib { level: level(spelled)? }),
        "zstd" => Some(Codec::Zstd {
            level: i32::try_from(spelled.get("level")?.as_i64()?).ok()?,
            checksum: spelled.get("checksum").and_then(Value::as_bool).unwrap_or(false),
        }),
        "blosc" => {
            let shuffle = match spelled.get("shuffle")?.as_i64()? {
                // "Automatic": by bits where elements are bytes.
                -1 => {
                    if size == 1 {
                        2
                    } else {
                        1
                    }
                }
                shuffle => u8::try_from(shuffle).ok().filter(|shuffle| *shuffle <= 2)?,
            };
            blosc(spelled, shuffle, u32::try_from(size).ok()?)
        }
        "shuffle" => Some(Codec::Shuffle { element_size: number(spelled, "elementsize")? }),
        "fletcher32" => Some(Codec::Fletcher32),
        "bz2" => Some(Codec::Bz2 { level: level(spelled)? }),
        "lzma" => lzma(spelled),
        "imagecodecs_b2nd" => Some(Codec::Blosc2Nd),
        _ => None,
    })?;
    let written = codec.to_v2().ok()?;
    let ignored = ["id", "checksum", "typesize", "shuffle", "check", "preset"];
    same_members(spelled, &written, &ignored).then_some(codec)
}

/// `codecs` of a Zarr v3 array.
pub(super) fn from_v3(codecs: &Value, data_type: &DataType) -> Result<Vec<Codec>, ReadError> {
    let list = codecs.as_array().filter(|list| (1..=CODECS).contains(&list.len()));
    let list = list.ok_or_else(|| wrong("codecs", "a list of codecs", codecs))?;
    let mut chain = Vec::with_capacity(list.len());
    for spelled in list {
        let made_bytes = chain.iter().any(makes_bytes);
        let codec = known_v3(spelled, data_type);
        chain.push(codec.unwrap_or_else(|| {
            let kind = if made_bytes { ForeignKind::BytesToBytes } else { ForeignKind::ArrayToArray };
            Codec::Foreign { spelled: spelled.clone(), format: ZarrFormat::V3, kind }
        }));
    }
    if !chain.iter().any(makes_bytes) {
        // The last one that is not known, such as `sharding_indexed`, has to be it.
        let foreign = chain.iter_mut().rev().find_map(|codec| match codec {
            Codec::Foreign { kind, .. } => Some(kind),
            _ => None,
        });
        *foreign.ok_or_else(|| wrong("codecs", "one that makes bytes of the array", codecs))? =
            ForeignKind::ArrayToBytes;
    }
    Ok(reorder_bits(chain))
}

fn makes_bytes(codec: &Codec) -> bool {
    codec.is_array_to_bytes()
        || matches!(codec, Codec::FloatPredictor { .. } | Codec::PackBitsOfIntegers { .. })
}

/// v3 has a reversal of bits before `bytes` only; here it stands behind.
fn reorder_bits(mut chain: Vec<Codec>) -> Vec<Codec> {
    let at = chain.windows(2).position(|pair| matches!(pair, [Codec::BitOrder, Codec::Bytes { .. }]));
    if let Some(at) = at {
        chain.swap(at, at + 1);
    }
    chain
}

fn known_v3(spelled: &Value, data_type: &DataType) -> Option<Codec> {
    let name = spelled.get("name").or(Some(spelled))?.as_str()?;
    let nothing = Value::Object(Map::new());
    let configuration = spelled.get("configuration").unwrap_or(&nothing);
    let dtype = || Some(data_type.to_v2(Endian::Little).ok()?.as_str()?.to_owned());
    let codec = common(name, configuration).or_else(|| match name {
        "transpose" => {
            let order = configuration.get("order")?.as_array()?.iter();
            Some(Codec::Transpose {
                order: order.map(|n| usize::try_from(n.as_u64()?).ok()).collect::<Option<_>>()?,
            })
        }
        "imagecodecs_delta" => {
            Some(Codec::Delta { axis: axis(configuration)?, dtype: dtype()?, shape: Vec::new() })
        }
        "imagecodecs_floatpred" => {
            Some(Codec::FloatPredictor { axis: axis(configuration)?, dtype: dtype()?, shape: Vec::new() })
        }
        "numcodecs.astype" => {
            let dtype = text(configuration, "encode_dtype").filter(|dtype| dtype.starts_with('>'))?;
            Some(Codec::ReversedBytes { dtype })
        }
        "scale_offset" => Some(Codec::ScaleOffset {
            offset: configuration.get("offset").cloned(),
            scale: configuration.get("scale").cloned(),
        }),
        "cast_value" => cast_value(configuration),
        "bytes" => Some(Codec::Bytes {
            endian: match configuration.get("endian").map(|endian| endian.as_str()) {
                None => None,
                Some(Some("little")) => Some(Endian::Little),
                Some(Some("big")) => Some(Endian::Big),
                Some(_) => return None,
            },
        }),
        "numcodecs.zlib" => Some(Codec::Zlib { level: level(configuration)? }),
        "zstd" | "numcodecs.zstd" => Some(Codec::Zstd {
            level: i32::try_from(configuration.get("level")?.as_i64()?).ok()?,
            checksum: configuration.get("checksum").and_then(Value::as_bool).unwrap_or(false),
        }),
        "blosc" => {
            let shuffle = ["noshuffle", "shuffle", "bitshuffle"];
            let said = configuration.get("shuffle")?.as_str()?;
            let shuffle = shuffle.iter().position(|name| *name == said)?;
            blosc(configuration, u8::try_from(shuffle).ok()?, number(configuration, "typesize")?)
        }
        "numcodecs.shuffle" => Some(Codec::Shuffle { element_size: number(configuration, "elementsize")? }),
        "numcodecs.fletcher32" => Some(Codec::Fletcher32),
        "numcodecs.bz2" => Some(Codec::Bz2 { level: level(configuration)? }),
        "numcodecs.lzma" => lzma(configuration),
        _ => None,
    })?;
    let written = codec.to_v3().ok()?;
    let written = written.get("configuration").unwrap_or(&nothing);
    same_members(configuration, written, &["checksum", "check", "preset"]).then_some(codec)
}

/// Codecs whose name and configuration are the same in both formats.
fn common(name: &str, configuration: &Value) -> Option<Codec> {
    if let Some(codec) = client_codecs::read(name, configuration) {
        return Some(codec);
    }
    Some(match name {
        "vlen-utf8" => Codec::VlenUtf8,
        "vlen-bytes" => Codec::VlenBytes,
        "gzip" => Codec::Gzip { level: level(configuration)? },
        "imagecodecs_packints" => Codec::PackBitsOfIntegers {
            bits_per_sample: u16::try_from(configuration.get("bitspersample")?.as_u64()?).ok()?,
            run_length: configuration.get("runlen")?.as_u64()?,
            dtype: text(configuration, "dtype").unwrap_or_default(),
        },
        "imagecodecs_lzw" => Codec::Lzw,
        "imagecodecs_packbits" => Codec::PackBits,
        "imagecodecs_lzf" => Codec::Lzf,
        "imagecodecs_bitorder" => Codec::BitOrder,
        "imagecodecs_lz4h5" => Codec::Hdf5Lz4,
        "imagecodecs_szip" => {
            let names = ["options_mask", "pixels_per_block", "bits_per_pixel", "pixels_per_scanline"];
            Codec::Hdf5Szip(names.iter().map(|name| number(configuration, name)).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

fn cast_value(configuration: &Value) -> Option<Codec> {
    let rounding = match configuration.get("rounding") {
        None => Rounding::default(),
        Some(name) => Rounding::ALL.into_iter().find(|mode| Some(mode.name()) == name.as_str())?,
    };
    let out_of_range = match configuration.get("out_of_range").map(|name| name.as_str()) {
        None => None,
        Some(Some("clamp")) => Some(OutOfRange::Clamp),
        Some(Some("wrap")) => Some(OutOfRange::Wrap),
        Some(_) => return None,
    };
    let map = configuration.get("scalar_map");
    let pairs = |name: &str| match map.and_then(|map| map.get(name)) {
        None => Some(Vec::new()),
        Some(pairs) => pairs
            .as_array()?
            .iter()
            .map(|pair| match pair.as_array()?.as_slice() {
                [from, to] => Some((from.clone(), to.clone())),
                _ => None,
            })
            .collect::<Option<Vec<_>>>(),
    };
    Some(Codec::CastValue {
        data_type: super::types::from_v3(configuration.get("data_type")?).ok()?,
        rounding,
        out_of_range,
        scalar_map: ScalarMap { encode: pairs("encode")?, decode: pairs("decode")? },
    })
}

fn blosc(configuration: &Value, shuffle: u8, typesize: u32) -> Option<Codec> {
    let said = configuration.get("cname")?.as_str()?;
    Some(Codec::Blosc {
        cname: BLOSC.iter().find(|name| **name == said)?,
        clevel: u8::try_from(configuration.get("clevel")?.as_u64()?).ok()?,
        shuffle,
        typesize: typesize.max(1),
        blocksize: number(configuration, "blocksize")?,
    })
}

fn lzma(configuration: &Value) -> Option<Codec> {
    let plain = configuration.get("filters").is_none_or(Value::is_null);
    let format = u8::try_from(configuration.get("format")?.as_u64()?).ok()?;
    plain.then_some(Codec::Lzma { format })
}

/// Whether both say the same but for some members, for `null`s, and for an old `dist` of 1.
fn same_members(one: &Value, other: &Value, ignored: &[&str]) -> bool {
    let said = |value: &Value| -> Map<String, Value> {
        let members = value.as_object().cloned().unwrap_or_default();
        members
            .into_iter()
            .filter(|(name, value)| !ignored.contains(&name.as_str()) && !value.is_null())
            .collect()
    };
    let (one, mut other) = (said(one), said(other));
    other.retain(|name, value| one.contains_key(name) || !is_default(name, value));
    one == other
}

/// Members that the model holds and a v3 document does not say.
fn is_default(name: &str, value: &Value) -> bool {
    matches!((name, value), ("dtype", Value::String(_)) | ("shape", Value::Array(_)))
        || (name == "dist" && value.as_u64() == Some(1))
}

fn level(configuration: &Value) -> Option<u8> {
    u8::try_from(configuration.get("level")?.as_u64()?).ok()
}

fn number(configuration: &Value, name: &str) -> Option<u32> {
    u32::try_from(configuration.get(name)?.as_u64()?).ok()
}

fn text(configuration: &Value, name: &str) -> Option<String> {
    Some(configuration.get(name)?.as_str()?.to_owned())
}

fn axis(configuration: &Value) -> Option<isize> {
    isize::try_from(configuration.get("axis")?.as_i64()?).ok()
}

fn shape(configuration: &Value) -> Option<Vec<u64>> {
    configuration.get("shape")?.as_array()?.iter().map(Value::as_u64).collect()
}
