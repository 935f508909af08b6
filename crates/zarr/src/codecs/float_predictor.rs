//! `imagecodecs_floatpred`: TIFF predictor 3. v3 takes data type and shape from the array.

use serde_json::json;

use super::{
    Codec, Definition, OwnName, Registry,
    definition::{Rows, add_leading_axes},
};
use crate::ZarrFormat;

pub(super) const DEFINITION: Definition = Definition {
    replaces_bytes: true,
    configuration: |codec, format| match (codec, format) {
        (Codec::FloatPredictor { axis, dtype, shape }, ZarrFormat::V2) => {
            Some(json!({"shape": shape, "dtype": dtype, "axis": axis, "dist": 1}))
        }
        (Codec::FloatPredictor { axis, .. }, ZarrFormat::V3) => Some(json!({"axis": axis, "dist": 1})),
        _ => None,
    },
    parse: |encoded| {
        let (axis, dtype, shape) = (encoded.number("axis")?, encoded.dtype()?, encoded.shape()?);
        encoded.has_unit_distance().then_some(Codec::FloatPredictor { axis, dtype, shape })
    },
    unchecked_members: &["dist"],
    complete: |codec, data_type, chunk_shape| {
        if let Codec::FloatPredictor { dtype, shape, .. } = codec {
            data_type.into_iter().for_each(|name| name.clone_into(dtype));
            chunk_shape.clone_into(shape);
        }
    },
    add_leading_axes: |codec, count| {
        if let Codec::FloatPredictor { axis, shape, .. } = codec {
            add_leading_axes(axis, shape, count);
        }
    },
    own: Some(OwnName {
        name: "virtualize.floatpred",
        configuration: |codec| match codec {
            Codec::FloatPredictor { axis, dtype, shape } => Rows::of(*axis, shape)?.configuration(dtype),
            _ => None,
        },
        parse: |encoded| {
            let (axis, shape) = Rows::parse(encoded)?.axis_and_shape();
            Some(Codec::FloatPredictor { axis, dtype: encoded.text("dtype")?.to_owned(), shape })
        },
    }),
    examples: || vec![Codec::FloatPredictor { axis: -1, dtype: "<f4".into(), shape: vec![4, 3] }],
    ..Definition::array_to_array(Registry::Imagecodecs, &["imagecodecs_floatpred"])
};
