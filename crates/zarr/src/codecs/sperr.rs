//! SPERR: HDF5 filter 32028 (H5Z-SPERR), whose chunks are streams behind a byte and a mask that no released client expects.

use serde_json::json;

use super::{Codec, Definition, OwnName};

const DTYPES: [&str; 2] = ["<f4", "<f8"];

pub(super) const DEFINITION: Definition = Definition {
    own: Some(OwnName {
        name: "virtualize.sperr",
        configuration: |codec| match codec {
            Codec::Sperr { dtype, shape, has_mode } => {
                Some(json!({"dtype": dtype, "shape": shape, "has_mode": has_mode}))
            }
            _ => None,
        },
        parse: |encoded| {
            let dtype = encoded.text("dtype")?;
            let shape = encoded.get("shape")?.as_array()?;
            Some(Codec::Sperr {
                dtype: DTYPES.into_iter().find(|known| *known == dtype)?,
                shape: shape.iter().map(serde_json::Value::as_u64).collect::<Option<_>>()?,
                has_mode: encoded.flag("has_mode"),
            })
        },
    }),
    describe: |_| "the HDF5 filter SPERR".to_owned(),
    examples: || {
        let sperr = |dtype, shape, has_mode| Codec::Sperr { dtype, shape, has_mode };
        vec![sperr("<f4", vec![20, 30], true), sperr("<f8", vec![10, 10, 3], false)]
    },
    ..Definition::internal()
};

impl Codec {
    /// Returns SPERR by the client data of the HDF5 filter: a word of the number of axes (bits 0 to 3), single precision (bit
    /// 4) and version (bits 10 to 15), a word of the mode of compression and whether axes are swapped (bit 31), then the
    /// shape of a chunk, which H5Z-SPERR takes as fastest axis first unless they are swapped.
    pub fn sperr(client_data: &[u32]) -> Option<Self> {
        let (description, mode, sizes) = match client_data {
            [description, mode, sizes @ ..] => (*description, *mode, sizes),
            _ => return None,
        };
        let axes = description & 15;
        let version = description >> 10 & 63;
        if !(2..=3).contains(&axes) || version > 1 || u32::try_from(sizes.len()) != Ok(axes) {
            return None;
        }
        let mut shape: Vec<u64> = sizes.iter().map(|size| u64::from(*size)).collect();
        if mode >> 31 == 0 {
            shape.reverse();
        }
        let dtype = if description & 16 != 0 { "<f4" } else { "<f8" };
        Some(Self::Sperr { dtype, shape, has_mode: version > 0 })
    }
}
