//! Descriptions of HDF5 datatypes, layouts and filters in the words of the specification, for reports and diagnostics.

use virtualize_hdf5::model::{ByteOrder, ChunkIndexKind, Datatype, Filter, Float, Integer, Layout};

use super::ieee::ieee_type;

/// Describes a datatype, such as "big-endian 16-bit integer".
pub(super) fn describe_type(datatype: &Datatype) -> String {
    match datatype {
        Datatype::Integer(integer) => describe_integer(integer, "integer"),
        Datatype::Bitfield(integer) => describe_integer(integer, "bit field"),
        Datatype::Float(float) => describe_float(float),
        Datatype::Time { size, .. } => format!("time of {size} bytes"),
        Datatype::String { size, .. } => format!("string of {size} bytes"),
        Datatype::Opaque { size, tag } if tag.is_empty() => format!("opaque data of {size} bytes"),
        Datatype::Opaque { size, tag } => format!("opaque data of {size} bytes (\"{tag}\")"),
        Datatype::Compound { size, members } => {
            let names: Vec<_> = members.iter().map(|member| member.name.as_str()).collect();
            format!("compound of {size} bytes ({})", names.join(", "))
        }
        Datatype::Reference { kind, .. } => format!("reference ({kind:?})"),
        Datatype::Enum { base, members } => {
            format!("enumeration of {} values of {}", members.len(), describe_type(base))
        }
        Datatype::Sequence { base, .. } => format!("variable-length sequence of {}", describe_type(base)),
        Datatype::VariableString { .. } => "variable-length string".to_owned(),
        Datatype::Array { base, shape } => format!("array {shape:?} of {}", describe_type(base)),
        Datatype::Complex { base } => format!("complex number of two {}", describe_type(base)),
    }
}

fn describe_float(float: &Float) -> String {
    let name = format!("{}{}-bit float", order(float.order, float.size), float.precision);
    if ieee_type(float).is_some() {
        return name;
    }
    format!(
        "{name} (sign at {}, {} exponent bits at {}, {} mantissa bits at {}, bias {})",
        float.sign_location,
        float.exponent_size,
        float.exponent_location,
        float.mantissa_size,
        float.mantissa_location,
        float.exponent_bias
    )
}

fn describe_integer(integer: &Integer, what: &str) -> String {
    let sign = if integer.signed { "" } else { "unsigned " };
    let bits = integer.size.saturating_mul(8);
    let whole = u32::from(integer.precision) == bits && integer.bit_offset == 0;
    let within = if whole { String::new() } else { format!(" from bit {} of {bits}", integer.bit_offset) };
    format!("{}{sign}{}-bit {what}{within}", order(integer.order, integer.size), integer.precision)
}

fn order(order: ByteOrder, size: u32) -> &'static str {
    match order {
        _ if size <= 1 => "",
        ByteOrder::Little => "little-endian ",
        ByteOrder::Big => "big-endian ",
        ByteOrder::Vax => "VAX-ordered ",
    }
}

/// Describes a layout, such as "chunked [10, 20], version-1 B-tree".
pub(super) fn describe_layout(layout: &Layout) -> String {
    match layout {
        Layout::Compact(_) => "compact".to_owned(),
        Layout::Contiguous(Some(_)) => "contiguous".to_owned(),
        Layout::Contiguous(None) => "contiguous, never allocated".to_owned(),
        Layout::External(segments) => format!("in {} segments of external files", segments.len()),
        Layout::Virtual(mappings) => format!("virtual, {} mappings", mappings.len()),
        Layout::Unreadable(_) => "unreadable".to_owned(),
        Layout::Chunked(chunked) => format!(
            "chunked {:?}, {}",
            chunked.chunk_shape,
            match chunked.index {
                ChunkIndexKind::BTree1 => "version-1 B-tree",
                ChunkIndexKind::Single => "single chunk",
                ChunkIndexKind::Implicit => "implicit index",
                ChunkIndexKind::FixedArray => "fixed array",
                ChunkIndexKind::ExtensibleArray => "extensible array",
                ChunkIndexKind::BTree2 => "version-2 B-tree",
            }
        ),
    }
}

/// Returns the name of a filter with its number in the registry of the HDF Group.
pub(super) fn describe_filter(filter: &Filter) -> String {
    let name = match (filter.id, &filter.name) {
        (1, _) => "deflate",
        (2, _) => "shuffle",
        (3, _) => "fletcher32",
        (4, _) => "szip",
        (5, _) => "nbit",
        (6, _) => "scale-offset",
        (307, _) => "bzip2",
        (305, _) => "LZO",
        (32000, _) => "LZF",
        (32001, _) => "Blosc",
        (32004, _) => "LZ4",
        (32008, _) => "bitshuffle",
        (32013, _) => "ZFP",
        (32015, _) => "Zstandard",
        (32017, _) => "SZ",
        (32018, _) => "FCIDECOMP",
        (32024, _) => "SZ3",
        (32026, _) => "Blosc2",
        (32028, _) => "SPERR",
        (_, Some(name)) if !name.is_empty() => name.as_str(),
        _ => "unknown",
    };
    format!("{name} ({})", filter.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and numbers are those of the HDF Group's registry of filters.
    #[test]
    fn filters_have_their_registered_names() {
        let names = [
            (1, "deflate"),
            (2, "shuffle"),
            (3, "fletcher32"),
            (4, "szip"),
            (5, "nbit"),
            (6, "scale-offset"),
            (305, "LZO"),
            (307, "bzip2"),
            (32000, "LZF"),
            (32001, "Blosc"),
            (32004, "LZ4"),
            (32008, "bitshuffle"),
            (32013, "ZFP"),
            (32015, "Zstandard"),
            (32017, "SZ"),
            (32018, "FCIDECOMP"),
            (32024, "SZ3"),
            (32026, "Blosc2"),
            (32028, "SPERR"),
            (32099, "unknown"),
        ];
        for (id, name) in names {
            for given in [None, Some(String::new())] {
                let filter = Filter { id, name: given, optional: false, parameters: Vec::new() };
                assert_eq!(describe_filter(&filter), format!("{name} ({id})"));
            }
        }
        let filter = Filter { id: 32099, name: Some("own".into()), optional: false, parameters: Vec::new() };
        assert_eq!(describe_filter(&filter), "own (32099)");
    }

    #[test]
    fn opaque_data_have_their_tag() {
        let opaque = |tag: &str| describe_type(&Datatype::Opaque { size: 3, tag: tag.into() });
        assert_eq!(opaque(""), "opaque data of 3 bytes");
        assert_eq!(opaque("x"), "opaque data of 3 bytes (\"x\")");
    }
}
