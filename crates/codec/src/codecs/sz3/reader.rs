//! Fields of a stream.

use super::{cut_off, number::Number};
use crate::CodecFailure;

/// Bytes that are not read yet.
#[derive(Clone, Copy)]
pub(in crate::codecs) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(in crate::codecs) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(in crate::codecs) fn bytes(&mut self, count: usize) -> Result<&'a [u8], CodecFailure> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(in crate::codecs) fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecFailure> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub(in crate::codecs) fn flag(&mut self) -> Result<bool, CodecFailure> {
        self.array::<1>().map(|[byte]| byte != 0)
    }

    pub(in crate::codecs) fn i32(&mut self) -> Result<i32, CodecFailure> {
        self.array().map(i32::from_le_bytes)
    }

    pub(in crate::codecs) fn f32(&mut self) -> Result<f32, CodecFailure> {
        self.array().map(f32::from_le_bytes)
    }

    pub(in crate::codecs) fn f64(&mut self) -> Result<f64, CodecFailure> {
        self.array().map(f64::from_le_bytes)
    }

    /// Reads a number of 8 bytes.
    pub(in crate::codecs) fn size(&mut self) -> Result<usize, CodecFailure> {
        usize::try_from(u64::from_le_bytes(self.array()?)).map_err(|_| cut_off())
    }

    pub(in crate::codecs) fn i32_be(&mut self) -> Result<i32, CodecFailure> {
        self.array().map(i32::from_be_bytes)
    }

    /// Reads a number of 4 bytes, most significant first.
    pub(in crate::codecs) fn big_endian(&mut self) -> Result<usize, CodecFailure> {
        usize::try_from(u32::from_be_bytes(self.array()?)).map_err(|_| cut_off())
    }

    /// Reads values, the number of which comes first.
    pub(in crate::codecs) fn values<T: Number>(&mut self) -> Result<Vec<T>, CodecFailure> {
        let count = self.size()?;
        let bytes = self.bytes(count.checked_mul(T::SIZE).ok_or_else(cut_off)?)?;
        bytes.chunks_exact(T::SIZE).map(|bytes| T::from_le_slice(bytes).ok_or_else(cut_off)).collect()
    }

    pub(in crate::codecs) fn rest(&self) -> &'a [u8] {
        self.0
    }
}
