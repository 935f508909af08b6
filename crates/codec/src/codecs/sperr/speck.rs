//! SPECK, the coder of integers (`SPECK_INT.cpp`, `SPECK1D_INT.cpp`, `SPECK2D_INT.cpp`, `SPECK3D_INT.cpp`).
//!
//! ```text
//! 1  bit planes   8  number of bits   the bits, the least significant of a byte first
//! ```
//!
//! Each bit plane has two passes. The first finds coefficients that have their most significant bit there: a set without any
//! takes a single bit, others are split. The second reads a bit of the coefficients that were found before.

use super::sets::{Set, dyadic, parts, transforms};

/// Lists of sets: more than the splits of three axes of 16 bits.
const LISTS: usize = 64;

/// Bits of a stream, of which some may be missing at the end: they read as zeros.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    available: usize,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8], available: usize) -> Self {
        Self { bytes, at: 0, available: available.min(bytes.len().saturating_mul(8)) }
    }

    pub(super) fn read(&mut self) -> bool {
        let byte = if self.is_spent() { 0 } else { self.bytes.get(self.at / 8).copied().unwrap_or(0) };
        let bit = byte >> (self.at % 8) & 1 == 1;
        self.at += 1;
        bit
    }

    pub(super) fn is_spent(&self) -> bool {
        self.at >= self.available
    }
}

/// A stream: header and bits.
#[derive(Clone, Copy)]
pub(super) struct Stream<'a> {
    planes: u8,
    /// Number of bits, of which some may be missing.
    bits: u64,
    bytes: &'a [u8],
}

impl Stream<'_> {
    pub(super) fn is_complete(&self) -> bool {
        self.bits.div_ceil(8) == self.bytes.len() as u64
    }
}

/// Splits off a stream.
pub(super) fn split(bytes: &[u8]) -> Option<(Stream<'_>, &[u8])> {
    let ([planes], rest) = bytes.split_first_chunk()?;
    let (bits, rest) = rest.split_first_chunk()?;
    let bits = u64::from_le_bytes(*bits);
    let length = usize::try_from(bits.div_ceil(8)).unwrap_or(usize::MAX).min(rest.len());
    let (bytes, rest) = rest.split_at_checked(length)?;
    (*planes <= 64).then_some((Stream { planes: *planes, bits, bytes }, rest))
}

/// How sets are split and coded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rank {
    Line,
    Plane,
    Volume,
}

/// A set of places, 64 in a word.
struct Mask(Vec<u64>);

impl Mask {
    fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    fn set(&mut self, at: usize, value: bool) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word = *word & !(1 << (at % 64)) | u64::from(value) << (at % 64);
        }
    }

    fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }
}

pub(super) struct Speck<'a> {
    rank: Rank,
    sizes: [usize; 3],
    planes: u8,
    bits: Bits<'a>,
    /// Sets that may hold coefficients of the current plane, by level.
    lists: Vec<Vec<Set>>,
    /// Planes: transforms whose details are not split into sets yet.
    details: usize,
    /// Single coefficients that may be in the current plane.
    single: Mask,
    found: Mask,
    new: Vec<usize>,
    coefficients: Vec<u64>,
    negative: Mask,
}

impl<'a> Speck<'a> {
    fn new(rank: Rank, sizes: [usize; 3], stream: Stream<'a>) -> Self {
        let count = sizes.iter().product();
        let available = usize::try_from(stream.bits).unwrap_or(usize::MAX);
        Self {
            rank,
            sizes,
            planes: stream.planes,
            bits: Bits::new(stream.bytes, available),
            lists: vec![Vec::new(); LISTS],
            details: 0,
            single: Mask::new(count),
            found: Mask::new(count),
            new: Vec::new(),
            coefficients: vec![0; count],
            negative: Mask::new(count),
        }
    }

    /// Returns a decoder of a row.
    pub(super) fn line(count: usize, stream: Stream<'a>) -> Option<Self> {
        let mut speck = Self::new(Rank::Line, [count, 1, 1], stream);
        let all = speck.all()?;
        for set in all.split([true, false, false]) {
            speck.add(Set { level: 1, ..set })?;
        }
        Some(speck)
    }

    /// Returns a decoder of an image.
    pub(super) fn plane(sizes: [usize; 3], stream: Stream<'a>) -> Option<Self> {
        let mut speck = Self::new(Rank::Plane, sizes, stream);
        let [x, y, _] = sizes;
        speck.details = transforms(x.min(y));
        let low = |size| u32::try_from(parts(size, speck.details).0).ok();
        let size = [low(x)?, low(y)?, 1];
        speck.add(Set { start: [0; 3], size, level: speck.details })?;
        Some(speck)
    }

    /// Returns a decoder of a volume.
    pub(super) fn volume(sizes: [usize; 3], stream: Stream<'a>) -> Option<Self> {
        let mut speck = Self::new(Rank::Volume, sizes, stream);
        let [x, y, z] = sizes;
        let (plane, column) = match dyadic(sizes) {
            Some(count) => (count, count),
            None => (transforms(x.min(y)), transforms(z)),
        };
        let mut low = speck.all()?;
        for number in 0..plane.max(column) {
            let along = [number < plane, number < plane, number < column];
            let level = low.level + low.axes_split(along);
            let mut subsets = low.split(along).into_iter().map(|set| Set { level, ..set });
            low = subsets.next()?;
            for set in subsets {
                speck.add(set)?;
            }
        }
        speck.lists.get_mut(low.level)?.insert(0, low);
        Some(speck)
    }

    /// Returns the set of all coefficients.
    fn all(&self) -> Option<Set> {
        let [x, y, z] = self.sizes.map(|size| u32::try_from(size).ok());
        Some(Set { start: [0; 3], size: [x?, y?, z?], level: 0 })
    }

    fn add(&mut self, set: Set) -> Option<usize> {
        let list = self.lists.get_mut(set.level)?;
        list.push(set);
        Some(list.len() - 1)
    }

    /// Decodes all coefficients: sizes and signs.
    pub(super) fn decode(mut self) -> Option<impl Iterator<Item = (u64, f64)>> {
        let mut threshold = 1_u64.checked_shl(u32::from(self.planes).saturating_sub(1)).unwrap_or(0);
        for _ in 0..self.planes {
            self.sort()?;
            if self.bits.is_spent() {
                break;
            }
            self.refine(threshold);
            if self.bits.is_spent() {
                break;
            }
            threshold /= 2;
            self.lists.iter_mut().for_each(|list| list.retain(|set| set.elements() > 0));
        }
        self.start_new(threshold);
        let negative = self.negative;
        let sign = move |at: usize| if negative.word(at / 64) >> (at % 64) & 1 == 1 { -1.0 } else { 1.0 };
        Some(self.coefficients.into_iter().enumerate().map(move |(at, size)| (size, sign(at))))
    }

    /// Finds the coefficients of a plane.
    fn sort(&mut self) -> Option<()> {
        for at in 0..self.single.0.len() {
            let mut word = self.single.word(at);
            while word != 0 {
                let place = at * 64 + usize::try_from(word.trailing_zeros()).ok()?;
                if self.bits.read() {
                    self.take(place);
                }
                word &= word - 1;
            }
        }
        for level in (0..LISTS).rev() {
            let mut at = 0;
            while at < self.lists.get(level)?.len() {
                self.set(level, at, true)?;
                at += 1;
            }
        }
        if self.rank == Rank::Plane { self.details(true) } else { Some(()) }
    }

    /// Marks a coefficient as found, and reads its sign.
    fn take(&mut self, place: usize) {
        let is_positive = self.bits.read();
        self.negative.set(place, !is_positive);
        self.new.push(place);
        self.single.set(place, false);
    }

    /// Reads whether a set has coefficients of the plane, unless that follows, and splits it if so.
    fn set(&mut self, level: usize, at: usize, is_read: bool) -> Option<bool> {
        if is_read && !self.bits.read() {
            return Some(false);
        }
        let set = *self.lists.get(level)?.get(at)?;
        self.parts(set)?;
        *self.lists.get_mut(level)?.get_mut(at)? = Set::default();
        Some(true)
    }

    /// Codes the parts of a set. The last one has coefficients of the plane if no other has.
    fn parts(&mut self, set: Set) -> Option<()> {
        let level = match self.rank {
            Rank::Volume => set.level + set.axes_split([true; 3]),
            _ => set.level + 1,
        };
        let mut subsets = set.split([true; 3]);
        subsets.retain(|set| set.elements() > 0);
        if self.rank == Rank::Plane {
            subsets.reverse();
        }
        let mut any = false;
        let last = subsets.len().checked_sub(1)?;
        for (number, subset) in subsets.into_iter().enumerate() {
            let is_read = any || number < last;
            any |= if subset.elements() == 1 {
                let place = self.place(&subset)?;
                self.single.set(place, true);
                let is_found = !is_read || self.bits.read();
                if is_found {
                    self.take(place);
                }
                is_found
            } else {
                let at = self.add(Set { level, ..subset })?;
                self.set(level, at, is_read)?
            };
        }
        Some(())
    }

    fn place(&self, set: &Set) -> Option<usize> {
        let [sx, sy, _] = self.sizes;
        let [x, y, z] = set.start.map(|start| usize::try_from(start).ok());
        Some((z? * sy + y?) * sx + x?)
    }

    /// Codes the details of the transforms of an image that no set holds yet.
    fn details(&mut self, is_read: bool) -> Option<()> {
        if self.details == 0 || is_read && !self.bits.read() {
            return Some(());
        }
        let [x, y, _] = self.sizes;
        let (low_x, high_x) = parts(x, self.details);
        let (low_y, high_y) = parts(y, self.details);
        let level = self.details;
        self.details -= 1;
        let mut any = false;
        for (start, size) in
            [([low_x, low_y], [high_x, high_y]), ([low_x, 0], [high_x, low_y]), ([0, low_y], [low_x, high_y])]
        {
            let [sx, sy, nx, ny] = [start, size].as_flattened().first_chunk()?.map(|n| u32::try_from(n).ok());
            let set = Set { start: [sx?, sy?, 0], size: [nx?, ny?, 1], level };
            if set.elements() > 0 {
                let at = self.add(set)?;
                any |= self.set(level, at, true)?;
            }
        }
        self.details(any)
    }

    /// Reads the next bit of the coefficients that were found in planes before, and starts the new ones.
    fn refine(&mut self, threshold: u64) {
        let half = threshold / 2;
        'all: for at in 0..self.found.0.len() {
            let mut word = self.found.word(at);
            while word != 0 {
                let place = at * 64 + usize::try_from(word.trailing_zeros()).unwrap_or(0);
                let bit = self.bits.read();
                if let Some(value) = self.coefficients.get_mut(place) {
                    *value = match (threshold, bit) {
                        (1, bit) => value.wrapping_add(bit.into()),
                        (_, true) => value.wrapping_add(half),
                        (_, false) => value.wrapping_sub(half),
                    };
                }
                if self.bits.is_spent() {
                    break 'all;
                }
                word &= word - 1;
            }
        }
        self.start_new(threshold);
    }

    /// Starts the new coefficients in the middle of their interval.
    fn start_new(&mut self, threshold: u64) {
        let value = threshold.wrapping_mul(2).wrapping_sub(threshold / 2).wrapping_sub(1);
        for place in std::mem::take(&mut self.new) {
            self.found.set(place, true);
            if let Some(coefficient) = self.coefficients.get_mut(place) {
                *coefficient = value;
            }
        }
    }
}
