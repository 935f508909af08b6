//! SPERR: HDF5 filter 32028 (H5Z-SPERR). <https://github.com/NCAR/SPERR>, <https://github.com/NCAR/H5Z-SPERR>
//!
//! ```text
//! chunk    1  missing values: 0 none, 1 NaN, 2 one large value   mode 2: this value   modes 1, 2: a mask   stream
//! stream   volumes: 1 version   1 flags   4 size of each axis, the fastest first   4 length of what follows
//!          1 flags   8 mean   8 step of the quantizer   coefficients   outliers
//! ```
//!
//! Files of H5Z-SPERR 0.1 lack the first byte. Numbers are little-endian. Values are the inverse wavelet transform of
//! quantized coefficients, plus corrections of outliers, plus the mean. The operations are those of the C++ library in the
//! same order, so that values are those of the original decoder, bit by bit.

use crate::{CodecFailure, bounded, corrupt, parameters};

const NAME: &str = "sperr";

/// Flag of a stream: all values are alike.
const CONSTANT: u8 = 1;
/// Flags of the header of volumes.
const VOLUME: u8 = 0x40;
const SINGLE: u8 = 0x20;

/// Axes of a chunk, the fastest first; the third one of an image has one value.
#[derive(Clone, Copy, Debug)]
struct Shape {
    sizes: [usize; 3],
    is_volume: bool,
}

impl Shape {
    /// Checks a shape whose slowest axis is first.
    fn new(shape: &[u64]) -> Option<Self> {
        // The library keeps positions in volumes in 16 bits.
        let most = if shape.len() > 2 { u64::from(u16::MAX) } else { u64::from(u32::MAX) };
        let size = |size: &u64| usize::try_from(*size).ok().filter(|_| (1..=most).contains(size));
        let sizes: Vec<usize> = shape.iter().rev().map(size).collect::<Option<_>>()?;
        Some(match *sizes.as_slice() {
            [x, y] => Self { sizes: [x, y, 1], is_volume: false },
            [x, y, z] => Self { sizes: [x, y, z], is_volume: true },
            _ => return None,
        })
    }

    fn elements(&self) -> Option<usize> {
        self.sizes.iter().try_fold(1_usize, |count, size| count.checked_mul(*size))
    }
}

/// Decodes a chunk of floats of `width` bytes and of a shape whose slowest axis is first. `has_mode` means that the chunk
/// starts with the mode of missing values.
pub(super) fn decode(
    bytes: &[u8],
    (width, shape): (usize, &[u64]),
    has_mode: bool,
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    let shape = Shape::new(shape).ok_or_else(|| parameters(NAME, format!("chunks of shape {shape:?}")))?;
    let size = bounded(NAME, shape.elements().and_then(|count| count.checked_mul(width)), limit)?;
    let (missing, stream) = match has_mode {
        true => Missing::parse(bytes, width, size / width)?,
        false => (Missing::default(), bytes),
    };
    let stream = if shape.is_volume { volume_stream(stream, &shape, width)? } else { stream };
    let values = values(stream, &shape)?;
    let mut out = Vec::with_capacity(size);
    for value in values {
        match width {
            #[expect(clippy::cast_possible_truncation, reason = "rounded to single precision")]
            4 => out.extend((value as f32).to_le_bytes()),
            _ => out.extend(value.to_le_bytes()),
        }
    }
    missing.restore(&mut out, width);
    Ok(out)
}

/// Checks the header of a volume, and returns what follows it.
fn volume_stream<'a>(bytes: &'a [u8], shape: &Shape, width: usize) -> Result<&'a [u8], CodecFailure> {
    let ([version, flags], rest) = bytes.split_first_chunk().ok_or_else(cut_off)?;
    let expected = VOLUME | if width == 4 { SINGLE } else { 0 };
    if (*version, *flags) != (0, expected) {
        return Err(corrupt(NAME, format!("a volume of version {version} with flags {flags:#x}")));
    }
    let (numbers, rest) = rest.split_at_checked(16).ok_or_else(cut_off)?;
    let mut numbers = numbers.as_chunks::<4>().0.iter().map(|n| usize::try_from(u32::from_le_bytes(*n)).ok());
    if !shape.sizes.iter().all(|size| numbers.next().flatten() == Some(*size)) {
        return Err(corrupt(NAME, format!("a volume of another size than {:?}", shape.sizes)));
    }
    let length = numbers.next().flatten();
    (length == Some(rest.len())).then_some(rest).ok_or_else(cut_off)
}

/// Restores the values of a stream.
fn values(bytes: &[u8], shape: &Shape) -> Result<Vec<f64>, CodecFailure> {
    let (head, rest) = bytes.split_first_chunk::<17>().ok_or_else(cut_off)?;
    let [flags, one @ .., _, _, _, _, _, _, _, _] = head;
    let [_, _, _, _, _, _, _, _, _, two @ ..] = head;
    let count = shape.elements().ok_or_else(cut_off)?;
    if flags & CONSTANT != 0 {
        let fits = rest.is_empty() && usize::try_from(u64::from_le_bytes(*one)) == Ok(count);
        return if fits { Ok(vec![f64::from_le_bytes(*two); count]) } else { Err(cut_off()) };
    }
    let (mean, step) = (f64::from_le_bytes(*one), f64::from_le_bytes(*two));
    if step.is_nan() || step <= 0.0 {
        return Err(corrupt(NAME, format!("a quantizer with steps of {step}")));
    }
    let (coefficients, rest) = split(rest).ok_or_else(cut_off)?;
    let decoded = match shape.is_volume {
        true => Speck::volume(shape.sizes, coefficients),
        false => Speck::plane(shape.sizes, coefficients),
    }
    .and_then(Speck::decode)
    .ok_or_else(cut_off)?;
    let mut values: Vec<f64> = decoded.map(|(size, sign)| step * to_f64(size) * sign).collect();
    invert(&mut values, shape);
    correct(&mut values, rest, step / 1.5)?;
    values.iter_mut().for_each(|value| *value += mean);
    Ok(values)
}

/// Adds the corrections of outliers, whose stream is ignored where it is not complete.
fn correct(values: &mut [f64], bytes: &[u8], tolerance: f64) -> Result<(), CodecFailure> {
    let Some((stream, [])) = split(bytes).filter(|(stream, _)| stream.is_complete()) else {
        return Ok(());
    };
    let decoded = Speck::line(values.len(), stream).and_then(Speck::decode).ok_or_else(cut_off)?;
    for (value, (size, sign)) in values.iter_mut().zip(decoded) {
        let error = match size {
            0 => continue,
            1 => 1.1,
            size => to_f64(size) - 0.25,
        };
        *value += error * (tolerance * sign);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "rounded as C++ does it")]
fn to_f64(size: u64) -> f64 {
    size as f64
}

fn cut_off() -> CodecFailure {
    corrupt(NAME, "the chunk is truncated or damaged")
}

// Missing values, which H5Z-SPERR replaces before it compresses (`h5z-sperr.c`, `compactor.c`).
//
// ```text
// mask   32 bits: number of bits of the mask   1 bit: the more frequent word, all zeros or all ones
//        for each word of 32 values: 0 the more frequent one, 10 the other one, 11 and the word
// ```
//
// The first bit is the least significant one of the first byte.

/// Which values are missing, and how they read.
#[derive(Default)]
struct Missing {
    value: Vec<u8>,
    /// A bit for each value.
    words: Vec<u32>,
}

impl Missing {
    /// Parses what precedes the stream of `count` floats of `width` bytes, and returns the stream too.
    fn parse(bytes: &[u8], width: usize, count: usize) -> Result<(Self, &[u8]), CodecFailure> {
        let (mode, rest) = bytes.split_first().ok_or_else(cut_off)?;
        let (value, rest) = match (mode, width) {
            (0, _) => return Ok((Self::default(), rest)),
            // `nanf("1")` and `nan("1")` of C.
            (1, 4) => (0x7fc0_0001_u32.to_le_bytes().to_vec(), rest),
            (1, _) => (0x7ff8_0000_0000_0001_u64.to_le_bytes().to_vec(), rest),
            (2, _) => rest
                .split_at_checked(width)
                .map(|(value, rest)| (value.to_vec(), rest))
                .ok_or_else(cut_off)?,
            (other, _) => return Err(corrupt(NAME, format!("missing values of mode {other}"))),
        };
        let bits =
            rest.first_chunk().map(|bits| usize::try_from(u32::from_le_bytes(*bits)).unwrap_or(usize::MAX));
        let bits = bits.ok_or_else(cut_off)?;
        let (mask, rest) = rest.split_at_checked(bits.div_ceil(8)).ok_or_else(cut_off)?;
        let words = words(mask, bits, count.div_ceil(32).next_multiple_of(2)).ok_or_else(cut_off)?;
        Ok((Self { value, words }, rest))
    }

    /// Puts the value at the missing places.
    fn restore(&self, out: &mut [u8], width: usize) {
        let is_missing = self.words.iter().flat_map(|word| (0..32).map(move |bit| word >> bit & 1 == 1));
        for (place, _) in out.chunks_exact_mut(width).zip(is_missing).filter(|(_, is_missing)| *is_missing) {
            place.copy_from_slice(&self.value);
        }
    }
}

/// Decodes a mask of at most `most` words.
fn words(mask: &[u8], count: usize, most: usize) -> Option<Vec<u32>> {
    let mut bits = Bits::new(mask.get(4..)?, count.checked_sub(32)?);
    let frequent = if bits.read() { u32::MAX } else { 0 };
    let mut words = Vec::new();
    while !bits.is_spent() {
        words.push(match (bits.read(), 0) {
            (false, _) => frequent,
            _ if !bits.read() => !frequent,
            _ => (0..32).fold(0, |word, bit| word | u32::from(bits.read()) << bit),
        });
        if words.len() > most {
            return None;
        }
    }
    Some(words)
}

// Sets of coefficients: boxes that are split in halves along each axis, of which the first is the longer one.

/// A box of coefficients, the fastest axis first.
#[derive(Clone, Copy, Default, Debug)]
struct Set {
    start: [u32; 3],
    size: [u32; 3],
    /// List of the set.
    level: usize,
}

impl Set {
    fn elements(&self) -> u64 {
        self.size.iter().map(|size| u64::from(*size)).product()
    }

    /// Splits the set along the axes of `along`. The fastest axis alternates first; some parts may be empty.
    fn split(&self, along: [bool; 3]) -> Vec<Self> {
        let mut parts = vec![*self];
        for (axis, _) in along.iter().enumerate().filter(|(_, is_split)| **is_split) {
            let halves = [false, true]
                .into_iter()
                .flat_map(|second| parts.iter().map(move |part| part.half(axis, second)));
            parts = halves.collect();
        }
        parts
    }

    fn half(mut self, axis: usize, second: bool) -> Self {
        if let (Some(start), Some(size)) = (self.start.get_mut(axis), self.size.get_mut(axis)) {
            let (long, short) = (*size - *size / 2, *size / 2);
            if second {
                *start += long;
            }
            *size = if second { short } else { long };
        }
        self
    }

    /// Returns the number of axes of `along` that a split shortens.
    fn axes_split(&self, along: [bool; 3]) -> usize {
        self.size.iter().zip(along).filter(|(size, is_split)| *is_split && **size > 1).count()
    }
}

/// Returns how often a wavelet transform halves an axis.
fn transforms(mut size: usize) -> usize {
    let mut count = 0;
    while size >= 9 && count < 6 {
        count += 1;
        size -= size / 2;
    }
    count
}

/// Returns how often all axes of a volume are halved together; `None` if planes are transformed apart from columns.
fn dyadic([x, y, z]: [usize; 3]) -> Option<usize> {
    let (plane, column) = (transforms(x.min(y)), transforms(z));
    let together = z > 1 && y > 1 && (plane == column || plane.min(column) >= 5);
    together.then_some(plane.min(column))
}

/// Returns the lengths of both parts of an axis after so many transforms.
fn parts(size: usize, transforms: usize) -> (usize, usize) {
    (0..transforms).fold((size, 0), |(low, _), _| (low - low / 2, low / 2))
}

// SPECK, the coder of integers (`SPECK_INT.cpp`, `SPECK1D_INT.cpp`, `SPECK2D_INT.cpp`, `SPECK3D_INT.cpp`).
//
// ```text
// 1  bit planes   8  number of bits   the bits, the least significant of a byte first
// ```
//
// Each bit plane has two passes. The first finds coefficients that have their most significant bit there: a set without any
// takes a single bit, others are split. The second reads a bit of the coefficients that were found before.

/// Lists of sets: more than the splits of three axes of 16 bits.
const LISTS: usize = 64;

/// Bits of a stream, of which some may be missing at the end: they read as zeros.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    available: usize,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8], available: usize) -> Self {
        Self { bytes, at: 0, available: available.min(bytes.len().saturating_mul(8)) }
    }

    fn read(&mut self) -> bool {
        let byte = if self.is_spent() { 0 } else { self.bytes.get(self.at / 8).copied().unwrap_or(0) };
        let bit = byte >> (self.at % 8) & 1 == 1;
        self.at += 1;
        bit
    }

    fn is_spent(&self) -> bool {
        self.at >= self.available
    }
}

/// A stream: header and bits.
#[derive(Clone, Copy)]
struct Stream<'a> {
    planes: u8,
    /// Number of bits, of which some may be missing.
    bits: u64,
    bytes: &'a [u8],
}

impl Stream<'_> {
    fn is_complete(&self) -> bool {
        self.bits.div_ceil(8) == self.bytes.len() as u64
    }
}

/// Splits off a stream.
fn split(bytes: &[u8]) -> Option<(Stream<'_>, &[u8])> {
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

struct Speck<'a> {
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
    fn line(count: usize, stream: Stream<'a>) -> Option<Self> {
        let mut speck = Self::new(Rank::Line, [count, 1, 1], stream);
        let all = speck.all()?;
        for set in all.split([true, false, false]) {
            speck.add(Set { level: 1, ..set })?;
        }
        Some(speck)
    }

    /// Returns a decoder of an image.
    fn plane(sizes: [usize; 3], stream: Stream<'a>) -> Option<Self> {
        let mut speck = Self::new(Rank::Plane, sizes, stream);
        let [x, y, _] = sizes;
        speck.details = transforms(x.min(y));
        let low = |size| u32::try_from(parts(size, speck.details).0).ok();
        let size = [low(x)?, low(y)?, 1];
        speck.add(Set { start: [0; 3], size, level: speck.details })?;
        Some(speck)
    }

    /// Returns a decoder of a volume.
    fn volume(sizes: [usize; 3], stream: Stream<'a>) -> Option<Self> {
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

// Inverse of the biorthogonal wavelet transform CDF 9/7, by lifting (`CDF97.cpp`).

/// Coefficients of the filters, of Cohen, Daubechies and Feauveau, page 551.
const H: [f64; 5] = [0.602949018236, 0.266864118443, -0.078223266529, -0.016864118443, 0.026748757411];
const R0: f64 = H[0] - 2.0 * H[4] * H[1] / H[3];
const R1: f64 = H[2] - H[4] - H[4] * H[1] / H[3];
const S0: f64 = H[1] - H[3] - H[3] * R0 / R1;
const T0: f64 = H[0] - 2.0 * (H[2] - H[4]);
const ALPHA: f64 = H[4] / H[3];
const BETA: f64 = H[3] / R1;
const GAMMA: f64 = R1 / S0;
const DELTA: f64 = S0 / T0;
const EPSILON: f64 = std::f64::consts::SQRT_2 * T0;
const INVERSE: f64 = 1.0 / EPSILON;

/// Inverts the transform in place.
fn invert(values: &mut [f64], shape: &Shape) {
    let [x, y, z] = shape.sizes;
    let mut volume = Volume { values, x, y, line: Vec::new() };
    if !shape.is_volume {
        volume.planes(1, transforms(x.min(y)));
    } else if let Some(count) = dyadic(shape.sizes) {
        for number in (0..count).rev() {
            let [(x, _), (y, _), (z, _)] = [x, y, z].map(|size| parts(size, number));
            volume.columns(x, y, z);
            (0..z).for_each(|plane| volume.plane(plane, x, y));
        }
    } else {
        volume.planes(z, transforms(x.min(y)));
        for number in (0..transforms(z)).rev() {
            volume.columns(x, y, parts(z, number).0);
        }
    }
}

struct Volume<'a> {
    values: &'a mut [f64],
    /// Values along the fastest axis.
    x: usize,
    y: usize,
    line: Vec<f64>,
}

impl Volume<'_> {
    /// Inverts all transforms of each plane.
    fn planes(&mut self, planes: usize, count: usize) {
        for plane in 0..planes {
            for number in (0..count).rev() {
                self.plane(plane, parts(self.x, number).0, parts(self.y, number).0);
            }
        }
    }

    /// Inverts one transform of a plane: first along columns, then along rows.
    fn plane(&mut self, plane: usize, x: usize, y: usize) {
        let start = plane * self.x * self.y;
        for column in 0..x {
            self.line(start + column, self.x, y);
        }
        for row in 0..y {
            self.line(start + row * self.x, 1, x);
        }
    }

    /// Inverts one transform along the slowest axis.
    fn columns(&mut self, x: usize, y: usize, z: usize) {
        for row in 0..y {
            for column in 0..x {
                self.line(row * self.x + column, self.x * self.y, z);
            }
        }
    }

    /// Inverts one transform of a line: averages come first, details last.
    fn line(&mut self, start: usize, step: usize, count: usize) {
        let places = || (start..).step_by(step).take(count);
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        line.extend(places().filter_map(|at| self.values.get(at)));
        if let Some((even, odd)) = line.split_at_mut_checked(count - count / 2) {
            odd.iter_mut().for_each(|odd| *odd *= -EPSILON);
            even_step(even, odd, DELTA, |even, change| even * INVERSE - change);
            odd_step(odd, even, GAMMA);
            even_step(even, odd, BETA, |even, change| even - change);
            odd_step(odd, even, ALPHA);
            let mut sources = [even.iter(), odd.iter()];
            for (number, at) in places().enumerate() {
                let source = sources.get_mut(number % 2).and_then(Iterator::next);
                if let (Some(source), Some(value)) = (source, self.values.get_mut(at)) {
                    *value = *source;
                }
            }
        }
        self.line = line;
    }
}

/// Changes averages by the details on both sides. There is one side only at the start, and maybe at the end.
fn even_step(even: &mut [f64], odd: &[f64], factor: f64, apply: impl Fn(f64, f64) -> f64) {
    let Some((first, others)) = even.split_first_mut() else { return };
    *first = apply(*first, 2.0 * factor * odd.first().copied().unwrap_or(0.0));
    let after = odd.iter().skip(1).chain(odd.last());
    for ((even, before), after) in others.iter_mut().zip(odd).zip(after) {
        *even = apply(*even, factor * (before + after));
    }
}

/// Changes details by the averages on both sides.
fn odd_step(odd: &mut [f64], even: &[f64], factor: f64) {
    let after = even.iter().skip(1).chain(even.last());
    for ((odd, before), after) in odd.iter_mut().zip(even).zip(after) {
        *odd -= factor * (before + after);
    }
}
