//! Options that rows of the journal depend on, by name: a run with other options must not resume from those rows.

use std::{collections::BTreeMap, fmt::Debug};

use virtualize::{InlineOptions, Limits, MapOptions, Options};

use crate::Layout;

/// Returns all options of opening and mapping that affect the record of a file, unlike those of access.
pub(super) fn of_options(options: &Options) -> BTreeMap<String, String> {
    let Options { store: _, map, limits, inline, strict, readable_by, hdf5_reader, gate: _, notation: _ } =
        options;
    let mut all = BTreeMap::new();
    let mut say = |name: &str, value: &dyn Debug| {
        all.insert(name.to_owned(), format!("{value:?}"));
    };
    say("strict", strict);
    say("readable-by", readable_by);
    say("hdf5-reader", hdf5_reader);
    let MapOptions {
        format,
        invalid_nodata,
        inline_limit,
        constant_chunk_limit,
        ifds,
        chunk_grid,
        stack,
        split_contiguous,
        unpack,
        missing_value_convention,
        follow_external,
        // Follows from `readable-by`.
        own_codecs: _,
        source_attributes: _,
    } = map;
    say("zarr-format", format);
    say("invalid-nodata", invalid_nodata);
    say("inline-limit", inline_limit);
    say("constant-chunk-limit", constant_chunk_limit);
    say("ifd", ifds);
    say("chunk-grid", chunk_grid);
    say("stack", stack);
    say("split-contiguous", split_contiguous);
    say("unpack", unpack);
    say("missing-value-convention", missing_value_convention);
    say("follow-external", follow_external);
    let InlineOptions { below, coordinates, total } = inline;
    say("inline-below", below);
    say("inline-coordinates", coordinates);
    say("inline-total", total);
    let Limits { objects, depth, chunks, structure_bytes, metadata_bytes, attributes } = limits;
    say("limits", &[*objects, u64::from(*depth), *chunks, *structure_bytes, *metadata_bytes, *attributes]);
    all
}

/// Returns all options of combining that affect the record of a file.
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
    let said: [(&str, &dyn Debug); 9] = [
        ("dimensions", along),
        ("concat-var", concat_vars),
        ("assume-equal", assume_equal),
        ("optional-var", optional),
        ("coordinate-attributes", coordinate_attributes),
        ("coordinate-properties", coordinate_properties),
        ("coord-from-name", &names.as_ref().map(ToString::to_string)),
        ("rectilinear", rectilinear),
        ("copied-limit", inline_limit),
    ];
    said.into_iter().map(|(name, value)| (name.to_owned(), format!("{value:?}"))).collect()
}
