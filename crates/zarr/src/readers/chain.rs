//! The codecs of an array as a reader meets them: by name.

use serde_json::Value;

use super::Need;
use crate::{Array, MetadataError, ZarrFormat};

/// An array's metadata document, with what readers look for in it.
pub(super) struct Spelt {
    pub(super) format: ZarrFormat,
    pub(super) codecs: Vec<NamedCodec>,
    /// `fill_value`.
    pub(super) fill_value: Value,
    /// Whether some chunk is missing, so that the fill value is shown.
    pub(super) shows_fill: bool,
}

/// A codec's registered name, without `numcodecs.`, and its configuration.
pub(super) struct NamedCodec {
    pub(super) name: String,
    /// As it is written.
    pub(super) full_name: String,
    pub(super) configuration: Value,
    /// Whether v2 lists it as the compressor.
    pub(super) is_compressor: bool,
}

impl Spelt {
    pub(super) fn new(array: &Array, format: ZarrFormat) -> Result<Self, MetadataError> {
        let document = match format {
            ZarrFormat::V2 => array.to_zarray()?,
            ZarrFormat::V3 => array.to_zarr_json("")?,
        };
        let codecs = match format {
            ZarrFormat::V2 => codecs_v2(&document),
            ZarrFormat::V3 => list(&document, "codecs").map(codec_v3).collect(),
        };
        let all = array.chunk_grid.counts(&array.shape).iter().try_fold(1_u64, |all, n| all.checked_mul(*n));
        let shows_fill = all.is_none_or(|all| array.chunks.len() < all);
        Ok(Self {
            format,
            codecs,
            fill_value: document.get("fill_value").cloned().unwrap_or_default(),
            shows_fill,
        })
    }
}

fn list<'a>(document: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    document.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// `"order": "F"` is a transposition.
fn codecs_v2(document: &Value) -> Vec<NamedCodec> {
    let rank = list(document, "shape").count();
    let order = (document.get("order") == Some(&"F".into())).then(|| NamedCodec {
        name: "transpose".to_owned(),
        full_name: "order F".to_owned(),
        configuration: serde_json::json!({"order": (0..rank).rev().collect::<Vec<_>>()}),
        is_compressor: false,
    });
    let filters = list(document, "filters").map(|filter| codec_v2(filter, false));
    let compressor = document.get("compressor").filter(|value| !value.is_null());
    order.into_iter().chain(filters).chain(compressor.map(|value| codec_v2(value, true))).collect()
}

fn codec_v2(codec: &Value, is_compressor: bool) -> NamedCodec {
    let name = codec.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    NamedCodec { full_name: name.clone(), name, configuration: codec.clone(), is_compressor }
}

fn codec_v3(codec: &Value) -> NamedCodec {
    let full_name = codec.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = full_name.strip_prefix("numcodecs.").unwrap_or(&full_name).to_owned();
    let configuration = codec.get("configuration").cloned().unwrap_or_default();
    NamedCodec { name, full_name, configuration, is_compressor: false }
}

impl NamedCodec {
    /// What zarr-python needs for it; `Err` where nothing helps.
    pub(super) fn for_zarr_python(&self, format: ZarrFormat) -> Result<Option<Need>, String> {
        const CORE: [&str; 8] =
            ["bytes", "gzip", "zstd", "blosc", "transpose", "vlen-utf8", "vlen-bytes", "scale_offset"];
        if self.name.starts_with("imagecodecs_") {
            return Ok(Some(Need::Imagecodecs));
        }
        match format {
            // Zarr v2 *is* numcodecs' codecs.
            ZarrFormat::V2 => Ok(None),
            ZarrFormat::V3 if self.full_name.starts_with("numcodecs.") => Ok(Some(Need::Numcodecs)),
            ZarrFormat::V3 if self.name == "cast_value" => Ok(Some(Need::CastValueRs)),
            ZarrFormat::V3 if CORE.contains(&self.name.as_str()) => Ok(None),
            ZarrFormat::V3 => Err(self.full_name.clone()),
        }
    }

    pub(super) fn for_zarrs(&self) -> Result<(), String> {
        const KNOWN: [&str; 11] = [
            "bytes",
            "gzip",
            "zlib",
            "zstd",
            "blosc",
            "bz2",
            "shuffle",
            "fletcher32",
            "transpose",
            "vlen-utf8",
            "vlen-bytes",
        ];
        self.among(&KNOWN)
    }

    /// `element_size` is that of the array, which zarrita takes for that of its shuffle.
    pub(super) fn for_zarrita(&self, element_size: Option<u64>) -> Result<(), String> {
        const KNOWN: [&str; 10] = [
            "bytes",
            "gzip",
            "zlib",
            "zstd",
            "blosc",
            "shuffle",
            "transpose",
            "vlen-utf8",
            "scale_offset",
            "cast_value",
        ];
        self.among(&KNOWN)?;
        let said = self.configuration.get("elementsize").and_then(Value::as_u64);
        match self.name == "shuffle" && said != element_size {
            true => Err(format!("{} of another element size than the array's", self.full_name)),
            false => Ok(()),
        }
    }

    pub(super) fn for_gdal(&self, format: ZarrFormat) -> Result<(), String> {
        match format {
            ZarrFormat::V2 if self.is_compressor => self.among(&["zlib", "gzip", "zstd", "lzma", "blosc"]),
            ZarrFormat::V2 => self.among(&["shuffle", "transpose"]),
            ZarrFormat::V3 if self.full_name == "transpose" && !self.is_involution() => {
                Err("transpose of more than two axes in turn".to_owned())
            }
            // It knows core codecs only.
            ZarrFormat::V3 if self.full_name.starts_with("numcodecs.") => Err(self.full_name.clone()),
            ZarrFormat::V3 => self.among(&["bytes", "gzip", "zstd", "blosc", "transpose"]),
        }
    }

    fn among(&self, known: &[&str]) -> Result<(), String> {
        if !known.contains(&self.name.as_str()) {
            return Err(self.full_name.clone());
        }
        match self.configuration.get("cname").and_then(Value::as_str) {
            Some("snappy") => Err(format!("{} with snappy", self.full_name)),
            _ => Ok(()),
        }
    }

    /// Whether a transposition is its own inverse: GDAL mistakes others for their inverse.
    fn is_involution(&self) -> bool {
        let order: Vec<_> = list(&self.configuration, "order").filter_map(Value::as_u64).collect();
        let step = |axis: u64| usize::try_from(axis).ok().and_then(|axis| order.get(axis)).copied();
        (0..).zip(&order).all(|(axis, to)| step(*to) == Some(axis))
    }
}
