//! `fletcher32`: HDF5's checksum, 4 bytes after the data.
//! <https://numcodecs.readthedocs.io/en/stable/checksum32.html>

use serde_json::json;

use super::{Codec, Definition, EncodedLength, Registry};
use crate::chunk_reader::Reader;

pub(super) const DEFINITION: Definition = Definition {
    configuration: |_, _| Some(json!({})),
    parse: |_| Some(Codec::Fletcher32),
    encoded_length: EncodedLength::Longer(4),
    readers: &[Reader::Zarrs],
    examples: || vec![Codec::Fletcher32],
    ..Definition::bytes_to_bytes(Registry::Numcodecs, &["fletcher32"])
};
