//! Options that rows of the journal depend on, by name: a run with other options must not use those rows.
//! Values are JSON, so that they mean the same in every build of one version.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use virtualize::{InlineOptions, Limits, MapOptions, Options, Relocation, zarr::ZarrFormat};

use super::Target;
use crate::{Along, Layout};

/// Returns the options of opening and mapping that affect the record of a file, unlike those of access.
///
/// The patterns name every field: a new option does not compile before it is decided whether rows depend on it.
pub(super) fn of_options(options: &Options) -> BTreeMap<String, String> {
    // A sidecar yields the references of the file itself.
    let Options {
        store: _,
        map,
        limits,
        inline,
        strict,
        readable_by,
        hdf5_reader,
        gate: _,
        notation: _,
        dmrpp: _,
        sidecars,
    } = options;
    let readers: Vec<String> = readable_by.iter().map(ToString::to_string).collect();
    let InlineOptions { below, coordinates, total } = inline;
    let mut all = of_mapping(map);
    all.extend(named([
        ("sidecars", json!(sidecars)),
        ("strict", json!(strict)),
        ("readable-by", json!(readers)),
        ("hdf5-reader", json!(hdf5_reader)),
        ("inline-below", json!(below)),
        ("inline-coordinates", json!(coordinates)),
        ("inline-total", json!(total)),
        ("limits", of_limits(limits)),
    ]));
    all
}

fn of_mapping(map: &MapOptions) -> BTreeMap<String, String> {
    let MapOptions {
        format,
        complex_integers,
        inline_limit,
        constant_chunk_limit,
        ifds,
        chunk_grid,
        stack,
        split_contiguous,
        unpack,
        missing_value_convention,
        ragged,
        follow_external,
        // Follows from `readable-by`.
        own_codecs: _,
        source_attributes: _,
    } = map;
    let zarr_format = match format {
        ZarrFormat::V2 => 2,
        ZarrFormat::V3 => 3,
    };
    named([
        ("zarr-format", json!(zarr_format)),
        ("complex-integers", json!(complex_integers)),
        ("inline-limit", json!(inline_limit)),
        ("constant-chunk-limit", json!(constant_chunk_limit)),
        ("ifd", json!(ifds)),
        ("chunk-grid", json!(chunk_grid)),
        ("stack", json!(stack)),
        ("split-contiguous", json!(split_contiguous)),
        ("unpack", json!(unpack)),
        ("missing-value-convention", json!(missing_value_convention)),
        ("ragged", json!(ragged)),
        ("follow-external", json!(follow_external)),
    ])
}

fn of_limits(limits: &Limits) -> Value {
    let Limits { objects, depth, chunks, structure_bytes, metadata_bytes, attributes } = limits;
    json!({
        "objects": objects,
        "depth": depth,
        "chunks": chunks,
        "structure-bytes": structure_bytes,
        "metadata-bytes": metadata_bytes,
        "attributes": attributes,
    })
}

/// Returns the options of combining that affect the record of a file.
pub(super) fn of_layout(layout: &Layout) -> BTreeMap<String, String> {
    let Layout {
        along,
        concat_vars,
        assume_equal,
        optional,
        coordinate_attributes,
        coordinate_properties,
        names,
        rectilinear,
        inline_limit,
    } = layout;
    let dimension = |along: &Along| match along {
        Along::Concat(name) => json!({ "concat-dim": name }),
        Along::Stack(name) => json!({ "stack-dim": name }),
    };
    named([
        ("dimensions", along.iter().map(dimension).collect()),
        ("concat-var", json!(concat_vars)),
        ("assume-equal", json!(assume_equal)),
        ("optional-var", json!(optional)),
        ("coord-from-attribute", json!(coordinate_attributes)),
        ("coord-from-property", json!(coordinate_properties)),
        ("coord-from-name", json!(names.as_ref().map(ToString::to_string))),
        ("rectilinear", json!(rectilinear)),
        ("copy-limit", json!(inline_limit)),
    ])
}

/// Returns the options of single outputs that affect the record of a file.
pub(super) fn of_each(output: &str, target: &Target, relocation: &Relocation) -> BTreeMap<String, String> {
    let (format, record_size) = match target {
        Target::References(format) => (format.name(), Some(format.record_size())),
        #[cfg(feature = "icechunk")]
        Target::Icechunk(_) => ("icechunk", None),
    };
    named([
        ("output", json!(output.trim_end_matches('/'))),
        ("format", json!(format)),
        ("record-size", json!(record_size)),
        ("urls", json!(relocation)),
    ])
}

/// Returns the texts of values, by name.
fn named<const N: usize>(options: [(&str, Value); N]) -> BTreeMap<String, String> {
    options.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and values are in journals: a change makes them belong to another run.
    #[test]
    fn defaults_are_written_as_json() {
        let all = of_options(&Options::default());
        let text = serde_json::to_string(&all).unwrap_or_default().replace("\\\"", "'");
        let expected = "{\"chunk-grid\":\"'regular'\",\"complex-integers\":\"'complex'\",\"constant-chunk-limit\":\"10000\",\"follow-external\":\"false\",\
            \"hdf5-reader\":\"'native'\",\"ifd\":\"[]\",\"inline-below\":\"0\",\"inline-coordinates\":\"false\",\
            \"inline-limit\":\"16777216\",\"inline-total\":\"268435456\",\
            \"limits\":\"{'attributes':1000000,'chunks':200000000,'depth':64,'metadata-bytes':17179869184,\
            'objects':1000000,'structure-bytes':1073741824}\",\"missing-value-convention\":\"false\",\
            \"ragged\":\"false\",\"readable-by\":\"[]\",\"sidecars\":\"false\",\"split-contiguous\":\"null\",\"stack\":\"false\",\"strict\":\"false\",\
            \"unpack\":\"false\",\"zarr-format\":\"2\"}";
        assert_eq!(text, expected);
        let layout = Layout::along(vec![Along::Concat("time".to_owned()), Along::Stack("member".to_owned())]);
        let expected = r#"[{"concat-dim":"time"},{"stack-dim":"member"}]"#;
        assert_eq!(of_layout(&layout).get("dimensions").map(String::as_str), Some(expected));
    }
}
