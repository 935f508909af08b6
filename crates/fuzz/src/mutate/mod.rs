//! Mutations that know the structure of a file: its fields, and which structures end with a checksum.

pub mod hdf5;
pub mod netcdf3;
pub mod tiff;

use std::{cell::RefCell, collections::HashMap, ops::Range};

use fastrand::Rng;

use crate::damage::overwrite;

/// The structures of a file, as far as a mutation needs them.
#[derive(Clone, Default, Debug)]
pub struct Layout {
    pub fields: Vec<Field>,
    pub structures: Vec<Structure>,
    /// Blocks of the fractal heaps of HDF5 with a checksum.
    pub blocks: Vec<hdf5::Block>,
    pub is_big_endian: bool,
}

/// A number: a length, address, count, version, flag, type or size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    pub at: usize,
    pub width: usize,
}

/// A structure that can be copied over another one of its kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Structure {
    pub kind: [u8; 4],
    pub range: Range<usize>,
}

/// What a format adds to [`mutate`].
pub struct Format {
    pub layout: fn(&[u8]) -> Layout,
    /// A mutation that needs more than the layout.
    pub special: Option<fn(&mut Vec<u8>, &mut Rng)>,
    /// Repairs checksums, given the layout of the file before the mutation.
    pub repair: fn(&mut [u8], &Layout),
}

/// Maximum number of layouts that are kept: finding the checksums is slow.
const MAX_LAYOUTS: usize = 4096;

thread_local! {
    static LAYOUTS: RefCell<HashMap<u64, Layout>> = RefCell::default();
    /// The layout of the file that was mutated last: libFuzzer mutates it again.
    static LAST: RefCell<(u64, Layout)> = RefCell::default();
}

/// Mutates the first `size` bytes of `data` in place, and returns the new size, at most `max_size`.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32, format: &Format) -> usize {
    let (mut bytes, max_size) = (data[..size].to_vec(), max_size.min(data.len()));
    let random = &mut Rng::with_seed(seed.into());
    let original = key(&bytes);
    let last = LAST.with_borrow(|(known, last)| (*known == original).then(|| last.clone()));
    let layout = last.unwrap_or_else(|| {
        LAYOUTS.with_borrow_mut(|layouts| {
            if layouts.len() >= MAX_LAYOUTS {
                layouts.clear();
            }
            layouts.entry(original).or_insert_with(|| (format.layout)(&bytes)).clone()
        })
    });
    for _ in 0..=random.usize(..3) {
        match format.special {
            Some(special) if random.bool() => special(&mut bytes, random),
            _ => change(&mut bytes, &layout, max_size, random),
        }
    }
    bytes.truncate(max_size);
    if random.u8(..) > 8 {
        (format.repair)(&mut bytes, &layout);
    }
    LAST.set((key(&bytes), layout));
    data[..bytes.len()].copy_from_slice(&bytes);
    bytes.len()
}

/// Returns a number that identifies a file.
pub fn key(bytes: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn change(bytes: &mut Vec<u8>, layout: &Layout, max_size: usize, random: &mut Rng) {
    let is_big_endian = layout.is_big_endian;
    match random.u8(..32) {
        // Sets a field to a boundary, or to a value near its own.
        0..20 => {
            let Some(field) = layout.field(random) else { return };
            let Some(value) = field.get(bytes, is_big_endian) else { return };
            let bits = field.width as u32 * 8;
            let size = bytes.len() as u64;
            let value = match random.u8(..14) {
                0 => 0,
                1 => 1,
                2 => u64::MAX,
                3 => u64::MAX - 1,
                4 => u64::MAX >> (65 - bits),
                5 => 1 << (bits - 1),
                6 | 7 => value.wrapping_add(1),
                8 | 9 => value.wrapping_sub(1),
                10 => value ^ 1 << random.u32(..bits),
                11 => [value.wrapping_mul(2), value / 2, value.wrapping_add(8), value.wrapping_sub(8)]
                    [random.usize(..4)],
                12 => [size, size.wrapping_sub(1), size.wrapping_sub(value), size + 1][random.usize(..4)],
                _ => random.u64(..) >> random.u32(..64),
            };
            field.set(bytes, value, is_big_endian);
        }
        // Copies a field over another one of its width, or swaps the two.
        20..24 => {
            let Some(field) = layout.field(random) else { return };
            let same = layout.fields.iter().filter(|other| other.width == field.width);
            let Some(other) = random.choice(same.collect::<Vec<_>>()) else { return };
            let Some(value) = field.get(bytes, is_big_endian) else { return };
            let Some(others) = other.get(bytes, is_big_endian) else { return };
            field.set(bytes, others, is_big_endian);
            if random.bool() {
                other.set(bytes, value, is_big_endian);
            }
        }
        // Copies a structure over another one of its kind.
        24..26 => {
            let Some(from) = random.choice(&layout.structures) else { return };
            let same = layout.structures.iter().filter(|other| other.kind == from.kind && *other != from);
            let Some(to) = random.choice(same.collect::<Vec<_>>()) else { return };
            let length = from.range.len().min(to.range.len());
            if from.range.start + length <= bytes.len() && to.range.start + length <= bytes.len() {
                bytes.copy_within(from.range.start..from.range.start + length, to.range.start);
            }
        }
        26..30 => overwrite(bytes, random),
        30 => {
            let at = match random.choice(&layout.structures) {
                Some(structure) if random.bool() => {
                    [structure.range.start, structure.range.end][random.usize(..2)]
                }
                _ => bytes.len() - random.usize(..=bytes.len().min(64)),
            };
            bytes.truncate(at);
        }
        _ => {
            let more = random.usize(..64).min(max_size.saturating_sub(bytes.len()));
            bytes.extend(std::iter::repeat_with(|| random.u8(..)).take(more));
        }
    }
}

impl Layout {
    /// Chooses a structure, then a field in it, so that small structures are changed as often as large ones.
    fn field(&self, random: &mut Rng) -> Option<Field> {
        let Structure { range, .. } = random.choice(&self.structures)?;
        let start = self.fields.partition_point(|field| field.at < range.start);
        let end = self.fields.partition_point(|field| field.at < range.end);
        random.choice(&self.fields[start..end]).or_else(|| random.choice(&self.fields)).copied()
    }
}

impl Field {
    pub fn get(self, bytes: &[u8], is_big_endian: bool) -> Option<u64> {
        let stored = bytes.get(self.at..self.at + self.width)?;
        let push = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        Some(match is_big_endian {
            true => stored.iter().fold(0, push),
            false => stored.iter().rev().fold(0, push),
        })
    }

    pub fn set(self, bytes: &mut [u8], value: u64, is_big_endian: bool) {
        let little = value.to_le_bytes();
        let Some(stored) = bytes.get_mut(self.at..self.at + self.width) else { return };
        stored.copy_from_slice(&little[..self.width]);
        if is_big_endian {
            stored.reverse();
        }
    }
}
