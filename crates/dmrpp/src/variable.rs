//! Variables: `<Float32 name="…">` with dimensions, attributes and chunks.

use virtualize_bytes::{Address, ByteRange};
use virtualize_hdf5::model::{
    Attribute, ByteOrder, CharacterSet, ChunkIndexKind, Chunked, Dataset, Dataspace, Datatype, FillMessage,
    Layout, StringPadding,
};

use crate::attribute;
use crate::chunks::Chunks;
use crate::error::Problem;
use crate::fill;
use crate::types::Number;
use crate::xml::{Element, Xml};

/// Largest number of dimensions in HDF5.
const RANK: usize = 32;

/// A dimension of a variable: its size, and the address of its scale; `None` if the dimension is anonymous.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Axis {
    pub(crate) size: u64,
    pub(crate) scale: Option<Address>,
}

/// A variable.
pub(crate) struct Variable {
    pub(crate) axes: Vec<Axis>,
    pub(crate) dataset: Dataset,
}

/// A variable in work.
struct Draft {
    kind: Kind,
    axes: Vec<Axis>,
    attributes: Vec<Attribute>,
    chunks: Option<Chunks>,
}

#[derive(Clone, Copy)]
enum Kind {
    Number(Number),
    /// Text of fixed length, once its length and padding are known.
    Text(Option<(u32, StringPadding)>),
}

/// Reads a variable. `find` returns the dimension with a name, and `end` is the size of the data file.
pub(crate) fn read(
    xml: &mut Xml<'_>,
    start: &Element<'_>,
    find: impl Fn(&str) -> Option<Axis>,
    end: u64,
) -> Result<Variable, Problem> {
    let kind = match (Number::named(&start.name()), start.is("String")) {
        (Some(number), _) => Kind::Number(number),
        (None, true) => Kind::Text(None),
        (None, false) => return Err(Problem::incomplete("a variable of this type")),
    };
    let mut draft = Draft { kind, axes: Vec::new(), attributes: Vec::new(), chunks: None };
    while let Some(child) = xml.child()? {
        draft.read_child(xml, &child, &find, end)?;
    }
    draft.finish()
}

impl Draft {
    fn read_child(
        &mut self,
        xml: &mut Xml<'_>,
        child: &Element<'_>,
        find: impl Fn(&str) -> Option<Axis>,
        end: u64,
    ) -> Result<(), Problem> {
        match child.name().as_str() {
            "Dim" => self.add_axis(child, find)?,
            "Map" => {}
            "dmrpp:FixedLengthStringArray" => self.set_text(child)?,
            "Attribute" => {
                if self.attributes.len() as u64 >= xml.limits().attributes {
                    return Err(Problem::Limit(format!("more than {} attributes", xml.limits().attributes)));
                }
                self.attributes.extend(attribute::read(xml, child)?);
                return Ok(());
            }
            "dmrpp:chunks" if self.chunks.is_none() => {
                let shape: Vec<u64> = self.axes.iter().map(|axis| axis.size).collect();
                self.chunks = Some(Chunks::read(xml, child, &shape, end)?);
                return Ok(());
            }
            name => return Err(Problem::incomplete(format!("element {name}"))),
        }
        xml.skip()
    }

    fn add_axis(&mut self, dim: &Element<'_>, find: impl Fn(&str) -> Option<Axis>) -> Result<(), Problem> {
        if self.chunks.is_some() || self.axes.len() >= RANK {
            return Err(Problem::malformed(format!("a dimension after the chunks, or more than {RANK}")));
        }
        let axis = match dim.attribute("name")? {
            Some(name) => {
                find(&name).ok_or_else(|| Problem::incomplete(format!("unknown dimension {name}")))?
            }
            None => Axis { size: size(dim)?, scale: None },
        };
        self.axes.push(axis);
        Ok(())
    }

    fn set_text(&mut self, element: &Element<'_>) -> Result<(), Problem> {
        let (length, pad) = (element.required("string_length")?, element.required("pad")?);
        let padding = match pad.as_str() {
            "null_pad" => StringPadding::NullPadded,
            "null_term" => StringPadding::NullTerminated,
            "space_pad" => StringPadding::SpacePadded,
            _ => return Err(Problem::incomplete(format!("pad \"{pad}\""))),
        };
        let length = length.parse().ok().filter(|length| (1..1 << 24).contains(length));
        let length = length.ok_or_else(|| Problem::malformed("string_length, expected a number from 1"))?;
        match self.kind {
            Kind::Text(None) => self.kind = Kind::Text(Some((length, padding))),
            _ => return Err(Problem::malformed("FixedLengthStringArray twice, or of numbers")),
        }
        Ok(())
    }

    fn finish(self) -> Result<Variable, Problem> {
        let chunks = self.chunks.ok_or_else(|| Problem::incomplete("no dmrpp:chunks"))?;
        let fill_value = chunks.fill_value.as_deref().ok_or_else(|| Problem::incomplete("no fillValue"))?;
        let (datatype, fill) = match self.kind {
            Kind::Text(None) => return Err(Problem::incomplete("text without its length and padding")),
            Kind::Text(Some((size, padding))) => (
                Datatype::String { size, padding, charset: CharacterSet::Ascii },
                fill::of_text(fill_value, size)?,
            ),
            Kind::Number(number) => {
                let order = match chunks.byte_order {
                    None if number.size() > 1 => return Err(Problem::incomplete("no byteOrder")),
                    order => order.unwrap_or(ByteOrder::Little),
                };
                (number.datatype(order), fill::of_number(fill_value, number, order, &self.attributes)?)
            }
        };
        let shape: Vec<u64> = self.axes.iter().map(|axis| axis.size).collect();
        let filters = chunks.filters(datatype.size())?;
        let layout = match chunks.chunk_shape.clone() {
            None => contiguous(&chunks, &shape, datatype.size(), &fill)?,
            Some(chunk_shape) => {
                let chunks = chunks.table(datatype.size(), &filters)?;
                if chunks.positions.is_some() {
                    match (&fill::is_zero(&fill), &datatype) {
                        (true, Datatype::String { size: 2.., .. }) => Err(Problem::incomplete(
                            "missing chunks of text whose &fill value may not end at the first NUL",
                        )),
                        (true, _) => Ok(()),
                        (false, _) => Err(unknown_fill_time()),
                    }?;
                }
                Layout::Chunked(Chunked {
                    chunk_shape,
                    index: ChunkIndexKind::BTree1,
                    unfiltered_edges: false,
                    chunks,
                })
            }
        };
        let dataset = dataset(datatype, shape, layout);
        let dataset = Dataset { fill, filters, attributes: self.attributes, ..dataset };
        Ok(Variable { axes: self.axes, dataset })
    }
}

/// Returns the size of a dimension.
pub(crate) fn size(dimension: &Element<'_>) -> Result<u64, Problem> {
    let size = dimension.required("size")?;
    size.parse().map_err(|_| Problem::malformed(format!("size \"{size}\"")))
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
        fill: fill::default(),
        filters: Vec::new(),
        layout,
        attributes: Vec::new(),
        unreadable_attributes: Vec::new(),
    }
}

fn contiguous(chunks: &Chunks, shape: &[u64], size: u64, fill: &FillMessage) -> Result<Layout, Problem> {
    let bytes = shape.iter().try_fold(size, |all, axis| all.checked_mul(*axis));
    match chunks.contiguous() {
        Some((offset, length)) if Some(length) == bytes => {
            Ok(Layout::Contiguous(Some(ByteRange::new(offset, length))))
        }
        Some((_, length)) => {
            let expected = bytes.map_or("fewer".to_owned(), |bytes| bytes.to_string());
            Err(Problem::incomplete(format!("{length} bytes of contiguous data, expected {expected}")))
        }
        None if fill::is_zero(fill) => Ok(Layout::Contiguous(None)),
        None => Err(unknown_fill_time()),
    }
}

/// Refuses a variable that may be shorter than its dimensions, which sidecars do not tell: no chunk is at the end of one, or
/// chunks are longer than one, which is unlimited then.
pub(crate) fn check_extent(axes: &[Axis], dataset: &Dataset) -> Result<(), Problem> {
    let shorter = || Err(Problem::incomplete("the variable may be shorter than its dimensions"));
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

fn unknown_fill_time() -> Problem {
    Problem::incomplete("missing chunks, and a fill value that may never have been written")
}
