//! Parameters of HDF5's filters: client data as numbers in the file, and by name in metadata.

use std::marker::PhantomData;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned, de::Error as _, ser::Error as _,
};

use super::Codec;
use crate::Endian;

/// NumPy strings of the numbers that ZFP compresses.
pub(super) const ZFP: [&str; 4] = ["<i4", "<i8", "<f4", "<f8"];
/// Numbers of SZ and SPERR; those of SZ by their code in its client data.
pub(super) const FLOATS: [&str; 2] = ["<f4", "<f8"];
/// Numbers of SZ3, by their code in its client data.
pub(super) const SZ3: [&str; 10] = ["<f4", "<f8", "|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8"];
/// Numbers that LERC compresses.
pub(super) const LERC: [&str; 8] = ["|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<f4", "<f8"];

/// Parameters of a filter by name.
pub trait Parameters: Serialize + DeserializeOwned {
    /// Parses client data. Returns `None` for combinations that the filter does not have.
    fn from_client_data(client_data: &[u32]) -> Option<Self>;

    /// Returns the client data.
    fn to_client_data(&self) -> Option<Vec<u32>>;
}

/// Represents client data by [`Parameters`] in serde.
pub(super) struct ClientData<T>(PhantomData<T>);

impl<T: Parameters> ClientData<T> {
    pub(super) fn serialize<S: Serializer>(client_data: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
        let parameters = T::from_client_data(client_data);
        parameters.ok_or_else(|| S::Error::custom("invalid client data"))?.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
        T::deserialize(deserializer)?.to_client_data().ok_or_else(|| D::Error::custom("invalid parameters"))
    }
}

/// Szip (4). Further client data that libhdf5 appends is dropped.
#[derive(Serialize, Deserialize)]
pub(super) struct Szip {
    options_mask: u32,
    pixels_per_block: u32,
    bits_per_pixel: u32,
    pixels_per_scanline: u32,
}

impl Parameters for Szip {
    fn from_client_data(client_data: &[u32]) -> Option<Self> {
        let [options_mask, pixels_per_block, bits_per_pixel, pixels_per_scanline, ..] = *client_data else {
            return None;
        };
        Some(Self { options_mask, pixels_per_block, bits_per_pixel, pixels_per_scanline })
    }

    fn to_client_data(&self) -> Option<Vec<u32>> {
        Some(vec![self.options_mask, self.pixels_per_block, self.bits_per_pixel, self.pixels_per_scanline])
    }
}

/// Bitshuffle (32008), whose framing no released reader knows.
/// <https://github.com/kiyo-masui/bitshuffle/blob/master/src/bshuf_h5filter.c>
#[derive(Serialize, Deserialize)]
pub(super) struct Bitshuffle {
    element_size: u32,
    block_size: u32,
    compression: Compression,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Compression {
    None = 0,
    Lz4 = 2,
    Zstd = 3,
}

impl Parameters for Bitshuffle {
    fn from_client_data(client_data: &[u32]) -> Option<Self> {
        let compression = match client_data.get(4).copied().unwrap_or(0) {
            0 => Compression::None,
            2 => Compression::Lz4,
            3 => Compression::Zstd,
            _ => return None,
        };
        let block_size = client_data.get(3).copied().unwrap_or(0);
        Some(Self { element_size: *client_data.get(2)?, block_size, compression })
    }

    fn to_client_data(&self) -> Option<Vec<u32>> {
        Some(vec![0, 0, self.element_size, self.block_size, self.compression as u32])
    }
}

/// Scale-offset (6), which no released reader decodes. Client data: scale type, scale factor, elements, class (0 integer,
/// 1 float), size, sign, byte order, whether a fill value is defined, the fill value in 4-byte words.
/// <https://github.com/HDFGroup/hdf5/blob/develop/src/H5Zscaleoffset.c>
#[derive(Serialize, Deserialize)]
pub struct ScaleOffset {
    r#type: Class,
    /// Decimal digits of floats; `None` for integers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decimals: Option<i32>,
    /// Bytes of an element.
    pub size: u32,
    /// Byte order of elements.
    pub byte_order: Endian,
    /// Elements of a chunk.
    pub elements: u32,
    /// Bits of the fill value, if it is defined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill_value_bits: Option<u64>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Class {
    Integer,
    Float,
}

impl Parameters for ScaleOffset {
    fn from_client_data(client_data: &[u32]) -> Option<Self> {
        let [scale_type, factor, elements, class, size, sign, order, filled, fill @ ..] = client_data else {
            return None;
        };
        let factor = factor.cast_signed();
        let (r#type, decimals) = match (class, scale_type, size) {
            (0, 2, 1 | 2 | 4 | 8) if *sign <= 1 && i64::from(factor) <= i64::from(*size) * 8 => {
                (Class::Integer, None)
            }
            (1, 0, 4 | 8) => (Class::Float, Some(factor)),
            _ => return None,
        };
        let word = |at| u64::from(fill.get(at).copied().unwrap_or(0));
        Some(Self {
            r#type,
            decimals,
            size: *size,
            byte_order: byte_order(*order)?,
            elements: *elements,
            fill_value_bits: (*filled == 1).then(|| (word(1) << 32) | word(0)),
        })
    }

    fn to_client_data(&self) -> Option<Vec<u32>> {
        let (scale_type, factor, class) = match self.r#type {
            Class::Integer => (2, 0, 0),
            Class::Float => (0, self.decimals?.cast_unsigned(), 1),
        };
        let order = self.byte_order as u32;
        let mut client_data = vec![scale_type, factor, self.elements, class, self.size, 0, order];
        match self.fill_value_bits {
            None => client_data.push(0),
            Some(bits) => {
                let word = |bits: u64| u32::try_from(bits & 0xffff_ffff).ok();
                client_data.extend([1, word(bits)?, word(bits >> 32)?]);
            }
        }
        Some(client_data)
    }
}

fn byte_order(order: u32) -> Option<Endian> {
    match order {
        0 => Some(Endian::Little),
        1 => Some(Endian::Big),
        _ => None,
    }
}

/// Nbit (5), which no released reader decodes. Client data: number of values, whether chunks are stored unchanged,
/// elements per chunk, the type. <https://github.com/HDFGroup/hdf5/blob/develop/src/H5Znbit.c>
#[derive(Serialize, Deserialize)]
pub struct Nbit {
    /// Elements of a chunk.
    pub elements: u32,
    /// Type of an element.
    pub r#type: NbitType,
}

/// Type of nbit. Client data: 1 atomic (size, byte order, precision, bit offset), 2 array (size, base type), 3 compound
/// (size, number of members, then offset and type of each), 4 any other (size), stored unchanged.
#[derive(Serialize, Deserialize)]
#[serde(tag = "class", rename_all = "lowercase")]
#[expect(missing_docs, reason = "named as in the client data")]
pub enum NbitType {
    Atomic { size: u32, byte_order: Endian, precision: u32, offset: u32 },
    Array { size: u32, base: Box<NbitType> },
    Compound { size: u32, members: Vec<NbitMember> },
    Unchanged { size: u32 },
}

/// A member of a compound type.
#[derive(Serialize, Deserialize)]
pub struct NbitMember {
    /// Offset in the compound, in bytes.
    pub at: u32,
    /// Type.
    pub r#type: NbitType,
}

/// Maximum depth of nested types of nbit.
const MAX_DEPTH: usize = 32;

impl Parameters for Nbit {
    fn from_client_data(client_data: &[u32]) -> Option<Self> {
        let [_, 0, elements, description @ ..] = client_data else { return None };
        let r#type = NbitType::read(&mut description.iter().copied(), MAX_DEPTH)?;
        Some(Self { elements: *elements, r#type })
    }

    fn to_client_data(&self) -> Option<Vec<u32>> {
        let mut client_data = vec![0, 0, self.elements];
        self.r#type.write(MAX_DEPTH, &mut client_data)?;
        *client_data.first_mut()? = u32::try_from(client_data.len()).ok()?;
        Some(client_data)
    }
}

impl NbitType {
    /// Returns the bytes of an element.
    pub fn size(&self) -> u32 {
        match self {
            Self::Atomic { size, .. }
            | Self::Array { size, .. }
            | Self::Compound { size, .. }
            | Self::Unchanged { size } => *size,
        }
    }

    fn read(values: &mut dyn Iterator<Item = u32>, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let (class, size) = (values.next()?, values.next().filter(|size| *size > 0)?);
        Some(match class {
            1 => {
                let (byte_order, precision, offset) =
                    (byte_order(values.next()?)?, values.next()?, values.next()?);
                let fits = size <= 8 && precision > 0 && precision.checked_add(offset)? <= size * 8;
                fits.then_some(Self::Atomic { size, byte_order, precision, offset })?
            }
            2 => {
                let base = Self::read(values, depth).map(Box::new)?;
                size.is_multiple_of(base.size()).then_some(Self::Array { size, base })?
            }
            3 => {
                let count = values.next()?;
                let mut members = Vec::new();
                for _ in 0..count {
                    let member = NbitMember { at: values.next()?, r#type: Self::read(values, depth)? };
                    let end = member.at.checked_add(member.r#type.size()).filter(|end| *end <= size);
                    end.map(|_| members.push(member))?;
                }
                Self::Compound { size, members }
            }
            4 => Self::Unchanged { size },
            _ => return None,
        })
    }

    fn write(&self, depth: usize, out: &mut Vec<u32>) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match self {
            Self::Atomic { size, byte_order, precision, offset } => {
                out.extend([1, *size, *byte_order as u32, *precision, *offset]);
            }
            Self::Array { size, base } => {
                out.extend([2, *size]);
                base.write(depth, out)?;
            }
            Self::Compound { size, members } => {
                out.extend([3, *size, u32::try_from(members.len()).ok()?]);
                for member in members {
                    out.push(member.at);
                    member.r#type.write(depth, out)?;
                }
            }
            Self::Unchanged { size } => out.extend([4, *size]),
        }
        Some(())
    }
}

/// An integer as it is stored. HDF5's datatypes have a precision and a bit offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoredInteger {
    /// Bytes, at most 16.
    #[serde(rename = "stored_size")]
    pub size: u32,
    /// Byte order.
    #[serde(rename = "stored_byte_order")]
    pub endian: Endian,
    /// First significant bit, from the least significant one.
    pub offset: u16,
    /// Significant bits.
    pub precision: u16,
    /// Whether the significant bits are in two's complement.
    pub signed: bool,
}

impl Codec {
    /// Returns SZ for floats whose type has this code in the client data of the HDF5 filter, and for chunks of this shape,
    /// slowest axis first.
    pub fn sz(code: usize, shape: Vec<u64>) -> Option<Self> {
        FLOATS.get(code).map(|dtype| Self::Sz { dtype, shape })
    }

    /// Returns SZ3 for numbers whose type has this code in the client data of the HDF5 filter.
    pub fn sz3(code: usize) -> Option<Self> {
        SZ3.get(code).map(|dtype| Self::Sz3 { dtype })
    }

    /// Returns SPERR by the client data of the HDF5 filter: a word of the number of axes (bits 0 to 3), single precision (bit
    /// 4) and version (bits 10 to 15), a word of the mode of compression and whether axes are swapped (bit 31), then the
    /// shape of a chunk, which H5Z-SPERR takes as fastest axis first unless they are swapped.
    pub fn sperr(client_data: &[u32]) -> Option<Self> {
        let [description, mode, sizes @ ..] = client_data else { return None };
        let axes = description & 15;
        let version = description >> 10 & 63;
        if !(2..=3).contains(&axes) || version > 1 || u32::try_from(sizes.len()) != Ok(axes) {
            return None;
        }
        let mut shape: Vec<u64> = sizes.iter().map(|size| u64::from(*size)).collect();
        if mode >> 31 == 0 {
            shape.reverse();
        }
        let dtype = if description & 16 != 0 { "<f4" } else { "<f8" };
        Some(Self::Sperr { dtype, shape, has_mode: version > 0 })
    }
}
