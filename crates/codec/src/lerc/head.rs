//! The header of a blob.

use super::{CodecFailure, bits::Input, broken, read};

const KEY: &[u8; 6] = b"Lerc2 ";
/// Bytes that the checksum does not cover: key, version and itself.
const UNCHECKED: usize = 14;
/// Most bytes that a header has.
const LONGEST: usize = 96;

/// What a blob says of itself.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Head {
    /// 3 to 6.
    pub version: i32,
    /// Rows of pixels.
    pub rows: usize,
    /// Columns of pixels.
    pub columns: usize,
    /// Values of a pixel.
    pub depth: usize,
    /// Pixels that are not masked.
    pub valid: usize,
    /// Bytes of the blob.
    pub blob_size: usize,
    pub(super) block: usize,
    pub(super) double: bool,
    /// Values stand for "no data" beside the mask (version 6).
    pub(super) has_nodata: bool,
    pub(super) greatest_error: f64,
    pub(super) least: f64,
    pub(super) greatest: f64,
    checksum: u32,
    length: usize,
}

impl Head {
    /// Most bytes that are needed to read a header.
    pub const BYTES: usize = LONGEST;

    /// Reads the header at the front of these bytes.
    ///
    /// # Errors
    /// Where this is no blob of versions 3 to 6, or none of floating-point numbers.
    pub fn parse(bytes: &[u8]) -> Result<Self, CodecFailure> {
        let mut input = Input(bytes);
        if read(&mut input, KEY.len())? != KEY {
            return Err(broken("no LERC2 blob"));
        }
        let version = input.int()?;
        if !(3..=6).contains(&version) {
            return Err(broken(&format!("version {version}, expected 3 to 6")));
        }
        let checksum = u32::from_le_bytes(input.array()?);
        let (rows, columns) = (input.count()?, input.count()?);
        let depth = if version >= 4 { input.count()? } else { 1 };
        let [valid, block, blob_size] = [input.count()?, input.count()?, input.count()?];
        let double = match input.int()? {
            6 => false,
            7 => true,
            other => return Err(broken(&format!("data type {other}, expected 6 or 7: floats"))),
        };
        let mut has_nodata = false;
        if version >= 6 {
            input.int()?;
            has_nodata = input.array::<4>()?.first() != Some(&0);
        }
        let [greatest_error, least, greatest] = [input.double()?, input.double()?, input.double()?];
        if version >= 6 {
            read(&mut input, 16)?;
        }
        let length = bytes.len() - input.0.len();
        let head = Self {
            version,
            rows,
            columns,
            depth,
            valid,
            blob_size,
            block,
            double,
            has_nodata,
            greatest_error,
            least,
            greatest,
            checksum,
            length,
        };
        let sound = head.pixels().is_some_and(|pixels| valid <= pixels && pixels > 0)
            && depth > 0
            && block > 0
            && blob_size >= length
            && greatest_error >= 0.0;
        if sound { Ok(head) } else { Err(broken("sizes that do not fit each other")) }
    }

    /// Whether every pixel has its values, and there are so many of the type of this size.
    pub fn is_plain(&self, elements: u64, size: usize) -> bool {
        self.pixels() == Some(self.valid) && self.holds(elements, size)
    }

    /// Whether this one blob has so many values, masked ones counted, of the type of this size.
    pub fn holds(&self, elements: u64, size: usize) -> bool {
        self.samples().is_some_and(|samples| samples as u64 == elements)
            && self.size() == size
            && !self.has_nodata
    }

    /// Bytes of a value.
    pub fn size(&self) -> usize {
        if self.double { 8 } else { 4 }
    }

    pub(super) fn pixels(&self) -> Option<usize> {
        self.rows.checked_mul(self.columns)
    }

    pub(super) fn samples(&self) -> Option<usize> {
        self.pixels()?.checked_mul(self.depth)
    }

    /// Whether another blob cannot belong to the same chunk.
    pub(super) fn differs(&self, other: &Self) -> bool {
        let sizes = |head: &Self| (head.rows, head.columns, head.depth, head.double);
        sizes(self) != sizes(other)
    }

    /// What follows the header, once the checksum has been compared.
    pub(super) fn check<'a>(&self, blob: &'a [u8]) -> Result<Input<'a>, CodecFailure> {
        let found = fletcher32(blob.get(UNCHECKED..).unwrap_or_default());
        if found != self.checksum {
            return Err(broken(&format!("checksum {found:#x}, expected {:#x}", self.checksum)));
        }
        Ok(self.after(blob))
    }

    /// What follows the header.
    pub(super) fn after<'a>(&self, blob: &'a [u8]) -> Input<'a> {
        Input(blob.get(self.length..).unwrap_or_default())
    }
}

/// Fletcher's checksum of 16-bit words, most significant byte first.
pub(super) fn fletcher32(bytes: &[u8]) -> u32 {
    const BEFORE_OVERFLOW: usize = 359;
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (mut low, mut high) = (0xffff_u32, 0xffff_u32);
    for words in bytes.chunks(BEFORE_OVERFLOW * 2) {
        for word in words.chunks(2) {
            let word = match *word {
                [first, second] => u16::from_be_bytes([first, second]),
                [first, ..] => u16::from_be_bytes([first, 0]),
                [] => 0,
            };
            low += u32::from(word);
            high += low;
        }
        (low, high) = (fold(low), fold(high));
    }
    fold(high) << 16 | fold(low)
}
