//! Runs the differential test of `scale_offset` and `cast_value`: reads cases as JSON lines from standard input and
//! prints the result of each.
//!
//! A case is `{"data_type", "codecs", "direction", "elements"}`: codecs as in `zarr.json`, elements in hexadecimal. The
//! answer is `{"codecs", "results"}`, the codecs as they are encoded here, and for each element its bytes or the kind
//! of error; or `{"error"}` if the codecs are rejected.

#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a helper of tests")]

use std::io::{BufRead, Write};

use serde_json::{Value, json};
use virtualize_zarr::{Arithmetic, ArithmeticError, Codec, DataType, Endian, FillValue, Rounding, ScalarMap};

fn main() {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let case: Value = serde_json::from_str(&line.unwrap()).unwrap();
        writeln!(out, "{}", answer(&case)).unwrap();
    }
}

fn answer(case: &Value) -> Value {
    let array = data_type(&case["data_type"]);
    let codecs: Vec<_> = case["codecs"].as_array().unwrap().iter().map(codec).collect();
    let arithmetic = match Arithmetic::new(&array, &codecs) {
        Ok(arithmetic) => arithmetic,
        Err(error) => return json!({"error": error.to_string()}),
    };
    let direction = case["direction"].as_str().unwrap();
    let from = if direction == "decode" { arithmetic.stored_type() } else { &array };
    let size = usize::try_from(from.size().unwrap()).unwrap();
    let bytes = unhex(case["elements"].as_str().unwrap());
    let results: Vec<_> = bytes
        .chunks(size)
        .map(|element| match direction {
            "encode" => arithmetic.encode(element, Endian::Little),
            "decode" => arithmetic.decode(element, Endian::Little),
            _ => check(&arithmetic, element),
        })
        .map(|result| result.map_or_else(|error| kind(&error).to_owned(), |bytes| hex(&bytes)))
        .collect();
    let encoded: Vec<_> = codecs.iter().map(|codec| codec.to_v3().unwrap()).collect();
    json!({"codecs": encoded, "results": results})
}

/// Returns the encoded element, if it may be a fill value.
fn check(arithmetic: &Arithmetic, element: &[u8]) -> Result<Vec<u8>, ArithmeticError> {
    let fill = FillValue::Fixed(element.to_vec().into());
    arithmetic.check(&fill)?;
    match arithmetic.encode_scalar(&fill)? {
        FillValue::Fixed(bytes) => Ok(bytes.to_vec()),
        other => panic!("{other:?}"),
    }
}

fn kind(error: &ArithmeticError) -> &'static str {
    match error {
        ArithmeticError::OutOfRange { .. } => "!range",
        ArithmeticError::NotFinite { .. } => "!not-finite",
        ArithmeticError::Remainder { .. } => "!remainder",
        ArithmeticError::FillValue { .. } => "!fill-value",
        ArithmeticError::Mantissa { .. } => "!mantissa",
        _ => "!other",
    }
}

fn codec(json: &Value) -> Codec {
    let configuration = &json["configuration"];
    let given = |name: &str| configuration.get(name).cloned();
    let name = |name: &str| configuration[name].as_str();
    match json["name"].as_str().unwrap() {
        "scale_offset" => Codec::ScaleOffset { offset: given("offset"), scale: given("scale") },
        "cast_value" => Codec::CastValue {
            data_type: data_type(&configuration["data_type"]),
            rounding: name("rounding")
                .map_or(Rounding::default(), |name| serde_json::from_value(name.into()).unwrap()),
            out_of_range: name("out_of_range").map(|name| serde_json::from_value(name.into()).unwrap()),
            scalar_map: ScalarMap {
                encode: entries(&configuration["scalar_map"]["encode"]),
                decode: entries(&configuration["scalar_map"]["decode"]),
            },
        },
        other => panic!("{other}"),
    }
}

fn entries(json: &Value) -> Vec<(Value, Value)> {
    let pair = |entry: &Value| (entry[0].clone(), entry[1].clone());
    json.as_array().into_iter().flatten().map(pair).collect()
}

fn data_type(json: &Value) -> DataType {
    use DataType::*;
    let all = [
        Bool, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float16, Float32, Float64, Complex64,
    ];
    all.into_iter().find(|data_type| json == &data_type.to_string()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}
