//! Codecs of imagecodecs that the model knows by name and configuration alone. This list is the only one: what is not in it is
//! neither written nor read as [`Codec::Image`] or [`Codec::Named`].

use serde_json::{Map, Value};

use crate::Codec;

/// A codec by its registered name, which is the same in Zarr v2 and v3.
pub(crate) struct ClientCodec {
    name: &'static str,
    /// Whether it takes an array and gives bytes ([`Codec::Image`]), or takes bytes ([`Codec::Named`]).
    makes_bytes: bool,
    /// Members of its configuration that the class for Zarr v3 refuses: the chunk tells it.
    only_v2: &'static [&'static str],
}

impl ClientCodec {
    const fn image(name: &'static str) -> Self {
        Self { name, makes_bytes: true, only_v2: &[] }
    }

    const fn fax(name: &'static str) -> Self {
        Self { name, makes_bytes: true, only_v2: &["height", "width"] }
    }
}

/// Not in the list are `imagecodecs_sperr` and `imagecodecs_sz3`: only their classes for Zarr v2 take the shape that
/// decoding needs, so that neither format can say what the other does.
const CLIENT_CODECS: &[ClientCodec] = &[
    ClientCodec::fax("imagecodecs_ccittfax3"),
    ClientCodec::fax("imagecodecs_ccittfax4"),
    ClientCodec::fax("imagecodecs_ccittrle"),
    ClientCodec::image("imagecodecs_float24"),
    ClientCodec::image("imagecodecs_jpeg"),
    ClientCodec::image("imagecodecs_jpeg2k"),
    ClientCodec::image("imagecodecs_jpegls"),
    ClientCodec::image("imagecodecs_jpegxl"),
    ClientCodec::image("imagecodecs_jpegxr"),
    ClientCodec::image("imagecodecs_lerc"),
    ClientCodec { name: "imagecodecs_lzo", makes_bytes: false, only_v2: &[] },
    ClientCodec::image("imagecodecs_png"),
    ClientCodec::image("imagecodecs_webp"),
    ClientCodec { only_v2: &["shape", "dtype", "strides"], ..ClientCodec::image("imagecodecs_zfp") },
];

/// The entry of a codec, where it is in the list.
pub(crate) fn entry_of(codec: &Codec) -> Option<&'static ClientCodec> {
    let (written, makes_bytes) = match codec {
        Codec::Image { name, .. } => (name, true),
        Codec::Named { name, .. } => (name, false),
        _ => return None,
    };
    CLIENT_CODECS.iter().find(|known| known.name == *written && known.makes_bytes == makes_bytes)
}

/// The codec of a name that a document says.
pub(crate) fn read(name: &str, configuration: &Value) -> Option<Codec> {
    let known = CLIENT_CODECS.iter().find(|known| known.name == name)?;
    let mut configuration = configuration.as_object()?.clone();
    configuration.remove("id");
    let name = known.name;
    Some(match known.makes_bytes {
        true => Codec::Image { name, configuration },
        false => Codec::Named { name, configuration },
    })
}

impl ClientCodec {
    /// The configuration as Zarr v3 has it.
    pub(crate) fn in_v3(&self, configuration: &Map<String, Value>) -> Value {
        let mut configuration = configuration.clone();
        configuration.retain(|member, _| !self.only_v2.contains(&member.as_str()));
        Value::Object(configuration)
    }
}

/// One codec of each entry, with a configuration as it is written.
#[cfg(test)]
pub(crate) fn examples() -> Vec<Codec> {
    CLIENT_CODECS.iter().filter_map(|known| read(known.name, &serde_json::json!({"level": 1}))).collect()
}
