use crate::ByteRange;

/// Byte order of numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// The available bytes end before the structure does. Read `range`, then parse again from the start of the structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{range} needed")]
pub struct NeedBytes {
    /// The range that the parser needs.
    pub range: ByteRange,
}

/// A reading position in borrowed bytes with their address in the file. Every read is bounds-checked; one that fails does
/// not move the cursor.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    address: u64,
    endian: Endian,
}

macro_rules! unsigned {
    ($($type:ident),*) => {$(
        #[doc = concat!("Reads a `", stringify!($type), "` in the cursor's byte order.")]
        pub fn $type(&mut self) -> Result<$type, NeedBytes> {
            let bytes = self.array()?;
            Ok(match self.endian {
                Endian::Little => <$type>::from_le_bytes(bytes),
                Endian::Big => <$type>::from_be_bytes(bytes),
            })
        }
    )*};
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of `data`, whose first byte is at `address` in the file.
    pub const fn new(data: &'a [u8], address: u64, endian: Endian) -> Self {
        Self { rest: data, address, endian }
    }

    /// Creates a little-endian cursor, as for all metadata of HDF5.
    pub const fn little(data: &'a [u8], address: u64) -> Self {
        Self::new(data, address, Endian::Little)
    }

    unsigned!(u8, u16, u32, u64);

    /// Reads an unsigned integer of `size` bytes, which may be more than 8. A value over 64 bits saturates.
    pub fn uint(&mut self, size: usize) -> Result<u64, NeedBytes> {
        let bytes = self.take(size)?;
        let add = |sum: u64, byte: &u8| match sum.checked_mul(256) {
            Some(shifted) => shifted | u64::from(*byte),
            None => u64::MAX,
        };
        Ok(match (self.endian, bytes.as_array()) {
            (Endian::Little, Some(word)) => u64::from_le_bytes(*word),
            (Endian::Big, Some(word)) => u64::from_be_bytes(*word),
            (Endian::Little, None) => bytes.iter().rev().fold(0, add),
            (Endian::Big, None) => bytes.iter().fold(0, add),
        })
    }

    /// Reads `N` bytes by value.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], NeedBytes> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, rest)) => {
                self.advance(rest, N as u64);
                Ok(*head)
            }
            None => Err(self.short(N as u64)),
        }
    }

    /// Reads `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], NeedBytes> {
        match self.rest.split_at_checked(count) {
            Some((head, rest)) => {
                self.advance(rest, count as u64);
                Ok(head)
            }
            None => Err(self.short(count as u64)),
        }
    }

    /// Reads `count` bytes, for a count from the file.
    pub fn take_u64(&mut self, count: u64) -> Result<&'a [u8], NeedBytes> {
        match usize::try_from(count) {
            Ok(n) => self.take(n),
            Err(_) => Err(self.short(count)),
        }
    }

    /// Reads the bytes up to the next NUL and skips the NUL. Without a NUL, the error requests one more byte.
    pub fn nul_terminated(&mut self) -> Result<&'a [u8], NeedBytes> {
        match self.rest.iter().position(|&byte| byte == 0) {
            Some(at) => {
                let text = self.take(at)?;
                self.skip(1)?;
                Ok(text)
            }
            None => Err(self.short((self.rest.len() as u64).saturating_add(1))),
        }
    }

    /// Skips `count` bytes.
    pub fn skip(&mut self, count: usize) -> Result<(), NeedBytes> {
        self.take(count).map(drop)
    }

    /// Returns the unread bytes.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the number of unread bytes.
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns whether all bytes are read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the address of the next byte in the file.
    pub const fn address(&self) -> u64 {
        self.address
    }

    fn advance(&mut self, rest: &'a [u8], count: u64) {
        self.rest = rest;
        self.address = self.address.saturating_add(count);
    }

    fn short(&self, length: u64) -> NeedBytes {
        NeedBytes { range: ByteRange::new(self.address, length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_in_either_byte_order() {
        let bytes = [1, 2, 3, 4, 5, 6];
        let mut little = Cursor::little(&bytes, 0);
        let mut big = Cursor::new(&bytes, 0, Endian::Big);
        assert_eq!((little.u16(), big.u16()), (Ok(0x0201), Ok(0x0102)));
        assert_eq!((little.uint(3), big.uint(3)), (Ok(0x050403), Ok(0x030405)));
        assert_eq!(little.address(), 5);
    }

    #[test]
    fn reports_the_missing_range() {
        let mut cursor = Cursor::little(&[1, 2, 3], 0x40);
        cursor.skip(2).unwrap();
        let missing = NeedBytes { range: ByteRange::new(0x42, 4) };
        assert_eq!(cursor.u32(), Err(missing));
        assert_eq!(cursor.u8(), Ok(3), "a failed read does not move the cursor");
    }

    #[test]
    fn integers_over_64_bits_saturate() {
        let mut cursor = Cursor::little(&[0, 0, 0, 0, 0, 0, 0, 0, 1], 0);
        assert_eq!(cursor.uint(9), Ok(u64::MAX));
    }

    #[test]
    fn text_ends_at_its_nul() {
        let mut cursor = Cursor::little(b"ab\0c", 0);
        assert_eq!(cursor.nul_terminated(), Ok(&b"ab"[..]));
        assert_eq!(cursor.nul_terminated().unwrap_err().range, ByteRange::new(3, 2));
    }
}
