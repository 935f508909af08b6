//! SZ of version 2.1: HDF5 filter 32017, which no released client decodes.

use serde_json::json;

use super::{Codec, Definition, OwnName};

/// NumPy strings of the numbers, by their code in the client data of the filter.
const DTYPES: [&str; 2] = ["<f4", "<f8"];

pub(super) const DEFINITION: Definition = Definition {
    own: Some(OwnName {
        name: "virtualize.sz",
        configuration: |codec| match codec {
            Codec::Sz { dtype, shape } => Some(json!({"dtype": dtype, "shape": shape})),
            _ => None,
        },
        parse: |encoded| {
            let dtype = encoded.text("dtype")?;
            let shape = encoded.get("shape")?.as_array()?;
            Some(Codec::Sz {
                dtype: DTYPES.into_iter().find(|known| *known == dtype)?,
                shape: shape.iter().map(serde_json::Value::as_u64).collect::<Option<_>>()?,
            })
        },
    }),
    describe: |_| "the HDF5 filter SZ".to_owned(),
    examples: || DTYPES.into_iter().map(|dtype| Codec::Sz { dtype, shape: vec![20, 30] }).collect(),
    ..Definition::internal()
};

impl Codec {
    /// Returns SZ for floats whose type has this code in the client data of the HDF5 filter, and for chunks of this shape,
    /// slowest axis first.
    pub fn sz(code: usize, shape: Vec<u64>) -> Option<Self> {
        DTYPES.get(code).map(|dtype| Self::Sz { dtype, shape })
    }
}
