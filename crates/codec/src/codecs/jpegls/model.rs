//! Contexts of samples and their statistics (T.87, annex A.2 to A.7).

use super::{NAME, bits::Bits, cut_off, unsupported};
use crate::{CodecFailure, corrupt};

/// Order of the codes of run lengths (annex A.7.1.1).
const ORDERS: [u32; 32] =
    [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Contexts of regular mode: quantized gradients of -4 to 4 each, of which the sign is left out.
const CONTEXTS: usize = 365;

/// Greatest sum of errors, which undamaged images do not reach.
const LARGEST: i32 = 1 << 24;

/// Parameters of an LSE segment; 0 stands for the default.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Preset {
    greatest: i32,
    thresholds: [i32; 3],
    reset: i32,
}

impl Preset {
    pub(super) fn parse(segment: &[u8]) -> Result<Self, CodecFailure> {
        let (kind, rest) = segment.split_first().ok_or_else(cut_off)?;
        if *kind != 1 {
            return Err(unsupported(&format!("preset parameters of type {kind}")));
        }
        let mut numbers = rest.as_chunks::<2>().0.iter().map(|number| i32::from(u16::from_be_bytes(*number)));
        let mut next = || numbers.next().ok_or_else(cut_off);
        Ok(Self { greatest: next()?, thresholds: [next()?, next()?, next()?], reset: next()? })
    }

    /// Returns the parameters of a scan, with defaults for those that are not set (annex C.2.4.1.1.1).
    pub(super) fn complete(&self, bits: u32, near: i32) -> Result<Parameters, CodecFailure> {
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
pub(super) struct Parameters {
    /// MAXVAL.
    greatest: i32,
    pub(super) near: i32,
    thresholds: [i32; 3],
    reset: i32,
    range: i32,
    limit: u32,
    /// qbpp.
    code_bits: u32,
}

impl Parameters {
    /// Quantizes a gradient to -4 to 4 (annex A.3.3).
    pub(super) fn quantize(&self, gradient: i32) -> i32 {
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
pub(super) struct Model {
    pub(super) parameters: Parameters,
    regular: Vec<Context>,
    /// After runs: neighbours differ, or are alike.
    after_run: [Context; 2],
}

impl Model {
    pub(super) fn new(parameters: Parameters) -> Self {
        let size = ((parameters.range + 32) / 64).max(2);
        let context = Context { size, bias: 0, correction: 0, count: 1 };
        Self { parameters, regular: vec![context; CONTEXTS], after_run: [context; 2] }
    }

    /// Decodes a sample in regular mode, given its quantized gradients and what the neighbours predict (annex A.4 to A.6).
    pub(super) fn regular(
        &mut self,
        bits: &mut Bits<'_>,
        gradients: [i32; 3],
        prediction: i32,
    ) -> Option<i32> {
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
    pub(super) fn run(&self, bits: &mut Bits<'_>, index: &mut usize, left: usize) -> Option<usize> {
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
    pub(super) fn end_of_run(
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
