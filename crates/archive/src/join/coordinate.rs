//! Builds coordinate arrays from file names, catalogues and attributes.

use serde_json::{Map, Value};
use virtualize::zarr::{Array, ChunkGrid, ChunkManifest, DataType, FillValue, ZarrFormat};

use super::inline;
use crate::values::{Scalar, scalar::Given};

/// Returns the coordinate array of a dimension; `None` if values are of several kinds.
pub(super) fn array(name: &str, given: Vec<Given>, format: ZarrFormat) -> Option<Array> {
    let units = given.first()?.units;
    let calendar = given.first()?.calendar();
    if given.iter().any(|one| one.units != units) {
        return None;
    }
    let mut attributes = Map::new();
    for (key, value) in [("units", units), ("calendar", calendar)] {
        attributes.extend(value.map(|value| (key.to_owned(), Value::from(value))));
    }
    let mut array = Array {
        shape: vec![given.len() as u64],
        data_type: DataType::Int64,
        chunk_grid: ChunkGrid::Regular(vec![given.len() as u64]),
        fill_value: None,
        codecs: Vec::new(),
        dimension_names: vec![Some(name.to_owned())],
        attributes,
        chunks: ChunkManifest::default(),
    };
    let scalars: Vec<Scalar> = given.into_iter().map(|one| one.value).collect();
    fill(&mut array, &scalars)?;
    if format == ZarrFormat::V3 {
        array.fill_value = Some(FillValue::zero(&array.data_type));
    }
    Some(array)
}

/// Inlines scalars as strings, `int64` or `float64`: the first type that represents all of them.
fn fill(array: &mut Array, scalars: &[Scalar]) -> Option<()> {
    let texts = scalars.iter().map(|scalar| match scalar {
        Scalar::Text(text) => Some(text.to_string()),
        _ => None,
    });
    if let Some(texts) = texts.collect::<Option<Vec<_>>>() {
        return inline::set_inline_texts(array, &texts);
    }
    let ints = scalars.iter().map(|scalar| scalar.to_i128().and_then(|int| i64::try_from(int).ok()));
    if let Some(ints) = ints.collect::<Option<Vec<_>>>() {
        return inline::set_inline_values(array, ints.iter().flat_map(|int| int.to_le_bytes()).collect());
    }
    let floats = scalars.iter().map(|scalar| match scalar {
        Scalar::Float(float) => Some(*float),
        whole => match FillValue::from_i128(&DataType::Float64, whole.to_i128()?).exact()? {
            FillValue::Fixed(bytes) => bytes.as_ref().try_into().ok().map(f64::from_le_bytes),
            FillValue::Text(_) | FillValue::Variable(_) => None,
        },
    });
    let floats = floats.collect::<Option<Vec<_>>>()?;
    array.data_type = DataType::Float64;
    inline::set_inline_values(array, floats.iter().flat_map(|float| float.to_le_bytes()).collect())
}
