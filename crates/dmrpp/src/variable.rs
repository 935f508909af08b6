//! Variables: `<Float32 name="…">` with dimensions, attributes and chunks.

use virtualize_bytes::Address;
use virtualize_hdf5::model::{
    ByteOrder, CharacterSet, Chunked, Dataset, Dataspace, Datatype, FillValue, Layout, StringPadding,
};

use crate::attribute;
use crate::chunks::Chunks;
use crate::fill;
use crate::xml::{Element, Xml};
use crate::{Error, Result};

/// Largest number of dimensions in HDF5.
const RANK: usize = 32;

/// A dimension of a variable: its size, and the address of its scale; `None` if the dimension is anonymous.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Axis {
    pub(crate) size: u64,
    pub(crate) scale: Option<Address>,
}

/// Reads a variable. `find` returns the dimension with a name, and `end` is the size of the data file.
pub(crate) fn read(
    xml: &mut Xml<'_>,
    start: &Element<'_>,
    find: impl Fn(&str) -> Option<Axis>,
    end: u64,
) -> Result<(Vec<Axis>, Dataset)> {
    let kind = start.name();
    if kind != "String" && attribute::number(&kind, ByteOrder::Little).is_none() {
        return Err(Error::new("a variable of this type"));
    }
    let (mut axes, mut shape, mut attributes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut chunks, mut string) = (None, None);
    while let Some(child) = xml.child()? {
        match child.name().as_str() {
            "Dim" => {
                if chunks.is_some() || axes.len() >= RANK {
                    return Err(Error::new(format!("a dimension after the chunks, or more than {RANK}")));
                }
                let axis = match child.attribute("name")? {
                    Some(name) => {
                        find(&name).ok_or_else(|| Error::new(format!("unknown dimension {name}")))?
                    }
                    None => Axis { size: size(&child)?, scale: None },
                };
                axes.push(axis);
                shape.push(axis.size);
                xml.skip()?;
            }
            "Map" => xml.skip()?,
            "dmrpp:FixedLengthStringArray" if kind == "String" && string.is_none() => {
                let (length, pad) = (child.required("string_length")?, child.required("pad")?);
                let padding = match pad.as_str() {
                    "null_pad" => StringPadding::NullPadded,
                    "null_term" => StringPadding::NullTerminated,
                    "space_pad" => StringPadding::SpacePadded,
                    _ => return Err(Error::new(format!("pad \"{pad}\""))),
                };
                let size = length.parse().ok().filter(|length| (1..1 << 24).contains(length));
                let size = size.ok_or_else(|| Error::new("string_length, expected a number from 1"))?;
                string = Some(Datatype::String { size, padding, charset: CharacterSet::Ascii });
                xml.skip()?;
            }
            "Attribute" => attribute::read(xml, &child, &mut attributes)?,
            "dmrpp:chunks" if chunks.is_none() => chunks = Some(Chunks::read(xml, &child, &shape, end)?),
            name => return Err(Error::new(format!("element {name}"))),
        }
    }
    let chunks = chunks.ok_or_else(|| Error::new("no dmrpp:chunks"))?;
    let fill_value = chunks.fill_value.as_deref().ok_or_else(|| Error::new("no fillValue"))?;
    let number = attribute::number(&kind, chunks.byte_order.unwrap_or(ByteOrder::Little));
    let datatype = match number {
        Some(number) if number.size() > 1 && chunks.byte_order.is_none() => {
            return Err(Error::new("no byteOrder"));
        }
        Some(number) => number,
        None => string.ok_or_else(|| Error::new("text without its length and padding"))?,
    };
    let fill = fill::message(fill_value, &datatype, &attributes)?;
    let filters = chunks.filters(datatype.size())?;
    let bytes = shape.iter().try_fold(datatype.size(), |all, axis| all.checked_mul(*axis));
    let layout = chunks.layout(datatype.size(), bytes, &filters)?;
    let is_incomplete = match &layout {
        Layout::Chunked(Chunked { chunks, .. }) => chunks.positions.is_some(),
        Layout::Contiguous(range) => range.is_none(),
        _ => false,
    };
    match (&fill.value, &datatype) {
        (FillValue::Default, Datatype::String { size: 2.., .. }) if is_incomplete => {
            return Err(Error::new("missing chunks of text whose fill value may not end at the first NUL"));
        }
        (FillValue::User(_), _) if is_incomplete => {
            return Err(Error::new("missing chunks, and a fill value that may never have been written"));
        }
        _ => {}
    }
    let dataset = dataset(datatype, shape, layout);
    Ok((axes, Dataset { fill, filters, attributes, ..dataset }))
}

/// Returns the size of a dimension.
pub(crate) fn size(dimension: &Element<'_>) -> Result<u64> {
    let size = dimension.required("size")?;
    size.parse().map_err(|_| Error::new(format!("size \"{size}\"")))
}

/// Returns a dataset without filters and attributes.
pub(crate) fn dataset(datatype: Datatype, shape: Vec<u64>, layout: Layout) -> Dataset {
    let dataspace =
        if shape.is_empty() { Dataspace::Scalar } else { Dataspace::Simple { shape, max_shape: None } };
    Dataset {
        datatype,
        committed_datatype: None,
        dataspace,
        dimensions: None,
        fill: fill::of(FillValue::Default),
        filters: Vec::new(),
        layout,
        attributes: Vec::new(),
        unreadable_attributes: Vec::new(),
    }
}

/// Refuses a variable that may be shorter than its dimensions, which sidecars do not tell: no chunk is at the end of one, or
/// chunks are longer than one, which is unlimited then.
pub(crate) fn check_extent(axes: &[Axis], dataset: &Dataset) -> Result<()> {
    let shorter = || Err(Error::new("the variable may be shorter than its dimensions"));
    let chunked = match &dataset.layout {
        Layout::Chunked(chunked) => chunked,
        Layout::Contiguous(None) if axes.iter().any(|axis| axis.scale.is_some()) => return shorter(),
        _ => return Ok(()),
    };
    let mut stride = 1_u64;
    for ((axis, count), length) in axes.iter().zip(&chunked.chunks.grid).zip(&chunked.chunk_shape).rev() {
        let is_last = |position: &u64| {
            position.checked_div(stride).and_then(|row| row.checked_rem(*count)) == count.checked_sub(1)
        };
        let has_last =
            chunked.chunks.positions.as_ref().is_none_or(|positions| positions.iter().any(is_last));
        if axis.scale.is_some() && (!has_last || (axis.size > 1 && *length > axis.size)) {
            return shorter();
        }
        stride = stride.saturating_mul(*count);
    }
    Ok(())
}
