//! Baseline JPEG (ITU-T T.81) to planes of samples, as libjpeg computes them, to the last bit. Damaged streams, in which libraries
//! differ, are refused.

use crate::{CodecFailure, corrupt, jpeg};

fn malformed(problem: impl Into<String>) -> CodecFailure {
    corrupt("JPEG", problem.into())
}

// Tables and frame of a stream: in its own segments (T.81, annex B), or at the offsets that TIFF's tags give.

/// What decoding a scan takes.
#[derive(Debug)]
pub(super) struct Stream<'a> {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) components: Vec<Component>,
    /// Units between restart markers; 0 for none.
    pub(super) restart_interval: usize,
    /// Entropy-coded data.
    pub(super) scan: &'a [u8],
}

/// A component with its tables.
#[derive(Debug)]
pub(super) struct Component {
    horizontal: u8,
    vertical: u8,
    /// Steps in the order of the stream.
    quantization: [u16; 64],
    dc: Huffman,
    ac: Huffman,
}

/// Parses the quantization, DC and AC tables of three components at offsets, the first of which is sampled by `luma`.
pub(super) fn of_tables(
    bytes: &[u8],
    [quantization, dc, ac]: [[usize; 3]; 3],
    luma: (u8, u8),
) -> Result<Vec<Component>, CodecFailure> {
    let from = |start: usize| bytes.get(start..).ok_or_else(|| malformed("a table outside of its chunk"));
    let factors = [luma, (1, 1), (1, 1)];
    let places = quantization.into_iter().zip(dc).zip(ac).zip(factors);
    let component = |(((quantization, dc), ac), (horizontal, vertical))| {
        Ok(Component {
            horizontal,
            vertical,
            quantization: bytes_of_steps(from(quantization)?)?,
            dc: Huffman::parse(from(dc)?)?.0.of_dc()?,
            ac: Huffman::parse(from(ac)?)?.0,
        })
    };
    places.map(component).collect()
}

fn bytes_of_steps(bytes: &[u8]) -> Result<[u16; 64], CodecFailure> {
    let steps = bytes.first_chunk::<64>().ok_or_else(|| malformed("a table is cut off"))?;
    Ok(steps.map(u16::from))
}

/// Contents of the segments before a scan.
#[derive(Default)]
pub(super) struct Segments {
    quantization: [Option<[u16; 64]>; 4],
    dc: [Option<Huffman>; 4],
    ac: [Option<Huffman>; 4],
    restart_interval: usize,
    has_jfif: bool,
    /// The color transform of Adobe's marker.
    pub(super) adobe: Option<u8>,
    /// Columns and rows.
    pub(super) frame: Option<(usize, usize)>,
    /// Name, sampling factors and quantization table.
    components: Vec<[u8; 3]>,
    /// Name and tables, in the order of the scan.
    selectors: Vec<[u8; 2]>,
}

impl Segments {
    /// Reads a stream that holds only tables, unless it is empty, and then one with an image up to its scan. Returns what
    /// follows, too.
    pub(super) fn of<'a>(bytes: &'a [u8], tables: &[u8]) -> Result<(Self, &'a [u8]), CodecFailure> {
        let mut segments = Self::default();
        if !tables.is_empty() {
            segments.read_until(tables, 0xd9)?;
        }
        let scan = segments.read(bytes)?;
        Ok((segments, scan))
    }

    /// Reads up to the start of the scan, and returns what follows it.
    pub(super) fn read<'a>(&mut self, stream: &'a [u8]) -> Result<&'a [u8], CodecFailure> {
        self.read_until(stream, 0xda)
    }

    /// Reads up to a segment, with that of a scan, and returns what follows.
    fn read_until<'a>(&mut self, stream: &'a [u8], last: u8) -> Result<&'a [u8], CodecFailure> {
        let mut rest = stream.strip_prefix(b"\xff\xd8").ok_or_else(|| malformed("no start of image"))?;
        loop {
            let ((kind, segment), next) = jpeg::segment(rest)?.ok_or_else(jpeg::cut_off)?;
            let body = segment.get(2..).unwrap_or_default();
            match kind {
                0xd9 if kind == last => return Ok(next),
                0xc0 | 0xc1 => self.frame(body)?,
                0xc4 => self.huffman(body)?,
                0xda if kind == last => return self.scan(body).map(|()| next),
                0xdb => self.quantization(body)?,
                0xdd => {
                    let interval = body.first_chunk().ok_or_else(|| malformed("a short segment"))?;
                    self.restart_interval = u16::from_be_bytes(*interval).into();
                }
                0xe0 if body.starts_with(b"JFIF\0") => self.has_jfif = true,
                0xee if body.starts_with(b"Adobe") => self.adobe = body.get(11).copied(),
                0xe0..=0xef | 0xfe => {}
                other => return Err(malformed(format!("segment {other:#x}, expected a sequential frame"))),
            }
            rest = next;
        }
    }

    /// Whether libjpeg would take three components for RGB.
    pub(super) fn is_rgb(&self) -> bool {
        let names = || self.components.iter().map(|[name, ..]| *name).eq(*b"RGB");
        self.components.len() == 3
            && !self.has_jfif
            && self.adobe.map_or_else(names, |transform| transform == 0)
    }

    fn frame(&mut self, body: &[u8]) -> Result<(), CodecFailure> {
        let (head, components) =
            body.split_first_chunk::<6>().ok_or_else(|| malformed("a short frame header"))?;
        let [bits, high, low, wide, narrow, count] = *head;
        if bits != 8 || self.frame.is_some() || components.len() != usize::from(count) * 3 {
            return Err(malformed("a frame header of another length, or samples of more than 8 bits"));
        }
        self.frame =
            Some((u16::from_be_bytes([wide, narrow]).into(), u16::from_be_bytes([high, low]).into()));
        self.components = components.as_chunks().0.to_vec();
        Ok(())
    }

    fn scan(&mut self, body: &[u8]) -> Result<(), CodecFailure> {
        let (count, rest) = body.split_first().ok_or_else(|| malformed("a short scan header"))?;
        let selectors =
            rest.get(..usize::from(*count) * 2).ok_or_else(|| malformed("a short scan header"))?;
        self.selectors = selectors.as_chunks().0.to_vec();
        Ok(())
    }

    fn huffman(&mut self, mut body: &[u8]) -> Result<(), CodecFailure> {
        while let Some((place, rest)) = body.split_first() {
            let (table, length) = Huffman::parse(rest)?;
            let tables = if place >> 4 == 0 { &mut self.dc } else { &mut self.ac };
            *slot(tables, place & 15)? = Some(table);
            body = rest.get(length..).unwrap_or_default();
        }
        Ok(())
    }

    fn quantization(&mut self, mut body: &[u8]) -> Result<(), CodecFailure> {
        while let Some((place, rest)) = body.split_first() {
            let (steps, length) = match place >> 4 {
                0 => (bytes_of_steps(rest)?, 64),
                _ => {
                    let words = rest.first_chunk::<128>().ok_or_else(|| malformed("a table is cut off"))?;
                    let mut steps = [0; 64];
                    for (step, word) in steps.iter_mut().zip(words.as_chunks().0) {
                        *step = u16::from_be_bytes(*word);
                    }
                    (steps, 128)
                }
            };
            *slot(&mut self.quantization, place & 15)? = Some(steps);
            body = rest.get(length..).unwrap_or_default();
        }
        Ok(())
    }

    pub(super) fn stream<'a>(
        &self,
        scan: &'a [u8],
        expected: (usize, usize),
    ) -> Result<Stream<'a>, CodecFailure> {
        let (width, height) = self.frame.ok_or_else(|| malformed("no frame header"))?;
        let (columns, rows) = expected;
        if width != columns || height < rows {
            return Err(malformed(format!("a stream of {height} x {width}, expected {rows} x {columns}")));
        }
        if self.selectors.len() != self.components.len() {
            return Err(malformed("several scans"));
        }
        // A component alone is not interleaved: its blocks are in rows, however it is sampled (T.81, A.2.2).
        let is_alone = self.components.len() == 1;
        let components =
            self.components.iter().zip(&self.selectors).map(|(&[name, sampling, steps], tables)| {
                self.component([name, if is_alone { 0x11 } else { sampling }, steps], *tables)
            });
        let components = components.collect::<Result<_, _>>()?;
        Ok(Stream { width, height, components, restart_interval: self.restart_interval, scan })
    }

    fn component(
        &self,
        [name, sampling, steps]: [u8; 3],
        [selected, tables]: [u8; 2],
    ) -> Result<Component, CodecFailure> {
        let missing = || malformed("a table is missing");
        let (horizontal, vertical) = (sampling >> 4, sampling & 15);
        if name != selected || !(1..=4).contains(&horizontal) || !(1..=4).contains(&vertical) {
            return Err(malformed("components in another order, or sampled otherwise"));
        }
        let quantization = self.quantization.get(usize::from(steps)).copied().flatten();
        let huffman = |all: &[Option<Huffman>; 4], place: u8| all.get(usize::from(place)).cloned().flatten();
        Ok(Component {
            horizontal,
            vertical,
            quantization: quantization.ok_or_else(missing)?,
            dc: huffman(&self.dc, tables >> 4).ok_or_else(missing)?.of_dc()?,
            ac: huffman(&self.ac, tables & 15).ok_or_else(missing)?,
        })
    }
}

fn slot<T>(tables: &mut [T; 4], place: u8) -> Result<&mut T, CodecFailure> {
    tables.get_mut(usize::from(place)).ok_or_else(|| malformed("a table with a number above 3"))
}

// Huffman codes (T.81, annexes C and F) and the bits of a scan.

/// Maximum number of bits of a code.
const LONGEST: usize = 16;

/// A table of codes.
#[derive(Clone, Debug)]
pub(super) struct Huffman {
    /// By length: the first code, the number of codes, and the place of the first one's value.
    lengths: [(u32, u32, usize); LONGEST],
    values: Vec<u8>,
}

impl Huffman {
    /// Parses 16 numbers of codes by length, then the values. Returns the table and its length in bytes.
    fn parse(bytes: &[u8]) -> Result<(Self, usize), CodecFailure> {
        let (counts, rest) =
            bytes.split_first_chunk::<LONGEST>().ok_or_else(|| malformed("a table is cut off"))?;
        let total: usize = counts.iter().map(|count| usize::from(*count)).sum();
        let values = rest.get(..total).filter(|values| values.len() <= 256);
        let values = values.ok_or_else(|| malformed("a table is cut off"))?.to_vec();
        let mut lengths = [(0, 0, 0); LONGEST];
        let (mut code, mut place) = (0_u32, 0_usize);
        for (bits, (length, count)) in lengths.iter_mut().zip(counts).enumerate() {
            *length = (code, u32::from(*count), place);
            code = code.saturating_add(u32::from(*count));
            place = place.saturating_add(usize::from(*count));
            if code > 2 << bits {
                return Err(malformed("a table has more codes than bits allow"));
            }
            code = code.saturating_mul(2);
        }
        Ok((Self { lengths, values }, LONGEST.saturating_add(total)))
    }

    /// Returns a table of lengths of DC differences, which libjpeg limits.
    fn of_dc(self) -> Result<Self, CodecFailure> {
        match self.values.iter().find(|value| **value > 15) {
            Some(value) => Err(malformed(format!("a DC difference of {value} bits"))),
            None => Ok(self),
        }
    }

    /// Reads the value of the next code.
    fn next(&self, bits: &mut Bits<'_>) -> Result<u8, CodecFailure> {
        let mut code = 0_u32;
        for (first, count, place) in &self.lengths {
            code = code << 1 | bits.bit()?;
            let index = code.wrapping_sub(*first);
            if code >= *first && index < *count {
                let at = usize::try_from(index).ok().and_then(|index| place.checked_add(index));
                return at
                    .and_then(|at| self.values.get(at))
                    .copied()
                    .ok_or_else(|| malformed("a code without value"));
            }
        }
        Err(malformed("an unknown code"))
    }
}

/// Bits of a scan, most significant first. A byte of ones is followed by a zero, which does not count, or is a marker.
#[derive(Debug)]
pub(super) struct Bits<'a> {
    rest: &'a [u8],
    byte: u8,
    left: u8,
}

impl<'a> Bits<'a> {
    fn new(rest: &'a [u8]) -> Self {
        Self { rest, byte: 0, left: 0 }
    }

    fn bit(&mut self) -> Result<u32, CodecFailure> {
        if self.left == 0 {
            (self.byte, self.rest) = match *self.rest {
                [0xff, 0, ref rest @ ..] => (0xff, rest),
                [0xff, ..] | [] => return Err(malformed("the data end before the image does")),
                [byte, ref rest @ ..] => (byte, rest),
            };
            self.left = 8;
        }
        self.left -= 1;
        Ok(u32::from(self.byte >> self.left & 1))
    }

    /// Reads a difference or coefficient of so many bits (T.81, F.2.2.1).
    fn signed(&mut self, bits: u8) -> Result<i32, CodecFailure> {
        if bits > 15 {
            return Err(malformed(format!("a coefficient of {bits} bits")));
        }
        let mut value = 0_i32;
        for _ in 0..bits {
            value = value << 1 | i32::from(self.bit()? == 1);
        }
        let is_negative = bits > 0 && value >> (bits - 1) == 0;
        Ok(if is_negative { value - (1 << bits) + 1 } else { value })
    }

    /// Returns whether only padding is left before the end of the image.
    fn are_finished(&self) -> bool {
        let padding = (1_u16 << self.left) - 1;
        self.left < 8 && u16::from(self.byte) & padding == padding && self.rest.starts_with(b"\xff\xd9")
    }

    /// Skips to the byte after the next restart marker.
    fn restart(&mut self, number: u8) -> Result<(), CodecFailure> {
        self.left = 0;
        while let [0xff, 0xff, ..] = self.rest {
            self.rest = self.rest.get(1..).unwrap_or_default();
        }
        match *self.rest {
            [0xff, marker, ref rest @ ..] if marker == 0xd0 + number % 8 => self.rest = rest,
            _ => return Err(malformed("no restart marker where one should be")),
        }
        Ok(())
    }
}

// The inverse discrete cosine transform of 8 × 8 coefficients in integers, by the algorithm of Loeffler, Ligtenberg and
// Moschytz (1989) with 13 bits of constants: the accurate one of libjpeg, whose rounding is the same.

/// Fraction bits of the constants.
const CONSTANT: u32 = 13;
/// Fraction bits between the two passes.
const BETWEEN: u32 = 2;

/// Transforms dequantized coefficients, row by row, to samples.
pub(super) fn samples(coefficients: &[i32; 64]) -> Result<[u8; 64], CodecFailure> {
    let mut columns = [[0_i64; 8]; 8];
    for (x, column) in columns.iter_mut().enumerate() {
        let mut input = [0_i64; 8];
        for (value, coefficient) in input.iter_mut().zip(coefficients.iter().skip(x).step_by(8)) {
            *value = i64::from(*coefficient);
        }
        *column = pass(input, CONSTANT - BETWEEN);
    }
    let mut out = [0_u8; 64];
    for (y, row) in out.chunks_exact_mut(8).enumerate() {
        let input = columns.map(|column| column.get(y).copied().unwrap_or(0));
        for (sample, value) in row.iter_mut().zip(pass(input, CONSTANT + BETWEEN + 3)) {
            // Libraries differ in numbers far outside of the range of samples, which no encoder produces.
            if !(-512..512).contains(&value) {
                return Err(malformed("coefficients out of range"));
            }
            *sample = u8::try_from((value + 128).clamp(0, 255)).unwrap_or(0);
        }
    }
    Ok(out)
}

/// Transforms 8 numbers, and rounds `shift` bits off.
#[expect(clippy::arithmetic_side_effects, reason = "coefficients have 16 bits, and constants 15")]
fn pass([a0, a1, a2, a3, a4, a5, a6, a7]: [i64; 8], shift: u32) -> [i64; 8] {
    // Even part: 0.541196100, 1.847759065, 0.765366865.
    let even = (a2 + a6) * 4433;
    let (low, high) = (even - a6 * 15137, even + a2 * 6270);
    let (sum, difference) = ((a0 + a4) << CONSTANT, (a0 - a4) << CONSTANT);
    let evens = [sum + high, difference + low, difference - low, sum - high];
    // Odd part: 1.175875602, 0.298631336, 2.053119869, 3.072711026, 1.501321110, 0.899976223, 2.562915447, 1.961570560,
    // 0.390180644.
    let all = (a7 + a3 + a5 + a1) * 9633;
    let z1 = (a7 + a1) * -7373;
    let z2 = (a5 + a3) * -20995;
    let z3 = (a7 + a3) * -16069 + all;
    let z4 = (a5 + a1) * -3196 + all;
    let odds = [a1 * 12299 + z1 + z4, a3 * 25172 + z2 + z3, a5 * 16819 + z2 + z4, a7 * 2446 + z1 + z3];
    let rounded = |number: i64| (number + (1 << (shift - 1))) >> shift;
    let [e0, e1, e2, e3] = evens;
    let [o0, o1, o2, o3] = odds;
    [e0 + o0, e1 + o1, e2 + o2, e3 + o3, e3 - o3, e2 - o2, e1 - o1, e0 - o0].map(rounded)
}

// Blocks of a sequential scan (T.81, annexes A and F).

/// Place of each coefficient of a block in the order of the stream (T.81, figure 5).
const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39,
    46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// Samples of a component, with whole blocks at the edges.
#[derive(Debug)]
pub(super) struct Plane {
    pub(super) horizontal: u8,
    pub(super) vertical: u8,
    /// Samples of a row.
    width: usize,
    samples: Vec<u8>,
}

impl Plane {
    fn new(component: &Component, across: usize, down: usize) -> Self {
        let width = across.saturating_mul(8).saturating_mul(component.horizontal.into());
        let height = down.saturating_mul(8).saturating_mul(component.vertical.into());
        let samples = vec![128; width.saturating_mul(height)];
        Self { horizontal: component.horizontal, vertical: component.vertical, width, samples }
    }

    /// Returns samples of a row; nothing past its end.
    pub(super) fn run(&self, y: usize, x: usize, length: usize) -> &[u8] {
        let start = y.saturating_mul(self.width).saturating_add(x);
        self.samples.get(start..start.saturating_add(length)).unwrap_or_default()
    }

    fn put(&mut self, block: &[u8; 64], x: usize, y: usize) {
        let rows = self.samples.chunks_exact_mut(self.width.max(1)).skip(y.saturating_mul(8));
        for (row, line) in rows.zip(block.chunks_exact(8)) {
            let start = x.saturating_mul(8);
            if let Some(place) = row.get_mut(start..start.saturating_add(8)) {
                place.copy_from_slice(line);
            }
        }
    }
}

/// Decodes the planes of all components. With `may_be_short`, a stream may end after any row of units: rows that are missing
/// are gray, as in libjpeg.
pub(super) fn decode(stream: &Stream<'_>, may_be_short: bool) -> Result<Vec<Plane>, CodecFailure> {
    let most = |of: fn(&Component) -> u8| stream.components.iter().map(of).max().unwrap_or(1);
    let across = stream.width.div_ceil(8 * usize::from(most(|component| component.horizontal)));
    let down = stream.height.div_ceil(8 * usize::from(most(|component| component.vertical)));
    let mut planes: Vec<_> = stream.components.iter().map(|one| Plane::new(one, across, down)).collect();
    let mut bits = Bits::new(stream.scan);
    let mut before = vec![0_i32; planes.len()];
    for unit in 0..across.saturating_mul(down) {
        if may_be_short && unit > 0 && unit.is_multiple_of(across) && bits.are_finished() {
            break;
        }
        if let Some(restart) = unit.checked_div(stream.restart_interval).filter(|_| unit > 0)
            && unit.is_multiple_of(stream.restart_interval)
        {
            bits.restart(u8::try_from(restart.saturating_sub(1) % 8).unwrap_or(0))?;
            before.fill(0);
        }
        let parts = stream.components.iter().zip(&mut planes).zip(&mut before);
        for ((component, plane), before) in parts {
            let (wide, tall) = (usize::from(component.horizontal), usize::from(component.vertical));
            let (x, y) = ((unit % across).saturating_mul(wide), (unit / across).saturating_mul(tall));
            for (row, column) in (0..tall).flat_map(|row| (0..wide).map(move |column| (row, column))) {
                let block = samples(&coefficients(&mut bits, component, before)?)?;
                plane.put(&block, x + column, y + row);
            }
        }
    }
    Ok(planes)
}

fn coefficients(
    bits: &mut Bits<'_>,
    component: &Component,
    before: &mut i32,
) -> Result<[i32; 64], CodecFailure> {
    let mut block = [0; 64];
    let length = component.dc.next(bits)?;
    *before = before.saturating_add(bits.signed(length)?);
    put(&mut block, component, 0, *before)?;
    let mut place = 1;
    while place < 64 {
        let code = component.ac.next(bits)?;
        let (zeros, length) = (usize::from(code >> 4), code & 15);
        match (zeros, length) {
            (15, 0) => place += 16,
            (_, 0) => break,
            _ => {
                place += zeros;
                put(&mut block, component, place, bits.signed(length)?)?;
                place += 1;
            }
        }
    }
    Ok(block)
}

fn put(block: &mut [i32; 64], component: &Component, place: usize, value: i32) -> Result<(), CodecFailure> {
    let past = || malformed("more coefficients than a block has");
    let to = ZIGZAG.get(place).map(|to| usize::from(*to)).ok_or_else(past)?;
    let step = component.quantization.get(place).copied().ok_or_else(past)?;
    let product = value.saturating_mul(step.into());
    if i16::try_from(product).is_err() {
        return Err(malformed("coefficients out of range"));
    }
    block.get_mut(to).map(|slot| *slot = product).ok_or_else(past)
}

#[cfg(test)]
mod tests {
    use super::samples;

    /// The transform of a single coefficient of T.81, A.3.3: the first cosine, with samples rounded.
    #[test]
    fn a_cosine() {
        let mut block = [0; 64];
        block[1] = 80;
        let angle = |x: u8| (2.0 * f64::from(x) + 1.0) * std::f64::consts::PI / 16.0;
        let row: Vec<f64> = (0..8).map(|x| (128.0 + 10.0 * 2_f64.sqrt() * angle(x).cos()).round()).collect();
        let samples = samples(&block).unwrap().map(f64::from);
        assert!(samples.chunks(8).all(|line| line == row), "{samples:?}");
    }
}
