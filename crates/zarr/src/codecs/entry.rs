//! Entries of single codecs in metadata documents.

use std::collections::BTreeMap;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned, de::Error as _, ser::Error as _,
};
use serde_json::{Map, Value, json};

use super::{Codec, CodecError, Implementation, TiffScheme, chain::parse_v3, hdf5};
use crate::{DataType, Endian, ZarrFormat};

/// Prefix of the names of the Python package `virtualize`.
const PACKAGE_PREFIX: &str = "virtualize.";
/// Names of the codecs that the Python package `virtualize` registers.
pub(crate) const PACKAGE: [&str; 25] = [
    "virtualize.delta",
    "virtualize.floatpred",
    "virtualize.packints",
    "virtualize.complexints",
    "virtualize.jpegls",
    "virtualize.blosc2",
    "virtualize.shuffle",
    "virtualize.lzw",
    "virtualize.packbits",
    "virtualize.lzf",
    "virtualize.bitorder",
    "virtualize.lz4",
    "virtualize.szip",
    "virtualize.lzo",
    "virtualize.nbit",
    "virtualize.scaleoffset",
    "virtualize.bitshuffle",
    "virtualize.zfp",
    "virtualize.sperr",
    "virtualize.sz",
    "virtualize.sz3",
    "virtualize.integers",
    "virtualize.lerc",
    "virtualize.optional",
    "virtualize.tiff",
];
/// Prefix of numcodecs' names in v3. v2 uses the bare names.
const NUMCODECS_PREFIX: &str = "numcodecs.";
/// Prefix of the fax codecs of imagecodecs.
pub(super) const FAX: &str = "imagecodecs_ccitt";

/// Image codecs of imagecodecs, which differ in name and configuration only. No other name is written or parsed as
/// [`Codec::Image`]. `imagecodecs_sperr` and `imagecodecs_sz3` are not listed on purpose: decoding needs the chunk's
/// shape, which only their classes for Zarr v2 take, so neither format can express what the other does.
///
/// Decoding was tested with imagecodecs, and is exact where the format is lossless. `imagecodecs_jpeg` takes `tables`
/// (base64 of a JPEGTables tag), `colorspace_jpeg` and `colorspace_data` (`RGB`, `YCbCr`, …); `imagecodecs_lerc` has
/// [`Codec::Zlib`] or [`Codec::Zstd`] after it where TIFF compresses the blob again.
pub(super) const IMAGES: [&str; 12] = [
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

/// Filters of numcodecs that decode to what they stored.
pub(super) const ROUNDED: [&str; 2] = ["bitround", "quantize"];
/// Checksums of numcodecs.
pub(super) const CHECKSUMS: [&str; 3] = ["crc32c", "crc32", "adler32"];
/// Types of numbers that filters of numcodecs take, as NumPy strings.
const NUMBERS: [&str; 18] = [
    "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8", ">i2", ">u2", ">i4", ">u4", ">i8",
    ">u8", ">f4", ">f8",
];

/// Compressors of Blosc.
pub(super) const BLOSC: [&str; 6] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];
/// v3's names of the values 0, 1 and 2 of Blosc's `shuffle`.
const SHUFFLES: [&str; 3] = ["noshuffle", "shuffle", "bitshuffle"];
/// Types of the parts of complex numbers: as they are stored, and in the array.
pub(super) const PARTS: [(&str, &str); 4] = [("<i2", "<f4"), (">i2", ">f4"), ("<i4", "<f8"), (">i4", ">f8")];

/// A name of a closed list. An alias, as serde would borrow a reference from the document.
pub(super) type Name = &'static str;

pub(super) fn numpy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
    const NAMES: [&str; 12] =
        ["|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8", ">i2", ">i4"];
    let name = String::deserialize(deserializer)?;
    NAMES.into_iter().find(|known| *known == name).ok_or_else(|| D::Error::custom("unknown data type"))
}

/// Rows along which a predictor runs: all that a decoder needs of axis and shape.
pub(super) mod predictor {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Rows {
        dtype: String,
        /// Elements along the axis.
        length: u64,
        /// Distance in elements between neighbours along the axis.
        stride: u64,
    }

    pub(in super::super) fn serialize<S: Serializer>(
        axis: &isize,
        dtype: &str,
        shape: &[u64],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let rows = || {
            let at = if *axis < 0 {
                shape.len().checked_add_signed(*axis)?
            } else {
                usize::try_from(*axis).ok()?
            };
            let (length, inner) = shape.get(at..)?.split_first()?;
            let stride = inner.iter().try_fold(1_u64, |stride, n| stride.checked_mul(*n))?;
            Some(Rows { dtype: dtype.to_owned(), length: *length, stride })
        };
        rows().ok_or_else(|| S::Error::custom("axis out of range"))?.serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<(isize, String, Vec<u64>), D::Error> {
        let Rows { dtype, length, stride } = Rows::deserialize(deserializer)?;
        Ok((-2, dtype, vec![length, stride]))
    }
}

/// Codecs in [`Codec::Optional`], as entries of Zarr v3. All have the same names in both formats.
pub(super) mod nested {
    use super::*;

    /// Maximum number of codecs in one.
    const MAX_CODECS: usize = 16;

    pub(in super::super) fn serialize<S: Serializer>(
        codecs: &[Codec],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let entries: Result<Vec<_>, _> = codecs.iter().map(Codec::to_v3).collect();
        entries.map_err(S::Error::custom)?.serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Codec>, D::Error> {
        let entries = Vec::<Value>::deserialize(deserializer)?;
        let is_optional =
            |codec: &Codec| matches!(codec, Codec::Own(inner) if matches!(**inner, Codec::Optional { .. }));
        let is_usable = |codec: &Codec| {
            codec.is_bytes_to_bytes() && codec.implementation() != Implementation::None && !is_optional(codec)
        };
        if entries.len() > MAX_CODECS {
            return Err(D::Error::custom("too many codecs"));
        }
        let codecs: Vec<_> = entries.iter().map(|entry| parse_v3(entry, &DataType::UInt8, true)).collect();
        if codecs.iter().all(is_usable) { Ok(codecs) } else { Err(D::Error::custom("codec not supported")) }
    }
}

/// Returns the name and members of a codec's serde representation.
fn represent(codec: &Codec) -> Option<(String, Map<String, Value>)> {
    match serde_json::to_value(codec).ok()? {
        Value::String(name) => Some((name, Map::new())),
        Value::Object(entry) => {
            let (name, members) = entry.into_iter().next()?;
            Some((name, members.as_object().cloned().unwrap_or_default()))
        }
        _ => None,
    }
}

/// Parses a serde representation.
fn interpret(name: &str, members: &Map<String, Value>) -> Option<Codec> {
    let with_members = serde_json::from_value(json!({ name: members }));
    with_members.or_else(|_| serde_json::from_value(name.into())).ok()
}

fn members_as<T: DeserializeOwned>(members: &Map<String, Value>) -> Option<T> {
    serde_json::from_value(Value::Object(members.clone())).ok()
}

/// Returns the parameters of numcodecs that an entry may omit, and their defaults.
fn defaults(name: &str) -> Map<String, Value> {
    let defaults = match name {
        "bz2" | "gzip" | "zlib" => json!({"level": 1}),
        "zstd" => json!({"level": 0}),
        "lz4" => json!({"acceleration": 1}),
        "lzma" => json!({"format": 1}),
        "blosc" => json!({"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}),
        _ => Value::Null,
    };
    defaults.as_object().cloned().unwrap_or_default()
}

impl Codec {
    /// Returns the codec as an entry of `filters` or as the `compressor` of a Zarr v2 array.
    ///
    /// # Errors
    /// Codecs that v2 has no name for, and [`Codec::Bytes`], [`Codec::ReversedBytes`] and [`Codec::Transpose`], which
    /// v2 expresses by other members of the document.
    pub fn to_v2(&self) -> Result<Value, CodecError> {
        if let Self::Foreign { entry, format: ZarrFormat::V2, .. } = self {
            return Ok(entry.clone());
        }
        let (name, configuration) = self.encoded(ZarrFormat::V2)?;
        let mut entry = configuration.unwrap_or_default();
        entry.insert("id".to_owned(), name.into());
        Ok(Value::Object(entry))
    }

    /// Returns the codec as an entry of `codecs` of a Zarr v3 array.
    ///
    /// # Errors
    /// Codecs that v3 has no name for.
    pub fn to_v3(&self) -> Result<Value, CodecError> {
        if let Self::Foreign { entry, format: ZarrFormat::V3, .. } = self {
            return Ok(entry.clone());
        }
        let (name, configuration) = self.encoded(ZarrFormat::V3)?;
        let mut entry = Map::new();
        entry.insert("name".to_owned(), name.into());
        if let Some(configuration) = configuration {
            entry.insert("configuration".to_owned(), configuration.into());
        }
        Ok(Value::Object(entry))
    }

    /// Returns the name as a format spells it, and the configuration: `None` where v3's entry has no such member.
    fn encoded(&self, format: ZarrFormat) -> Result<(String, Option<Map<String, Value>>), CodecError> {
        let configuration = self.configuration(format).ok_or_else(|| self.unsupported(format))?;
        let name = self.name().ok_or_else(|| self.unsupported(format))?;
        let is_prefixed = format == ZarrFormat::V3 && self.properties().is_numcodecs;
        let name = if is_prefixed { format!("{NUMCODECS_PREFIX}{name}") } else { name.to_owned() };
        Ok((name, if let Value::Object(members) = configuration { Some(members) } else { None }))
    }

    pub(crate) fn unsupported(&self, format: ZarrFormat) -> CodecError {
        CodecError::new(self.describe(), format)
    }

    /// Returns the registered name, without the prefix `numcodecs.`; `None` for codecs that no format can express, and
    /// for [`Codec::Foreign`].
    pub fn name(&self) -> Option<&'static str> {
        match self {
            Self::Own(codec) => {
                let (name, _) = represent(codec)?;
                PACKAGE.into_iter().find(|known| *known == name)
            }
            released => released.properties().name,
        }
    }

    /// Returns the configuration: an object, or `Null` where v3's entry has no member `configuration`. `None` where the
    /// format cannot express it.
    fn configuration(&self, format: ZarrFormat) -> Option<Value> {
        use ZarrFormat::{V2, V3};
        let represented = |codec: &Self| {
            let (_, members) = represent(codec)?;
            Some(if members.is_empty() { Value::Null } else { Value::Object(members) })
        };
        Some(match (self, format) {
            (Self::Own(codec), _) => represented(codec)?,
            (
                Self::Transpose { .. }
                | Self::Bytes { .. }
                | Self::ScaleOffset { .. }
                | Self::CastValue { .. }
                | Self::Zstd { .. },
                V3,
            )
            | (
                Self::Gzip { .. }
                | Self::Zlib { .. }
                | Self::Bz2 { .. }
                | Self::Lz4 { .. }
                | Self::VlenUtf8
                | Self::VlenBytes
                | Self::Zstd { checksum: true, .. },
                _,
            ) => represented(self)?,
            (Self::Lzw | Self::PackBits | Self::BitOrder | Self::Hdf5Lz4 | Self::JpegLs { .. }, _)
            | (Self::Blosc2, V2) => Value::Null,
            (Self::Zstd { level, .. }, V2) => json!({"level": level}),
            (Self::Delta { axis, dtype, shape } | Self::FloatPredictor { axis, dtype, shape }, V2) => {
                json!({"shape": shape, "dtype": dtype, "axis": axis, "dist": 1})
            }
            (Self::Delta { axis, .. } | Self::FloatPredictor { axis, .. }, V3) => {
                json!({"axis": axis, "dist": 1})
            }
            (Self::PackBitsOfIntegers { bits_per_sample, run_length, dtype }, V2) => {
                json!({"dtype": dtype, "bitspersample": bits_per_sample, "runlen": run_length})
            }
            (Self::PackBitsOfIntegers { bits_per_sample, run_length, .. }, V3) => {
                json!({"bitspersample": bits_per_sample, "runlen": run_length})
            }
            (Self::ReversedBytes { dtype }, V3) => {
                json!({"encode_dtype": dtype, "decode_dtype": dtype.replace('>', "<")})
            }
            (Self::ComplexIntegers { dtype }, V2) => {
                let (stored, decoded) = PARTS.iter().find(|(stored, _)| stored == dtype)?;
                json!({"encode_dtype": stored, "decode_dtype": decoded})
            }
            (Self::Image { name, configuration }, _) => {
                IMAGES.contains(name).then_some(())?;
                // Classes for Zarr v3 take the size from the chunk, and reject it in the configuration.
                let v2_only: &[&str] = match *name {
                    "imagecodecs_zfp" => &["shape", "dtype", "strides"],
                    fax if fax.starts_with(FAX) => &["height", "width"],
                    _ => &[],
                };
                let mut members = configuration.clone();
                members.retain(|member, _| format == V2 || !v2_only.contains(&member.as_str()));
                Value::Object(members)
            }
            (Self::Blosc { cname, clevel, shuffle, blocksize, .. }, V2) => {
                json!({"cname": cname, "clevel": clevel, "blocksize": blocksize, "shuffle": shuffle})
            }
            (Self::Blosc { cname, clevel, shuffle, typesize, blocksize }, V3) => {
                let shuffle = SHUFFLES.get(usize::from(*shuffle)).copied().unwrap_or("bitshuffle");
                json!({
                    "cname": cname, "clevel": clevel, "blocksize": blocksize, "shuffle": shuffle,
                    "typesize": typesize,
                })
            }
            (Self::Shuffle { element_size }, _) => json!({"elementsize": element_size}),
            (Self::Fletcher32 | Self::PackedBools, _) => json!({}),
            (Self::Rounded { configuration, .. }, V2) => Value::Object(configuration.clone()),
            (Self::Rounded { configuration, .. }, V3) => {
                // Arrays of Zarr v3 are in native byte order when their codecs see them.
                let mut members = configuration.clone();
                for member in ["dtype", "astype"] {
                    if let Some(Value::String(dtype)) = members.get_mut(member) {
                        *dtype = dtype.replace('>', "<");
                    }
                }
                Value::Object(members)
            }
            (Self::Difference { dtype }, _) => {
                (format == V2 || !dtype.starts_with('>')).then(|| json!({"dtype": dtype, "astype": dtype}))?
            }
            (Self::FixedScaleOffset { offset, scale, dtype, astype }, _) => {
                let is_native = ![dtype, astype].iter().any(|dtype| dtype.starts_with('>'));
                (format == V2 || is_native)
                    .then(|| json!({"offset": offset, "scale": scale, "dtype": dtype, "astype": astype}))?
            }
            (Self::Checksum { name: "crc32c", is_at_end }, V3) => is_at_end.then_some(Value::Null)?,
            (Self::Checksum { is_at_end, .. }, _) => {
                json!({"location": if *is_at_end { "end" } else { "start" }})
            }
            (Self::Lzma { format }, _) => {
                json!({"format": format, "check": -1, "preset": null, "filters": null})
            }
            (Self::Lzf, _) => json!({"header": false}),
            (Self::Hdf5Szip(_), _) => {
                let (_, mut members) = represent(self)?;
                members.insert("header".to_owned(), true.into());
                Value::Object(members)
            }
            (Self::Lzo { configuration }, _) => Value::Object(configuration.clone()),
            _ => return None,
        })
    }

    /// Parses an entry under a name without the prefix `numcodecs.`. `data_type` is the type of the array's elements.
    fn parse_released(
        name: &str,
        members: &Map<String, Value>,
        format: ZarrFormat,
        data_type: &DataType,
    ) -> Option<Self> {
        let text = |member: &str| members.get(member)?.as_str();
        let number = |member: &str| members.get(member)?.as_i64();
        let known = |all: &[Name], member: &str| {
            let found = text(member)?;
            all.iter().copied().find(|known| *known == found)
        };
        Some(match name {
            "bitround" | "quantize" => {
                let same =
                    |member: &str| members.get(member).is_none_or(|it| Some(it) == members.get("dtype"));
                let native = data_type.to_v2(Endian::Little).ok();
                let native = native.as_ref().and_then(Value::as_str).unwrap_or_default();
                let is_native =
                    |dtype: &str| dtype.get(1..) == native.get(1..) || dtype == data_type.to_string();
                if !same("astype") || text("dtype").is_some_and(|dtype| !is_native(dtype)) {
                    return None;
                }
                let name = ROUNDED.into_iter().find(|known| *known == name)?;
                Self::Rounded { name, configuration: members.clone() }
            }
            "delta" => {
                let dtype = known(&NUMBERS, "dtype").filter(|dtype| !dtype.contains('f'))?;
                known(&[dtype], "astype")?;
                Self::Difference { dtype }
            }
            "packbits" => Self::PackedBools,
            "fixedscaleoffset" => Self::FixedScaleOffset {
                offset: members.get("offset")?.as_f64()?,
                scale: members.get("scale")?.as_f64()?,
                dtype: known(&NUMBERS, "dtype").filter(|dtype| dtype.contains('f'))?,
                astype: known(&NUMBERS, "astype")?,
            },
            "crc32c" | "crc32" | "adler32" => Self::Checksum {
                name: CHECKSUMS.into_iter().find(|known| *known == name)?,
                is_at_end: match text("location") {
                    None => name == "crc32c",
                    Some("end") => true,
                    Some("start") => false,
                    Some(_) => return None,
                },
            },
            "imagecodecs_delta" | "imagecodecs_floatpred" => {
                #[derive(Deserialize)]
                struct Predictor {
                    axis: isize,
                    dist: Option<u64>,
                    #[serde(default)]
                    dtype: String,
                    #[serde(default)]
                    shape: Vec<u64>,
                }
                let Predictor { axis, dist, mut dtype, mut shape } = members_as(members)?;
                if format == ZarrFormat::V3 {
                    dtype = data_type.to_v2(Endian::Little).ok()?.as_str()?.to_owned();
                    shape = Vec::new();
                }
                match dist {
                    None | Some(1) if name == "imagecodecs_delta" => Self::Delta { axis, dtype, shape },
                    None | Some(1) => Self::FloatPredictor { axis, dtype, shape },
                    Some(_) => return None,
                }
            }
            "imagecodecs_packints" => Self::PackBitsOfIntegers {
                bits_per_sample: number("bitspersample")?.try_into().ok()?,
                run_length: number("runlen")?.try_into().ok()?,
                dtype: text("dtype").unwrap_or_default().to_owned(),
            },
            "astype" if format == ZarrFormat::V2 => {
                let dtype = text("encode_dtype").filter(|_| data_type.is_complex())?;
                Self::ComplexIntegers { dtype: PARTS.iter().find(|(stored, _)| *stored == dtype)?.0 }
            }
            "astype" => Self::ReversedBytes {
                dtype: text("encode_dtype").filter(|dtype| dtype.starts_with('>'))?.to_owned(),
            },
            "imagecodecs_jpegls" => Self::JpegLs { by_pixel: true },
            "imagecodecs_b2nd" => Self::Blosc2,
            "imagecodecs_lzw" => Self::Lzw,
            "imagecodecs_packbits" => Self::PackBits,
            "imagecodecs_lzf" => Self::Lzf,
            "imagecodecs_bitorder" => Self::BitOrder,
            "imagecodecs_lz4h5" => Self::Hdf5Lz4,
            "imagecodecs_szip" => {
                let parameters: hdf5::Szip = members_as(members)?;
                Self::Hdf5Szip(hdf5::Parameters::to_client_data(&parameters)?)
            }
            "imagecodecs_lzo" => Self::Lzo { configuration: members.clone() },
            "shuffle" => Self::Shuffle { element_size: number("elementsize")?.try_into().ok()? },
            "lzma" => Self::Lzma { format: number("format")?.try_into().ok()? },
            "blosc" => {
                let (shuffle, typesize) = match format {
                    // The element size is that of the array. -1 shuffles bits of one-byte elements, bytes of others.
                    ZarrFormat::V2 => {
                        let size = u32::try_from(data_type.size().unwrap_or(1)).ok()?.max(1);
                        let shuffle = match number("shuffle")? {
                            -1 if size == 1 => 2,
                            -1 => 1,
                            shuffle => u8::try_from(shuffle).ok().filter(|shuffle| *shuffle <= 2)?,
                        };
                        (shuffle, size)
                    }
                    ZarrFormat::V3 => {
                        let shuffle = text("shuffle")?;
                        let shuffle = SHUFFLES.iter().position(|known| *known == shuffle)?;
                        let typesize = u32::try_from(number("typesize")?).ok().filter(|size| *size > 0)?;
                        (u8::try_from(shuffle).ok()?, typesize)
                    }
                };
                let cname = text("cname")?;
                Self::Blosc {
                    cname: BLOSC.into_iter().find(|known| *known == cname)?,
                    clevel: number("clevel")?.try_into().ok()?,
                    shuffle,
                    typesize,
                    blocksize: number("blocksize")?.try_into().ok()?,
                }
            }
            other => match IMAGES.into_iter().find(|known| *known == other) {
                Some(name) => Self::Image { name, configuration: members.clone() },
                None => interpret(other, members)?,
            },
        })
    }

    /// Parses the entry of a codec: its name, and its members in v2 or the `configuration` in v3. `None` where it would
    /// not be written again as it was.
    pub(super) fn parse(
        name: &str,
        members: &Map<String, Value>,
        format: ZarrFormat,
        data_type: &DataType,
    ) -> Option<Self> {
        let mut members = members.clone();
        members.remove("id");
        // Under these names, v3 has the members of v2.
        let aliased = name
            .strip_prefix(NUMCODECS_PREFIX)
            .filter(|bare| format == ZarrFormat::V3 && matches!(*bare, "blosc" | "gzip" | "zstd"));
        let member_format = if aliased.is_some() { ZarrFormat::V2 } else { format };
        let codec = if name.starts_with(PACKAGE_PREFIX) {
            members.retain(|_, value| !value.is_null());
            let codec = interpret(name, &members).filter(Self::is_valid)?;
            Self::Own(Box::new(codec))
        } else {
            let released = name.strip_prefix(NUMCODECS_PREFIX);
            let bare = released.unwrap_or(name);
            if format == ZarrFormat::V2 || released.is_some() {
                for (member, value) in defaults(bare) {
                    members.entry(member).or_insert(value);
                }
                if let Some(dtype) = members.get("dtype").filter(|_| bare == "delta").cloned() {
                    members.entry("astype").or_insert(dtype);
                }
            }
            Self::parse_released(bare, &members, member_format, data_type)?
        };
        // What only encoders use, or what has been checked.
        let unchecked: &[&str] = match codec {
            Self::Delta { .. } | Self::FloatPredictor { .. } => &["dist"],
            Self::PackBitsOfIntegers { .. } => &["dtype"],
            Self::JpegLs { .. } => &["level", "bitspersample", "transformation", "spiff"],
            Self::Zstd { .. } => &["checksum"],
            Self::Blosc { .. } => &["shuffle", "typesize"],
            Self::Lzma { .. } => &["check", "preset"],
            Self::Checksum { .. } => &["location"],
            Self::FixedScaleOffset { .. } => &["offset", "scale"],
            _ => &[],
        };
        let checked = |members: Map<String, Value>| -> BTreeMap<String, Value> {
            let is_checked =
                |(name, value): &(String, Value)| !value.is_null() && !unchecked.contains(&name.as_str());
            members.into_iter().filter(is_checked).collect()
        };
        let (written_name, written) = codec.encoded(member_format).ok()?;
        let is_same = checked(written.unwrap_or_default()) == checked(members);
        (written_name == aliased.unwrap_or(name) && is_same).then_some(codec)
    }

    /// Whether the parameters fit the codec, so that the Python package `virtualize` has a name for it.
    fn is_valid(&self) -> bool {
        match self {
            Self::JpegLs { by_pixel } => !by_pixel,
            Self::ComplexIntegers { dtype } => PARTS.iter().any(|(stored, _)| stored == dtype),
            Self::Zfp { dtype, .. } => hdf5::ZFP.contains(dtype),
            Self::Sperr { dtype, .. } | Self::Sz { dtype, .. } => hdf5::FLOATS.contains(dtype),
            Self::Sz3 { dtype } => hdf5::SZ3.contains(dtype),
            Self::Lerc { dtype, .. } => hdf5::LERC.contains(dtype),
            Self::Tiff(TiffScheme::Ycbcr { horizontal, vertical, .. }) => {
                [horizontal, vertical].into_iter().all(|block| matches!(block, 1 | 2 | 4))
            }
            _ => true,
        }
    }

    /// Returns the codec under its name in the Python package `virtualize`; `None` where it has none, or where the
    /// parameters make no sense. Parameters that only encoders use are dropped.
    pub fn own(&self) -> Option<Self> {
        let (name, members) = represent(self).filter(|_| self.is_valid())?;
        let codec = name.starts_with(PACKAGE_PREFIX).then(|| interpret(&name, &members))?;
        codec.filter(Self::is_valid).map(|codec| Self::Own(Box::new(codec)))
    }

    /// Returns a chain in which codecs that neither zarr-python nor numcodecs decodes in both Zarr formats have their
    /// names in the Python package `virtualize`, where they have one. All of them work on bytes, so that `bytes` moves
    /// before the first of them.
    pub fn own_chain(chain: Vec<Self>) -> Vec<Self> {
        let is_known = |codec: &Self| {
            let is_released = codec.properties().name.is_some_and(|name| !name.starts_with("imagecodecs_"));
            is_released && codec.configuration(ZarrFormat::V3).is_some()
        };
        let renamed = |codec: Self| if is_known(&codec) { codec } else { codec.own().unwrap_or(codec) };
        let mut chain: Vec<Self> = chain.into_iter().map(renamed).collect();
        let first = chain.iter().position(|codec| matches!(codec, Self::Own(_)));
        let bytes = chain.iter().position(|codec| matches!(codec, Self::Bytes { .. }));
        if let (Some(first), Some(bytes)) = (first, bytes)
            && first < bytes
        {
            let bytes = chain.remove(bytes);
            chain.insert(first, bytes);
        }
        chain
    }

    /// Returns the names of all codecs of the Python package `virtualize`.
    pub fn own_names() -> Vec<&'static str> {
        PACKAGE.to_vec()
    }

    /// Returns the codec that an entry of a Zarr v2 or v3 document names, if the Python package `virtualize` registers
    /// it: `{"id": "virtualize.lzf"}`, `{"name": "virtualize.lzf"}`.
    pub fn from_own(entry: &Value, format: ZarrFormat) -> Option<Self> {
        let (name, members) = match format {
            ZarrFormat::V2 => (entry.get("id"), Some(entry)),
            ZarrFormat::V3 => (entry.get("name"), entry.get("configuration")),
        };
        let nothing = Map::new();
        let members = members.map_or(Some(&nothing), Value::as_object)?;
        let codec = Self::parse(name?.as_str()?, members, format, &DataType::UInt8);
        codec.filter(|codec| matches!(codec, Self::Own(_)))
    }
}
