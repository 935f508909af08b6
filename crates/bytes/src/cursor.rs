use crate::ByteRange;

/// Byte order of numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// The bytes at hand end before the structure does. Read `range`, then parse again from the structure's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{range} needed, only {available} there")]
pub struct NeedBytes {
    /// What the parser wanted to read.
    pub range: ByteRange,
    /// How many of these bytes it had.
    pub available: u64,
}

/// A reading position in borrowed bytes that knows where in the file they lie. Each read checks the end and moves on.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    address: u64,
    endian: Endian,
}

macro_rules! unsigned {
    ($($name:ident $type:ty),*) => {$(
        #[doc = concat!("The next `", stringify!($type), "` in the cursor's byte order.")]
        pub fn $name(&mut self) -> Result<$type, NeedBytes> {
            let bytes = self.array()?;
            Ok(match self.endian {
                Endian::Little => <$type>::from_le_bytes(bytes),
                Endian::Big => <$type>::from_be_bytes(bytes),
            })
        }
    )*};
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `data`, whose first byte lies at `address` in the file.
    pub const fn new(data: &'a [u8], address: u64, endian: Endian) -> Self {
        Self { rest: data, address, endian }
    }

    /// Little-endian, as all of HDF5's metadata.
    pub const fn little(data: &'a [u8], address: u64) -> Self {
        Self::new(data, address, Endian::Little)
    }

    unsigned!(u16 u16, u32 u32, u64 u64, i16 i16, i32 i32, i64 i64, f32 f32, f64 f64);

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, NeedBytes> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// The next unsigned integer of `size` bytes. Sizes over 8 are read whole; what does not fit is lost as `u64::MAX`.
    pub fn uint(&mut self, size: usize) -> Result<u64, NeedBytes> {
        let bytes = self.take(size)?;
        let add = |sum: u64, byte: &u8| match sum.checked_mul(256) {
            Some(shifted) => shifted | u64::from(*byte),
            None => u64::MAX,
        };
        Ok(match self.endian {
            Endian::Little => bytes.iter().rev().fold(0, add),
            Endian::Big => bytes.iter().fold(0, add),
        })
    }

    /// The next `N` bytes by value.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], NeedBytes> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, rest)) => {
                self.advance(rest, N as u64);
                Ok(*head)
            }
            None => Err(self.short(N as u64)),
        }
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], NeedBytes> {
        match self.rest.split_at_checked(count) {
            Some((head, rest)) => {
                self.advance(rest, count as u64);
                Ok(head)
            }
            None => Err(self.short(count as u64)),
        }
    }

    /// Like [`Cursor::take`] for a count read from the file.
    pub fn take_u64(&mut self, count: u64) -> Result<&'a [u8], NeedBytes> {
        match usize::try_from(count) {
            Ok(n) => self.take(n),
            Err(_) => Err(self.short(count)),
        }
    }

    /// A cursor over the next `count` bytes, which this one leaves behind.
    pub fn sub(&mut self, count: usize) -> Result<Cursor<'a>, NeedBytes> {
        let address = self.address;
        Ok(Cursor { rest: self.take(count)?, address, endian: self.endian })
    }

    /// The bytes up to the next NUL, which is passed over. Asks for one more byte where there is no NUL.
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

    /// Passes over `count` bytes.
    pub fn skip(&mut self, count: usize) -> Result<(), NeedBytes> {
        self.take(count).map(drop)
    }

    /// The bytes not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// How many bytes are not read yet.
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether all is read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Where in the file the next byte lies.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// The byte order of the numbers read.
    pub const fn endian(&self) -> Endian {
        self.endian
    }

    fn advance(&mut self, rest: &'a [u8], count: u64) {
        self.rest = rest;
        self.address = self.address.saturating_add(count);
    }

    fn short(&self, length: u64) -> NeedBytes {
        NeedBytes { range: ByteRange::new(self.address, length), available: self.rest.len() as u64 }
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
    fn says_what_is_missing() {
        let mut cursor = Cursor::little(&[1, 2, 3], 0x40);
        cursor.skip(2).unwrap();
        let missing = NeedBytes { range: ByteRange::new(0x42, 4), available: 1 };
        assert_eq!(cursor.u32(), Err(missing));
        assert_eq!(cursor.u8(), Ok(3), "a failed read moves nothing");
    }

    #[test]
    fn an_integer_too_wide_saturates() {
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
