//! SZ3 of version 3.1: HDF5 filter 32024 as hdf5plugin writes it. Released clients expect the header of later versions.

use serde_json::json;

use super::{Codec, Definition, OwnName};

/// NumPy strings of the numbers, by their code in the client data of the filter.
const DTYPES: [&str; 10] = ["<f4", "<f8", "|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8"];

pub(super) const DEFINITION: Definition = Definition {
    own: Some(OwnName {
        name: "virtualize.sz3",
        configuration: |codec| match codec {
            Codec::Sz3 { dtype } => Some(json!({"dtype": dtype})),
            _ => None,
        },
        parse: |encoded| {
            let dtype = encoded.text("dtype")?;
            DTYPES.into_iter().find(|known| *known == dtype).map(|dtype| Codec::Sz3 { dtype })
        },
    }),
    describe: |_| "the HDF5 filter SZ3".to_owned(),
    examples: || DTYPES.into_iter().map(|dtype| Codec::Sz3 { dtype }).collect(),
    ..Definition::internal()
};

impl Codec {
    /// Returns SZ3 for numbers whose type has this code in the client data of the HDF5 filter.
    pub fn sz3(code: usize) -> Option<Self> {
        DTYPES.get(code).map(|dtype| Self::Sz3 { dtype })
    }
}
