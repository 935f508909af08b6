//! Huffman codes of integers (`SZ3/encoder/HuffmanEncoder.hpp`).
//!
//! ```text
//! 4  least number (little-endian)   4  nodes (big-endian)   4  half the numbers of the code (big-endian)
//! 1  byte order   left children, right children   numbers, 4 bytes each   whether each node is a leaf, 1 byte each
//! 8  bytes of the bits   the bits, most significant first: 0 left, 1 right
//! ```
//!
//! Children are indices of 1, 2 or 4 bytes, as the number of nodes requires.

use super::{NAME, cut_off, number::Number};
use crate::{CodecFailure, corrupt, unsupported};

/// A node of the tree.
#[derive(Clone, Copy)]
struct Node {
    children: [u32; 2],
    number: i32,
    is_leaf: bool,
}

/// The tree of a code. Node 0 is the root.
pub(crate) struct Tree(Vec<Node>);

/// Reads a code and decodes `count` numbers with it.
pub(super) fn decode(reader: &mut Reader<'_>, count: usize) -> Result<Vec<i32>, CodecFailure> {
    let least = reader.i32()?;
    let (nodes, _numbers) = (reader.big_endian()?, reader.big_endian()?);
    let tree = Tree::parse(reader, nodes)?;
    let stored = reader.size()?;
    let numbers = tree.decode(reader.rest(), count, least)?;
    reader.bytes(stored)?;
    Ok(numbers)
}

impl Tree {
    /// Parses a tree from its byte order on.
    pub(crate) fn parse(reader: &mut Reader<'_>, count: usize) -> Result<Self, CodecFailure> {
        if reader.flag()? {
            return Err(unsupported(NAME, "trees of big-endian machines"));
        }
        let width = match count {
            0..=256 => 1,
            257..=65536 => 2,
            _ => 4,
        };
        let mut bytes = |width: usize| reader.bytes(count.checked_mul(width).ok_or_else(cut_off)?);
        let (left, right) = (bytes(width)?.chunks_exact(width), bytes(width)?.chunks_exact(width));
        let (numbers, leaves) = (bytes(4)?.as_chunks::<4>().0, bytes(1)?);
        let index = |bytes: &[u8]| bytes.iter().rev().fold(0, |index, byte| index << 8 | u32::from(*byte));
        let nodes = left.zip(right).zip(numbers).zip(leaves).map(|(((left, right), number), leaf)| Node {
            children: [index(left), index(right)],
            number: i32::from_le_bytes(*number),
            is_leaf: *leaf != 0,
        });
        Ok(Self(nodes.collect()))
    }

    /// Decodes `count` numbers, to which `least` is added.
    pub(crate) fn decode(&self, bits: &[u8], count: usize, least: i32) -> Result<Vec<i32>, CodecFailure> {
        let root = *self.0.first().ok_or_else(|| corrupt(NAME, "a code without nodes"))?;
        if root.is_leaf {
            return Ok(vec![root.number.wrapping_add(least); count]);
        }
        // Each number takes a bit.
        if count > bits.len().saturating_mul(8) {
            return Err(cut_off());
        }
        let mut numbers = Vec::with_capacity(count);
        let mut node = root;
        for bit in bits.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)) {
            if numbers.len() == count {
                break;
            }
            // The root is not a child.
            let [left, right] = node.children;
            let child = usize::try_from(if bit == 0 { left } else { right }).ok().filter(|child| *child > 0);
            node = *child.and_then(|child| self.0.get(child)).ok_or_else(cut_off)?;
            if node.is_leaf {
                numbers.push(node.number.wrapping_add(least));
                node = root;
            }
        }
        if numbers.len() == count { Ok(numbers) } else { Err(cut_off()) }
    }
}

// Fields of a stream.

/// Bytes that are not read yet.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], CodecFailure> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecFailure> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, CodecFailure> {
        self.array::<1>().map(|[byte]| byte != 0)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, CodecFailure> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn f32(&mut self) -> Result<f32, CodecFailure> {
        self.array().map(f32::from_le_bytes)
    }

    pub(crate) fn f64(&mut self) -> Result<f64, CodecFailure> {
        self.array().map(f64::from_le_bytes)
    }

    /// Reads a number of 8 bytes.
    pub(crate) fn size(&mut self) -> Result<usize, CodecFailure> {
        usize::try_from(u64::from_le_bytes(self.array()?)).map_err(|_| cut_off())
    }

    pub(crate) fn i32_be(&mut self) -> Result<i32, CodecFailure> {
        self.array().map(i32::from_be_bytes)
    }

    /// Reads a number of 4 bytes, most significant first.
    pub(crate) fn big_endian(&mut self) -> Result<usize, CodecFailure> {
        usize::try_from(u32::from_be_bytes(self.array()?)).map_err(|_| cut_off())
    }

    /// Reads `count` values.
    pub(crate) fn values<T: Number>(&mut self, count: usize) -> Result<std::vec::IntoIter<T>, CodecFailure> {
        let bytes = self.bytes(count.checked_mul(T::SIZE).ok_or_else(cut_off)?)?;
        let values: Option<Vec<T>> = bytes.chunks_exact(T::SIZE).map(T::from_le_slice).collect();
        Ok(values.ok_or_else(cut_off)?.into_iter())
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }
}
