//! `shuffle`: HDF5's byte shuffle. <https://numcodecs.readthedocs.io/en/stable/filter/shuffle.html>

use serde_json::{Value, json};

use super::{Codec, Definition, OwnName, Registry};
use crate::chunk_reader::Reader;

pub(super) const DEFINITION: Definition = Definition {
    configuration: |codec, _| match codec {
        Codec::Shuffle { element_size } => Some(json!({"elementsize": element_size})),
        _ => None,
    },
    parse: |encoded| Some(Codec::Shuffle { element_size: encoded.number("elementsize")? }),
    // For chunks that are not a whole number of elements, which numcodecs refuses.
    own: Some(OwnName {
        name: "virtualize.shuffle",
        configuration: |codec| match codec {
            Codec::Shuffle { element_size } => Some(json!({"element_size": element_size})),
            _ => None,
        },
        parse: |encoded| Some(Codec::Shuffle { element_size: encoded.number("element_size")? }),
    }),
    readers: &[Reader::Zarrs, Reader::Zarrita, Reader::Gdal],
    limitation: |used, reader| {
        // zarrita takes the element size of the array for that of the shuffle.
        let element_size = used.configuration.get("elementsize").and_then(Value::as_u64);
        let is_wrong = reader == Reader::Zarrita && element_size != used.element_size;
        is_wrong.then(|| format!("{} of another element size than the array's", used.full_name))
    },
    examples: || vec![Codec::Shuffle { element_size: 4 }, Codec::Shuffle { element_size: 7 }],
    ..Definition::bytes_to_bytes(Registry::Numcodecs, &["shuffle"])
};
