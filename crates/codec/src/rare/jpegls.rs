//! JPEG-LS (ITU-T T.87): HDF5 filter 32018 (FCIDECOMP), `imagecodecs_jpegls`. <https://www.itu.int/rec/T-REC-T.87>
//!
//! ```text
//! SOI, then segments: a marker (2 bytes), the length of what follows (2 bytes, counts itself), parameters
//!   SOF55  bits per sample, rows, columns, components      LSE  greatest value, thresholds, reset interval
//!   SOS    components of the scan, NEAR, interleaving      DRI  rows between restart markers
//! after SOS the bits of the scan; EOI
//! ```

use crate::{CodecFailure, bounded, corrupt, unsupported};

const NAME: &str = "jpegls";

const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
const DRI: u8 = 0xdd;
const APP8: u8 = 0xe8;
const SOF55: u8 = 0xf7;
const LSE: u8 = 0xf8;

/// Size of the image.
#[derive(Clone, Copy, Debug)]
struct Frame {
    bits: u32,
    rows: usize,
    columns: usize,
    components: usize,
}

impl Frame {
    /// Parses SOF55.
    fn parse(segment: &[u8]) -> Result<Self, CodecFailure> {
        let [bits, rows, rows_low, columns, columns_low, components] =
            *segment.first_chunk::<6>().ok_or_else(cut_off)?;
        let frame = Self {
            bits: bits.into(),
            rows: u16::from_be_bytes([rows, rows_low]).into(),
            columns: u16::from_be_bytes([columns, columns_low]).into(),
            components: components.into(),
        };
        let is_sensible = (2..=16).contains(&bits) && frame.rows > 0 && frame.columns > 0 && components > 0;
        is_sensible.then_some(frame).ok_or_else(|| corrupt(NAME, format!("{frame:?}")))
    }

    fn sample_bytes(&self) -> usize {
        if self.bits > 8 { 2 } else { 1 }
    }

    fn pixels(&self) -> usize {
        self.rows * self.columns
    }

    fn bytes(&self) -> Option<usize> {
        self.pixels().checked_mul(self.components)?.checked_mul(self.sample_bytes())
    }
}

/// What the segments before a scan have set.
#[derive(Default)]
struct State {
    frame: Option<Frame>,
    preset: Preset,
    restart_rows: usize,
    /// Samples of each component, in the order of the scans.
    planes: Vec<Vec<u16>>,
    /// Whether a scan has several components.
    interleaved: bool,
}

/// Decodes an image to at most `limit` bytes: little-endian samples of one byte up to 8 bits, else of two. The components of
/// interleaved scans are adjacent. Others follow one another, unless `by_pixel` makes them adjacent as well.
pub(super) fn decode(bytes: &[u8], by_pixel: bool, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let mut rest = match bytes {
        [0xff, SOI, rest @ ..] => rest,
        _ => return Err(corrupt(NAME, "no start of an image")),
    };
    let mut state = State::default();
    loop {
        // Fill bytes may precede a marker.
        let [0xff, after @ ..] = rest else { return Err(corrupt(NAME, "no marker where one is expected")) };
        let fill = after.iter().take_while(|byte| **byte == 0xff).count();
        let (&marker, after) = after.get(fill..).and_then(<[u8]>::split_first).ok_or_else(cut_off)?;
        if marker == EOI {
            break;
        }
        let (length, after) = after.split_first_chunk::<2>().ok_or_else(cut_off)?;
        let length = usize::from(u16::from_be_bytes(*length)).checked_sub(2).ok_or_else(cut_off)?;
        let segment;
        (segment, rest) = after.split_at_checked(length).ok_or_else(cut_off)?;
        if marker == SOS {
            rest = state.scan(segment, rest)?;
        } else {
            state.set(marker, segment, limit)?;
        }
        if state.is_complete() {
            break;
        }
    }
    state.samples(by_pixel)
}

impl State {
    fn set(&mut self, marker: u8, segment: &[u8], limit: usize) -> Result<(), CodecFailure> {
        match marker {
            SOF55 if self.frame.is_none() => {
                let frame = Frame::parse(segment)?;
                bounded(NAME, frame.bytes(), limit)?;
                self.frame = Some(frame);
            }
            LSE => self.preset = Preset::parse(segment)?,
            DRI => self.restart_rows = restart_rows(segment)?,
            // Colours transformed by HP's software.
            APP8 if segment.starts_with(b"mrfx") && segment.get(4) != Some(&0) => {
                return Err(unsupported(NAME, "colour transformation"));
            }
            // Applications' data and comments.
            0xe0..=0xef | 0xfe => {}
            other => return Err(unsupported(NAME, format!("marker {other:#x}"))),
        }
        Ok(())
    }

    /// Decodes a scan, and returns what follows it.
    fn scan<'a>(&mut self, segment: &[u8], bytes: &'a [u8]) -> Result<&'a [u8], CodecFailure> {
        let frame = self.frame.ok_or_else(|| corrupt(NAME, "a scan before the size of the image"))?;
        let (count, rest) = segment.split_first().ok_or_else(cut_off)?;
        let count = usize::from(*count);
        let (ids, rest) = rest.split_at_checked(2 * count).ok_or_else(cut_off)?;
        let [near, interleave, transform] = *rest.first_chunk().ok_or_else(cut_off)?;
        let uses_table = ids.iter().skip(1).step_by(2).any(|table| *table != 0);
        if uses_table || transform != 0 {
            return Err(unsupported(NAME, "mapping tables and point transforms"));
        }
        let interleave = Interleave::parse(interleave, count)?;
        if self.planes.len() + count > frame.components {
            return Err(corrupt(NAME, format!("more than {} components", frame.components)));
        }
        self.interleaved |= count > 1;
        let parameters = self.preset.complete(frame.bits, near.into())?;
        let scan = Scan { parameters, rows: frame.rows, columns: frame.columns, count };
        let (planes, after) = scan.decode(bytes, interleave, self.restart_rows)?;
        self.planes.extend(planes);
        Ok(after)
    }

    fn is_complete(&self) -> bool {
        self.frame.is_some_and(|frame| self.planes.len() == frame.components)
    }

    /// Returns the samples of all components.
    fn samples(&self, by_pixel: bool) -> Result<Vec<u8>, CodecFailure> {
        let frame = self.frame.filter(|_| self.is_complete()).ok_or_else(cut_off)?;
        let mut out = Vec::with_capacity(frame.bytes().unwrap_or(0));
        let mut push = |sample: u16| match (frame.sample_bytes(), sample.to_le_bytes()) {
            (1, [low, _]) => out.push(low),
            (_, both) => out.extend(both),
        };
        if self.interleaved || by_pixel {
            let mut planes: Vec<_> = self.planes.iter().map(|plane| plane.iter().copied()).collect();
            for _ in 0..frame.pixels() {
                planes.iter_mut().filter_map(Iterator::next).for_each(&mut push);
            }
        } else {
            self.planes.iter().flatten().copied().for_each(&mut push);
        }
        Ok(out)
    }
}

/// Parses DRI: a number of 2 to 4 bytes.
fn restart_rows(segment: &[u8]) -> Result<usize, CodecFailure> {
    match segment.len() {
        2..=4 => Ok(segment.iter().fold(0, |rows, byte| rows << 8 | usize::from(*byte))),
        other => Err(corrupt(NAME, format!("a restart interval of {other} bytes"))),
    }
}

fn cut_off() -> CodecFailure {
    corrupt(NAME, "the image is truncated")
}

// The bits of a scan, most significant first (T.87, annex A.1 and C.2.1). After a byte of 0xff only 7 bits of the next byte
// count; a byte of 0xff before one of 0x80 or more is a marker, and ends the bits.

/// Bits of a scan.
struct Bits<'a> {
    bytes: &'a [u8],
    /// Next byte.
    at: usize,
    /// Bits that were taken from the bytes, at the top.
    cache: u64,
    /// Number of bits in the cache.
    filled: u32,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, cache: 0, filled: 0 }
    }

    /// Fills the cache with 56 bits, or with what is left.
    fn fill(&mut self) {
        while self.filled <= 56 {
            let Some(byte) = self.bytes.get(self.at).copied() else { return };
            let follows_ff = self.at > 0 && self.bytes.get(self.at - 1) == Some(&0xff);
            let is_marker = byte == 0xff && self.bytes.get(self.at + 1).is_none_or(|next| *next >= 0x80);
            if is_marker {
                return;
            }
            let count = if follows_ff { 7 } else { 8 };
            self.cache |= u64::from(byte) << (64 - count - self.filled);
            self.filled += count;
            self.at += 1;
        }
    }

    /// Reads a number of up to 32 bits; `None` past the end.
    fn read(&mut self, count: u32) -> Option<u32> {
        if count == 0 {
            return Some(0);
        }
        if self.filled < count {
            self.fill();
        }
        self.filled = self.filled.checked_sub(count)?;
        let value = self.cache.checked_shr(64 - count)?;
        self.cache = self.cache.checked_shl(count).unwrap_or(0);
        u32::try_from(value).ok()
    }

    /// Counts the zeros before a one, and skips both. More than `most` zeros are damage.
    fn zeros(&mut self, most: u32) -> Option<u32> {
        let mut zeros = 0;
        loop {
            if self.filled == 0 {
                self.fill();
            }
            let here = self.cache.leading_zeros().min(self.filled);
            zeros += here;
            if self.filled == 0 || zeros > most {
                return None;
            }
            if here < self.filled {
                self.read(here + 1)?;
                return Some(zeros);
            }
            (self.cache, self.filled) = (0, 0);
        }
    }

    /// Returns the bytes from the next marker on: unread bits are padding.
    fn after(&self) -> Option<&'a [u8]> {
        let start = self.at.saturating_sub(1);
        let rest = self.bytes.get(start..)?;
        let marker = rest.windows(2).position(|pair| matches!(pair, [0xff, 0x80..=0xff]))?;
        rest.get(marker..)
    }
}

// Contexts of samples and their statistics (T.87, annex A.2 to A.7).

/// Order of the codes of run lengths (annex A.7.1.1).
const ORDERS: [u32; 32] =
    [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Contexts of regular mode: quantized gradients of -4 to 4 each, without the sign.
const CONTEXTS: usize = 365;

/// Greatest sum of errors, which undamaged images do not reach.
const LARGEST: i32 = 1 << 24;

/// Parameters of an LSE segment; 0 stands for the default.
#[derive(Clone, Copy, Default, Debug)]
struct Preset {
    greatest: i32,
    thresholds: [i32; 3],
    reset: i32,
}

impl Preset {
    fn parse(segment: &[u8]) -> Result<Self, CodecFailure> {
        let (kind, rest) = segment.split_first().ok_or_else(cut_off)?;
        if *kind != 1 {
            return Err(unsupported(NAME, format!("preset parameters of type {kind}")));
        }
        let mut numbers = rest.as_chunks::<2>().0.iter().map(|number| i32::from(u16::from_be_bytes(*number)));
        let mut next = || numbers.next().ok_or_else(cut_off);
        Ok(Self { greatest: next()?, thresholds: [next()?, next()?, next()?], reset: next()? })
    }

    /// Returns the parameters of a scan, with defaults for those that are not set (annex C.2.4.1.1.1).
    fn complete(&self, bits: u32, near: i32) -> Result<Parameters, CodecFailure> {
        let most = (1 << bits) - 1;
        let greatest = if self.greatest == 0 { most } else { self.greatest };
        let reset = if self.reset == 0 { 64 } else { self.reset };
        let default = default_thresholds(greatest, near);
        let [t1, t2, t3] = [0, 1, 2].map(|n: usize| match (self.thresholds.get(n), default.get(n)) {
            (Some(0), Some(default)) => *default,
            (Some(set), _) => *set,
            _ => 0,
        });
        let is_sensible = greatest <= most
            && near <= 255.min(greatest / 2)
            && (near < t1 && t1 <= t2 && t2 <= t3 && t3 <= greatest)
            && (3..=255.max(greatest)).contains(&reset);
        if !is_sensible {
            return Err(corrupt(NAME, format!("NEAR {near} with {self:?} and {bits} bits")));
        }
        let range = if near == 0 { greatest + 1 } else { (greatest + 2 * near) / (2 * near + 1) + 1 };
        let bits_of = |count: i32| 32 - (count - 1).leading_zeros();
        let bits = bits_of(greatest + 1).max(2);
        let limit = 2 * (bits + bits.max(8));
        let code_bits = bits_of(range);
        Ok(Parameters { greatest, near, thresholds: [t1, t2, t3], reset, range, limit, code_bits })
    }
}

fn default_thresholds(greatest: i32, near: i32) -> [i32; 3] {
    let within = |value: i32, least: i32| if value > greatest || value < least { least } else { value };
    let basic = if greatest >= 128 {
        let factor = (greatest.min(4095) + 128) / 256;
        [factor + 2 + 3 * near, factor * 4 + 3 + 5 * near, factor * 17 + 4 + 7 * near]
    } else {
        let factor = 256 / (greatest + 1);
        [(3 / factor + 3 * near).max(2), (7 / factor + 5 * near).max(3), (21 / factor + 7 * near).max(4)]
    };
    let [t1, t2, t3] = basic;
    let t1 = within(t1, near + 1);
    let t2 = within(t2, t1);
    [t1, t2, within(t3, t2)]
}

/// Parameters of a scan, by their names in annex A.2.1.
#[derive(Clone, Copy, Debug)]
struct Parameters {
    /// MAXVAL.
    greatest: i32,
    near: i32,
    thresholds: [i32; 3],
    reset: i32,
    range: i32,
    limit: u32,
    /// qbpp.
    code_bits: u32,
}

impl Parameters {
    /// Quantizes a gradient to -4 to 4 (annex A.3.3).
    fn quantize(&self, gradient: i32) -> i32 {
        let size = gradient.abs();
        let level =
            3 - i32::try_from(self.thresholds.iter().filter(|limit| size < **limit).count()).unwrap_or(0);
        let level = if size <= self.near { 0 } else { level + 1 };
        if gradient < 0 { -level } else { level }
    }

    /// Adds a quantized error to a prediction (annex A.4.4, reversed).
    fn reconstruct(&self, prediction: i32, error: i32) -> i32 {
        let step = 2 * self.near + 1;
        let value = prediction + error * step;
        let wrapped = if value < -self.near {
            value + self.range * step
        } else if value > self.greatest + self.near {
            value - self.range * step
        } else {
            value
        };
        wrapped.clamp(0, self.greatest)
    }

    /// Reads a code of order `order` with at most `limit` bits (annex A.5.3).
    fn code(&self, bits: &mut Bits<'_>, order: u32, limit: u32) -> Option<i32> {
        let escape = limit.checked_sub(self.code_bits + 1)?;
        let zeros = bits.zeros(escape)?;
        let value = if zeros < escape {
            zeros.checked_shl(order)? | bits.read(order)?
        } else {
            bits.read(self.code_bits)? + 1
        };
        i32::try_from(value).ok().filter(|value| *value <= 1 << 20)
    }
}

/// Statistics of a context (annex A.6).
#[derive(Clone, Copy)]
struct Context {
    /// A: sum of the sizes of errors.
    size: i32,
    /// B: bias.
    bias: i32,
    /// C: correction of predictions.
    correction: i32,
    /// N: number of errors; Nn for runs is [`Context::bias`].
    count: i32,
}

impl Context {
    fn order(&self, size: i32) -> u32 {
        (0..16).find(|order| self.count << order >= size).unwrap_or(16)
    }

    /// Updates the statistics by an error (annex A.6.1 and A.6.2).
    fn update(&mut self, error: i32, parameters: &Parameters) -> Option<()> {
        self.bias += error * (2 * parameters.near + 1);
        self.size += error.abs();
        if self.size > LARGEST || self.bias.abs() > LARGEST {
            return None;
        }
        if self.count == parameters.reset {
            self.size >>= 1;
            self.bias >>= 1;
            self.count >>= 1;
        }
        self.count += 1;
        if self.bias <= -self.count {
            self.bias = (self.bias + self.count).max(1 - self.count);
            self.correction = (self.correction - 1).max(-128);
        } else if self.bias > 0 {
            self.bias = (self.bias - self.count).min(0);
            self.correction = (self.correction + 1).min(127);
        }
        Some(())
    }
}

/// Contexts of a scan, and the position in [`ORDERS`] for each component.
struct Model {
    parameters: Parameters,
    regular: Vec<Context>,
    /// After runs: neighbours differ, or are alike.
    after_run: [Context; 2],
}

impl Model {
    fn new(parameters: Parameters) -> Self {
        let size = ((parameters.range + 32) / 64).max(2);
        let context = Context { size, bias: 0, correction: 0, count: 1 };
        Self { parameters, regular: vec![context; CONTEXTS], after_run: [context; 2] }
    }

    /// Decodes a sample in regular mode, given its quantized gradients and what the neighbours predict (annex A.4 to A.6).
    fn regular(&mut self, bits: &mut Bits<'_>, gradients: [i32; 3], prediction: i32) -> Option<i32> {
        let joint = gradients.into_iter().fold(0, |joint, gradient| joint * 9 + gradient);
        let sign = if joint < 0 { -1 } else { 1 };
        let context = self.regular.get_mut(usize::try_from(joint.abs()).ok()?)?;
        let parameters = &self.parameters;
        let prediction = (prediction + sign * context.correction).clamp(0, parameters.greatest);
        let order = context.order(context.size);
        let code = parameters.code(bits, order, parameters.limit)?;
        let inverted = order == 0 && parameters.near == 0 && 2 * context.bias <= -context.count;
        let error = if code & 1 == 0 { code >> 1 } else { -(code >> 1) - 1 };
        let error = if inverted { -error - 1 } else { error };
        context.update(error, parameters)?;
        Some(parameters.reconstruct(prediction, sign * error))
    }

    /// Decodes the length of a run, of which at most `left` samples are left in the row (annex A.7.1.2).
    fn run(&self, bits: &mut Bits<'_>, index: &mut usize, left: usize) -> Option<usize> {
        let mut length = 0;
        while bits.read(1)? == 1 {
            let whole = 1 << ORDERS.get(*index)?;
            let take = whole.min(left - length);
            length += take;
            if take == whole {
                *index = (*index + 1).min(ORDERS.len() - 1);
            }
            if length == left {
                return Some(length);
            }
        }
        length += usize::try_from(bits.read(*ORDERS.get(*index)?)?).ok()?;
        (length < left).then_some(length)
    }

    /// Decodes the sample that ends a run (annex A.7.2). `alike` chooses the context of neighbours that are alike.
    fn end_of_run(
        &mut self,
        bits: &mut Bits<'_>,
        index: usize,
        (left, above): (i32, i32),
        alike: bool,
    ) -> Option<i32> {
        let parameters = &self.parameters;
        let [differ, same] = &mut self.after_run;
        let (context, kind) = if alike { (same, 1) } else { (differ, 0) };
        let order = context.order(context.size + kind * (context.count >> 1));
        let code = parameters.code(bits, order, parameters.limit.checked_sub(ORDERS.get(index)? + 1)?)?;
        let size = (code + kind + 1) / 2;
        let odd = (code + kind) & 1 == 1;
        let mostly_negative = order != 0 || 2 * context.bias >= context.count;
        let error = if mostly_negative == odd { -size } else { size };
        if error < 0 {
            context.bias += 1;
        }
        context.size += (code + 1 - kind) >> 1;
        if context.size > LARGEST {
            return None;
        }
        if context.count == parameters.reset {
            context.size >>= 1;
            context.count >>= 1;
            context.bias >>= 1;
        }
        context.count += 1;
        let sign = if !alike && left > above { -1 } else { 1 };
        Some(parameters.reconstruct(if alike { left } else { above }, sign * error))
    }
}

// The rows of a scan (T.87, annex A.8 and B).
//
// ```text
// neighbours   c b d   of the row above
// of x         a x
// ```

/// How the components of a scan alternate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Interleave {
    None,
    Rows,
    Samples,
}

impl Interleave {
    fn parse(number: u8, components: usize) -> Result<Self, CodecFailure> {
        match (number, components) {
            (0, 1) => Ok(Self::None),
            (1, 1..) => Ok(Self::Rows),
            (2, 1..) => Ok(Self::Samples),
            _ => Err(corrupt(NAME, format!("{components} components with interleaving {number}"))),
        }
    }
}

/// Row of a component: an element before the first sample, the samples, the last sample again.
type Row = Vec<i32>;

#[derive(Clone, Copy)]
struct Scan {
    parameters: Parameters,
    rows: usize,
    columns: usize,
    /// Components.
    count: usize,
}

/// What changes from row to row.
struct Progress {
    model: Model,
    /// The row above, of each component.
    above: Vec<Row>,
    current: Vec<Row>,
    /// Position in the table of orders of run lengths, of each component.
    index: Vec<usize>,
}

impl Scan {
    /// Decodes the planes of the components, and returns what follows the scan.
    pub(super) fn decode<'a>(
        &self,
        bytes: &'a [u8],
        interleave: Interleave,
        restart_rows: usize,
    ) -> Result<(Vec<Vec<u16>>, &'a [u8]), CodecFailure> {
        let mut planes = vec![Vec::new(); self.count];
        let mut bits = Bits::new(bytes);
        let mut progress = self.start();
        for row in 0..self.rows {
            if restart_rows > 0 && row > 0 && row.is_multiple_of(restart_rows) {
                // The padding and the restart marker.
                let Some([0xff, 0xd0..=0xd7, rest @ ..]) = bits.after() else {
                    return Err(corrupt(NAME, "no restart marker where one is expected"));
                };
                bits = Bits::new(rest);
                progress = self.start();
            }
            self.row(&mut bits, interleave, &mut progress).ok_or_else(cut_off)?;
            for (plane, current) in planes.iter_mut().zip(&progress.current) {
                plane.extend(
                    current
                        .iter()
                        .skip(1)
                        .take(self.columns)
                        .map(|sample| u16::try_from(*sample).unwrap_or(0)),
                );
            }
            let Progress { above, current, .. } = &mut progress;
            std::mem::swap(above, current);
        }
        Ok((planes, bits.after().unwrap_or_default()))
    }

    fn start(&self) -> Progress {
        let rows = vec![vec![0; self.columns + 2]; self.count];
        let model = Model::new(self.parameters);
        Progress { model, above: rows.clone(), current: rows, index: vec![0; self.count] }
    }

    /// Decodes a row of all components.
    fn row(&self, bits: &mut Bits<'_>, interleave: Interleave, progress: &mut Progress) -> Option<()> {
        for (above, current) in progress.above.iter_mut().zip(&mut progress.current) {
            *above.get_mut(self.columns + 1)? = *above.get(self.columns)?;
            *current.first_mut()? = *above.get(1)?;
        }
        if interleave == Interleave::Samples && self.count > 1 {
            return self.samples(bits, progress);
        }
        let Progress { model, above, current, index } = progress;
        for ((above, current), index) in above.iter().zip(current).zip(index) {
            self.single(bits, model, above, current, index)?;
        }
        Some(())
    }

    /// Decodes a row of one component.
    fn single(
        &self,
        bits: &mut Bits<'_>,
        model: &mut Model,
        above: &Row,
        current: &mut Row,
        index: &mut usize,
    ) -> Option<()> {
        let mut at = 1;
        while at <= self.columns {
            let near = Neighbours::of(above, current, at)?;
            let gradients = near.gradients(&model.parameters);
            if gradients != [0; 3] {
                *current.get_mut(at)? = model.regular(bits, gradients, near.prediction())?;
                at += 1;
                continue;
            }
            let length = model.run(bits, index, self.columns + 1 - at)?;
            current.get_mut(at..at + length)?.fill(near.a);
            at += length;
            if at <= self.columns {
                let b = *above.get(at)?;
                let alike = (near.a - b).abs() <= model.parameters.near;
                *current.get_mut(at)? = model.end_of_run(bits, *index, (near.a, b), alike)?;
                *index = index.saturating_sub(1);
                at += 1;
            }
        }
        Some(())
    }

    /// Decodes a row whose components alternate sample by sample: runs are those of all components.
    fn samples(&self, bits: &mut Bits<'_>, progress: &mut Progress) -> Option<()> {
        let Progress { model, above, current, index } = progress;
        let index = index.first_mut()?;
        let mut at = 1;
        while at <= self.columns {
            let mut is_run = true;
            let mut near = Vec::with_capacity(self.count);
            for (above, current) in above.iter().zip(current.iter()) {
                let here = Neighbours::of(above, current, at)?;
                let gradients = here.gradients(&model.parameters);
                is_run &= gradients == [0; 3];
                near.push((here, gradients));
            }
            if !is_run {
                for ((here, gradients), current) in near.iter().zip(current.iter_mut()) {
                    *current.get_mut(at)? = model.regular(bits, *gradients, here.prediction())?;
                }
                at += 1;
                continue;
            }
            let length = model.run(bits, index, self.columns + 1 - at)?;
            for ((here, _), current) in near.iter().zip(current.iter_mut()) {
                current.get_mut(at..at + length)?.fill(here.a);
            }
            at += length;
            if at <= self.columns {
                for (((here, _), above), current) in near.iter().zip(above.iter()).zip(current.iter_mut()) {
                    let ends = (here.a, *above.get(at)?);
                    *current.get_mut(at)? = model.end_of_run(bits, *index, ends, false)?;
                }
                *index = index.saturating_sub(1);
                at += 1;
            }
        }
        Some(())
    }
}

/// Neighbours of a sample that are decoded already.
struct Neighbours {
    a: i32,
    b: i32,
    c: i32,
    d: i32,
}

impl Neighbours {
    fn of(above: &Row, current: &Row, at: usize) -> Option<Self> {
        let [c, b, d] = *above.get(at - 1..)?.first_chunk()?;
        Some(Self { a: *current.get(at - 1)?, b, c, d })
    }

    /// Returns the quantized gradients (annex A.3.1).
    fn gradients(&self, parameters: &Parameters) -> [i32; 3] {
        [self.d - self.b, self.b - self.c, self.c - self.a].map(|gradient| parameters.quantize(gradient))
    }

    /// Predicts the sample: the median of a, b and a + b - c (annex A.4.1).
    fn prediction(&self) -> i32 {
        let (low, high) = (self.a.min(self.b), self.a.max(self.b));
        (self.a + self.b - self.c).clamp(low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = &[0xff, 0xd8, 0xff, 0xf7, 0, 11, 8, 0, 4, 0, 4, 1, 1, 0x11, 0];
    const SCAN: &[u8] = &[0xff, 0xda, 0, 8, 1, 1, 0, 0, 0, 0];
    /// Annex H.3 of T.87: an image of 4 × 4 samples, and the bits of its scan.
    const BITS: &[u8] = &[
        0xc0, 0, 0, 0x6c, 0x80, 0x20, 0x8e, 1, 0xc0, 0, 0, 0x57, 0x40, 0, 0, 0x6e, 0xe6, 0, 0, 1, 0xbc, 0x18,
        0, 0, 5, 0xd8, 0, 0, 0x91, 0x60,
    ];
    const SAMPLES: [u8; 16] = [0, 0, 90, 74, 68, 50, 43, 205, 64, 145, 145, 145, 100, 145, 145, 145];

    #[test]
    fn the_example_of_the_standard() {
        let image = [HEAD, SCAN, BITS, &[0xff, EOI]].concat();
        assert_eq!(decode(&image, false, 16).unwrap(), SAMPLES);
        assert!(matches!(decode(&image, false, 15), Err(CodecFailure::TooLong { .. })));
        for length in 0..image.len() - 3 {
            assert!(decode(&image[..length], false, 16).is_err(), "{length} bytes");
        }
    }

    /// Contexts and the row above start again after a restart marker.
    #[test]
    fn restart_markers_separate_rows() {
        let mut image =
            [HEAD, &[0xff, DRI, 0, 4, 0, 4], SCAN, BITS, &[0xff, 0xd0], BITS, &[0xff, EOI]].concat();
        image[8] = 8;
        assert_eq!(decode(&image, true, 32).unwrap(), [SAMPLES, SAMPLES].concat());
        image[20] = 3;
        assert!(decode(&image, true, 32).is_err());
    }
}
