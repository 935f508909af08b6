//! `virtualize.lerc`: LERC as libtiff stores it, with masks. imagecodecs ignores masks (`imagecodecs_lerc`).
//! <https://github.com/Esri/lerc>

use serde_json::json;

use super::{Codec, Definition, OwnName};

/// NumPy strings of the numbers that LERC compresses.
const DTYPES: [&str; 8] = ["|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<f4", "<f8"];

pub(super) const DEFINITION: Definition = Definition {
    own: Some(OwnName {
        name: "virtualize.lerc",
        configuration: |codec| {
            let Codec::Lerc { dtype, rows, columns, samples, has_alpha } = codec else { return None };
            Some(json!({
                "dtype": dtype, "rows": rows, "columns": columns, "samples": samples, "has_alpha": has_alpha,
            }))
        },
        parse: |encoded| {
            let dtype = encoded.text("dtype")?;
            Some(Codec::Lerc {
                dtype: DTYPES.into_iter().find(|known| *known == dtype)?,
                rows: encoded.number("rows")?,
                columns: encoded.number("columns")?,
                samples: encoded.number("samples")?,
                has_alpha: encoded.get("has_alpha")?.as_bool()?,
            })
        },
    }),
    describe: |_| "LERC with masks".to_owned(),
    examples: || {
        let lerc =
            |dtype, samples, has_alpha| Codec::Lerc { dtype, rows: 20, columns: 30, samples, has_alpha };
        vec![lerc("<f4", 1, false), lerc("|u1", 4, true)]
    },
    ..Definition::internal()
};
