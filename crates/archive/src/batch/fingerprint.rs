//! The options on which rows of the journal depend, by name: a run with others must not go on with them.

use std::{collections::BTreeMap, fmt::Debug};

use virtualize::{InlineOptions, Limits, MapOptions, Options};

use crate::Layout;

/// All options of reading and mapping that change what is read of a file. How it is reached does not.
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

/// All options of putting files together that change what is read of a file.
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
