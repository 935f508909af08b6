//! Decodes elements: numbers of any size and precision, text, compounds, arrays, references and variable-length data.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::{
    Error,
    cursor::Format,
    global_heap,
    layout::HeapPointer,
    model::{ByteOrder, Datatype, Element, Float, Integer, Member, StringPadding},
};

const STRUCTURE: &str = "element";
/// Approximate memory in bytes for an element, in addition to its stored bytes.
const ELEMENT_COST: u64 = 64;

/// Decodes one element. Returns [`Element::Unknown`] for variable-length data and references, which need the file, and
/// if `bytes` does not have the size of the datatype.
pub fn decode_element(datatype: &Datatype, bytes: &[u8]) -> Element {
    let mut decoder = Decoder::new(None, u64::MAX);
    decoder.element(datatype, bytes).unwrap_or(Element::Unknown("bytes of another size than the type's"))
}

/// Objects of the global heap collections that are fetched, by address and index.
pub(crate) type Collections = BTreeMap<u64, Result<BTreeMap<u16, Bytes>, Error>>;

/// Decodes elements and records the global heap collections that it lacks.
pub(crate) struct Decoder<'a> {
    pub(crate) heap: Option<(Format, &'a Collections)>,
    budget: u64,
    /// Addresses of collections to fetch before decoding again.
    pub(crate) missing: BTreeSet<u64>,
}

impl<'a> Decoder<'a> {
    /// Creates a decoder whose elements use about `budget` bytes of memory at most.
    pub(crate) const fn new(heap: Option<(Format, &'a Collections)>, budget: u64) -> Self {
        Self { heap, budget, missing: BTreeSet::new() }
    }

    /// Returns the remaining budget in bytes.
    pub(crate) const fn left(&self) -> u64 {
        self.budget
    }

    /// Decodes `count` consecutive elements.
    pub(crate) fn elements(
        &mut self,
        datatype: &Datatype,
        count: u64,
        bytes: &[u8],
    ) -> Result<Vec<Element>, Error> {
        let size = datatype.size();
        let needed = size.checked_mul(count).and_then(|needed| usize::try_from(needed).ok());
        let bytes = needed.and_then(|needed| bytes.get(..needed)).ok_or_else(|| {
            Error::malformed(
                STRUCTURE,
                0,
                format!("{} bytes, expected {count} elements of {size} bytes", bytes.len()),
            )
        })?;
        let Ok(size @ 1..) = usize::try_from(size) else {
            return Err(Error::malformed(STRUCTURE, 0, "datatype of size 0, expected 1 or more"));
        };
        bytes.chunks_exact(size).map(|bytes| self.element(datatype, bytes)).collect()
    }

    /// Charges the memory of an element with `bytes` stored bytes.
    pub(crate) fn spend(&mut self, bytes: u64) -> Result<(), Error> {
        match self.budget.checked_sub(bytes.saturating_add(ELEMENT_COST)) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => Err(Error::limit(STRUCTURE, 0, "values exceed the limit on the size of a structure")),
        }
    }

    fn element(&mut self, datatype: &Datatype, bytes: &[u8]) -> Result<Element, Error> {
        if datatype.size() != bytes.len() as u64 {
            let problem = format!("{} bytes, expected {} of its datatype", bytes.len(), datatype.size());
            return Err(Error::malformed(STRUCTURE, 0, problem));
        }
        self.spend(bytes.len() as u64)?;
        match datatype {
            Datatype::Integer(integer) | Datatype::Bitfield(integer) => Ok(decode_integer(integer, bytes)),
            Datatype::Float(float) => {
                let value = bits_of(float.order, bytes).and_then(|bits| exact_float(float, bits));
                let unknown = Element::Unknown("floating-point number that 64 bits do not hold");
                Ok(value.map_or(unknown, Element::Float))
            }
            Datatype::Time { .. } => Ok(Element::Unknown("time")),
            Datatype::String { padding, .. } => Ok(text(unpadded(*padding, bytes))),
            Datatype::Opaque { .. } => Ok(Element::Bytes(bytes.to_vec())),
            Datatype::Compound { members, .. } => self.compound(members, bytes),
            Datatype::Reference { kind, .. } => self.reference(*kind, bytes),
            Datatype::Enum { base, .. } => self.element(base, bytes),
            Datatype::Sequence { base, .. } => self.variable(Some(base), bytes),
            Datatype::VariableString { .. } => self.variable(None, bytes),
            Datatype::Array { base, shape } => {
                let count = shape.iter().copied().fold(1_u64, u64::saturating_mul);
                self.elements(base, count, bytes).map(Element::List)
            }
            Datatype::Complex { base } => self.complex(base, bytes),
        }
    }

    fn compound(&mut self, members: &[Member], bytes: &[u8]) -> Result<Element, Error> {
        let member = |member: &Member| {
            let start = usize::try_from(member.offset).unwrap_or(usize::MAX);
            let size = usize::try_from(member.datatype.size()).unwrap_or(usize::MAX);
            let part = bytes.get(start..).and_then(|rest| rest.get(..size));
            let part = part
                .ok_or_else(|| Error::malformed(STRUCTURE, 0, "a member beyond the end of its compound"))?;
            self.spend(member.name.len() as u64)?;
            Ok((member.name.clone(), self.element(&member.datatype, part)?))
        };
        members.iter().map(member).collect::<Result<_, _>>().map(Element::Compound)
    }

    fn complex(&mut self, base: &Datatype, bytes: &[u8]) -> Result<Element, Error> {
        Ok(match self.elements(base, 2, bytes)?.as_slice() {
            [Element::Float(real), Element::Float(imaginary)] => Element::Complex(*real, *imaginary),
            _ => Element::Unknown("complex number of parts over 64 bits"),
        })
    }

    fn variable(&mut self, base: Option<&Datatype>, bytes: &[u8]) -> Result<Element, Error> {
        let Some((format, collections)) = self.heap else {
            let is_text = base.is_none();
            let unknown = if is_text { "variable-length string" } else { "variable-length sequence" };
            return Ok(Element::Unknown(unknown));
        };
        let (element, size) = (global_heap::parse_variable(bytes, format)?, base.map_or(1, Datatype::size));
        let Some(items) = global_heap::items_in(collections, element, size)? else {
            self.missing.extend(element.pointer.map(|pointer| pointer.collection));
            return Ok(Element::Unknown("not fetched"));
        };
        let length = items.len() as u64;
        if let Some(base) = base {
            return self.elements(base, length.checked_div(size).unwrap_or(0), &items).map(Element::List);
        }
        self.spend(length)?;
        Ok(text(unpadded(StringPadding::NullTerminated, &items)))
    }
}

/// Returns the object at a pointer, or `None` if its collection is not fetched.
pub(crate) fn object_in(collections: &Collections, pointer: HeapPointer) -> Result<Option<Bytes>, Error> {
    let HeapPointer { collection, index } = pointer;
    let Some(objects) = collections.get(&collection) else { return Ok(None) };
    let objects = objects.as_ref().map_err(Clone::clone)?;
    match u16::try_from(index).ok().and_then(|index| objects.get(&index)) {
        Some(object) => Ok(Some(object.clone())),
        None => Err(Error::malformed("global heap collection", collection, format!("no object {index}"))),
    }
}

/// Removes the padding of text.
fn unpadded(padding: StringPadding, bytes: &[u8]) -> &[u8] {
    let trimmed = |bytes: &[u8], filler: u8| {
        bytes.iter().rposition(|&byte| byte != filler).map_or(0, |last| last.saturating_add(1))
    };
    let end = match padding {
        StringPadding::NullTerminated => return bytes.split(|&byte| byte == 0).next().unwrap_or_default(),
        StringPadding::NullPadded => trimmed(bytes, 0),
        // libhdf5 pads with NULs on reading, after which NumPy and netCDF-C end the text before the last ones.
        StringPadding::SpacePadded => trimmed(bytes.get(..trimmed(bytes, b' ')).unwrap_or_default(), 0),
    };
    bytes.get(..end).unwrap_or_default()
}

fn text(bytes: &[u8]) -> Element {
    match std::str::from_utf8(bytes) {
        Ok(text) => Element::Text(text.to_owned()),
        Err(_) => Element::Bytes(bytes.to_vec()),
    }
}

/// Returns the bytes as an integer. `None` for more than 128 bits and for VAX order.
fn bits_of(order: ByteOrder, bytes: &[u8]) -> Option<u128> {
    let add = |sum: u128, byte: &u8| sum << 8 | u128::from(*byte);
    match order {
        _ if bytes.len() > 16 => None,
        ByteOrder::Little => Some(bytes.iter().rev().fold(0, add)),
        ByteOrder::Big => Some(bytes.iter().fold(0, add)),
        ByteOrder::Vax => None,
    }
}

/// Extracts `count` bits, starting at bit `first`.
fn field(bits: u128, first: u32, count: u32) -> u128 {
    let mask = 1_u128.checked_shl(count).map_or(u128::MAX, |bit| bit.wrapping_sub(1));
    bits.checked_shr(first).unwrap_or(0) & mask
}

fn decode_integer(integer: &Integer, bytes: &[u8]) -> Element {
    let Some(bits) = bits_of(integer.order, bytes) else { return Element::Unknown("integer over 128 bits") };
    let precision = u32::from(integer.precision);
    let value = field(bits, u32::from(integer.bit_offset), precision);
    let negative = integer.signed && precision > 0 && field(value, precision.saturating_sub(1), 1) == 1;
    let signs = if negative { u128::MAX.checked_shl(precision).unwrap_or(0) } else { 0 };
    match i128::from_ne_bytes((value | signs).to_ne_bytes()) {
        value if value < 0 && !negative => Element::Unknown("integer over 127 bits"),
        value => Element::Integer(value),
    }
}

/// Returns the value of a floating-point number, if an `f64` represents it exactly.
fn exact_float(float: &Float, bits: u128) -> Option<f64> {
    let exponent_size = u32::from(float.exponent_size);
    if !(1..=16).contains(&exponent_size) {
        return None;
    }
    let sign = field(bits, u32::from(float.sign_location), 1);
    let mantissa = field(bits, u32::from(float.mantissa_location), u32::from(float.mantissa_size));
    let exponent = i64::try_from(field(bits, u32::from(float.exponent_location), exponent_size)).ok()?;
    let highest = 1_i64.checked_shl(exponent_size)?.wrapping_sub(1);
    // The first bit of the mantissa is stored, or implied.
    let is_stored = float.normalization != 2;
    let fraction_size = u32::from(float.mantissa_size).checked_sub(is_stored.into())?;
    let first = 1_u128.checked_shl(fraction_size)?;
    let magnitude = match (exponent, is_stored) {
        (1.., true) if mantissa & first == 0 => return None,
        (exponent, _) if exponent == highest && mantissa & !first == 0 => f64::INFINITY,
        (exponent, _) if exponent == highest => f64::NAN,
        (1.., false) => scaled(mantissa | first, float, exponent, fraction_size)?,
        // libhdf5 gives subnormal numbers with a stored first bit half the value that the x87 gives them.
        (_, true) => scaled(mantissa, float, exponent, fraction_size)?,
        (_, false) => scaled(mantissa, float, exponent.max(1), fraction_size)?,
    };
    Some(if sign == 1 { -magnitude } else { magnitude })
}

/// Returns `significand` × 2^(`exponent` − bias − `fraction_size`), if that is exact.
fn scaled(significand: u128, float: &Float, exponent: i64, fraction_size: u32) -> Option<f64> {
    if significand == 0 {
        return Some(0.0);
    }
    let zeros = significand.trailing_zeros();
    let odd = u64::try_from(significand >> zeros).ok().filter(|odd| *odd < 1 << 53)?;
    let power = exponent.checked_sub(float.exponent_bias.into())?.checked_sub(fraction_size.into())?;
    let power = power.checked_add(zeros.into())?;
    // In two steps, because the smallest number, 2^-1074, is subnormal.
    let first = power.clamp(-1022, 1023);
    let value = odd as f64 * power_of_two(first)?;
    let value = value * power_of_two(power.checked_sub(first)?)?;
    let back = value / power_of_two(power.checked_sub(first)?)? / power_of_two(first)?;
    (back == odd as f64).then_some(value)
}

/// Returns 2^`power`, for the powers of normal numbers.
fn power_of_two(power: i64) -> Option<f64> {
    let biased = power.checked_add(1023).filter(|biased| (1..=2046).contains(biased))?;
    Some(f64::from_bits(u64::try_from(biased).ok()? << 52))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: h5py 3.16 on 64-bit floats with these fields.
    #[test]
    fn subnormals_with_a_stored_bit() {
        let float = |normalization| Float {
            size: 8,
            order: ByteOrder::Little,
            bit_offset: 0,
            precision: 64,
            sign_location: 63,
            exponent_location: 52,
            exponent_size: 11,
            mantissa_location: 0,
            mantissa_size: 52,
            exponent_bias: 1023,
            normalization,
        };
        for normalization in [0, 2] {
            assert_eq!(exact_float(&float(normalization), 0xf03f), Some(f64::from_bits(0xf03f)));
        }
        assert_eq!(exact_float(&float(0), 0x3ff8_0000_0000_0000), Some(1.0));
    }

    /// libhdf5 reads no text or sequence whose length is not that of its object.
    #[test]
    fn lengths_are_those_of_the_objects() {
        let format = Format { base: 0, offset_size: 4, length_size: 4 };
        let objects = BTreeMap::from([(1, Bytes::from_static(b"text"))]);
        let collections = Collections::from([(64, Ok(objects))]);
        for (length, is_right) in [(0, false), (3, false), (4, true), (5, false)] {
            let mut decoder = Decoder::new(Some((format, &collections)), 1 << 20);
            let pointer = [length, 0, 0, 0, 64, 0, 0, 0, 1, 0, 0, 0];
            assert_eq!(decoder.variable(None, &pointer).is_ok(), is_right, "text");
            let base = Datatype::Opaque { size: 1, tag: String::new() };
            assert_eq!(decoder.variable(Some(&base), &pointer).is_ok(), is_right, "sequence");
        }
    }
}
