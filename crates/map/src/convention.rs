//! The Zarr convention `missing_value` (zarr-conventions/missing_value): an attribute with the sentinel of an array, in the
//! encoding of its fill value.

use serde_json::{Value, json};
use virtualize_remedy::Code;
use virtualize_zarr::{Array, FillValue, ZarrFormat};

use crate::{Diagnostic, Mapped, Severity};

/// Name of the attribute. CF has an attribute of the same name.
const NAME: &str = "missing_value";

/// Adds the attribute, and the entry in `zarr_conventions`, to all arrays that have a sentinel.
pub(crate) fn declare(mapped: &mut Mapped) {
    let format = mapped.hierarchy.format;
    let mut kept = Vec::new();
    for (path, report) in &mapped.report.arrays {
        let sentinel = report.fill.as_ref().and_then(|fill| fill.sentinel.as_ref());
        if let (Some(sentinel), Some(array)) = (sentinel, mapped.hierarchy.array_mut(path))
            && let Err(value) = declare_one(array, sentinel, format)
        {
            kept.push(diagnostic(path, array, &value));
        }
    }
    mapped.report.diagnostics.extend(kept);
}

/// Declares the sentinel of one array.
///
/// # Errors
/// Returns the sentinel if CF's attribute of the same name has another value.
fn declare_one(array: &mut Array, sentinel: &FillValue, format: ZarrFormat) -> Result<(), Value> {
    let data_type = &array.data_type;
    if !data_type.is_integer() && !data_type.is_float() {
        return Ok(());
    }
    let Ok(value) = sentinel.to_json(data_type, format) else { return Ok(()) };
    if array.attributes.get(NAME).is_some_and(|declared| !same(declared, &value)) {
        return Err(value);
    }
    array.attributes.insert(NAME.into(), value);
    let conventions = array.attributes.entry("zarr_conventions").or_insert_with(|| json!([]));
    if let Value::Array(conventions) = conventions
        && !conventions.contains(&entry())
    {
        conventions.push(entry());
    }
    Ok(())
}

/// Returns whether both encodings represent the same number.
fn same(cf: &Value, zarr: &Value) -> bool {
    let is_integer = |value: &Value| value.is_i64() || value.is_u64();
    match is_integer(cf) && is_integer(zarr) {
        true => cf == zarr,
        false => cf == zarr || (cf.is_number() && cf.as_f64() == zarr.as_f64()),
    }
}

fn entry() -> Value {
    const REPOSITORY: &str = "zarr-conventions/missing_value";
    json!({
        "schema_url": format!("https://raw.githubusercontent.com/{REPOSITORY}/refs/heads/main/schema.json"),
        "spec_url": format!("https://github.com/{REPOSITORY}/blob/main/README.md"),
        "name": NAME,
        "description": "Sentinel of missing values",
    })
}

fn diagnostic(path: &str, array: &Array, value: &Value) -> Diagnostic {
    let cf = array.attributes.get(NAME).unwrap_or(&Value::Null);
    Diagnostic {
        severity: Severity::Warning,
        code: Code::MissingValueConvention,
        path: format!("/{path}"),
        message: format!(
            "the attribute missing_value is {cf} as CF has it, and not {value} as the Zarr convention would"
        ),
        remedy: None,
    }
}

#[cfg(test)]
mod tests {
    use virtualize_zarr::{ChunkGrid, ChunkManifest, DataType};

    use super::*;

    #[test]
    fn encodings_of_one_number_are_the_same() {
        for (cf, zarr, expected) in [
            (json!(-9), json!(-9), true),
            (json!(-9), json!(9), false),
            (json!(5), json!(5.0), true),
            (json!(5), json!(5.5), false),
            (json!("NaN"), json!("NaN"), true),
            (json!("NaN"), json!("Infinity"), false),
            (json!([5]), json!(5), false),
            (json!([5]), json!([6]), false),
            // Integers that one float is nearest to.
            (json!(u64::MAX), json!(u64::MAX - 1), false),
            (json!(i64::MIN), json!(i64::MIN + 1), false),
        ] {
            assert_eq!(same(&cf, &zarr), expected, "{cf} {zarr}");
        }
    }

    #[test]
    fn a_convention_is_declared_once() {
        let mut array = Array {
            shape: vec![6],
            data_type: DataType::Int16,
            chunk_grid: ChunkGrid::Regular(vec![6]),
            fill_value: None,
            codecs: Vec::new(),
            attributes: serde_json::Map::new(),
            dimension_names: vec![None],
            chunks: ChunkManifest::default(),
        };
        let sentinel = FillValue::Fixed(bytes::Bytes::from_static(&[7, 0]));
        for _ in 0..2 {
            assert_eq!(declare_one(&mut array, &sentinel, ZarrFormat::V3), Ok(()));
            assert_eq!(array.attributes[NAME], json!(7));
            assert_eq!(array.attributes["zarr_conventions"], json!([entry()]));
        }
        assert_eq!(entry()["name"], "missing_value");
    }
}
