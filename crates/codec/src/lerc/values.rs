//! The values of a blob: one for all, all as they are, or block by block.

use super::{CodecFailure, bits::Input, bits::unstuff, broken, head::Head};

/// Types of numbers as LERC counts them.
const FLOAT: u8 = 6;
const DOUBLE: u8 = 7;

/// All values, little-endian, pixel by pixel; NaN where the mask says that there is none.
pub(super) fn read(
    input: &mut Input<'_>,
    head: &Head,
    valid: &[bool],
    samples: usize,
) -> Result<Vec<u8>, CodecFailure> {
    if head.has_nodata {
        return Err(CodecFailure::NoDecoder("LERC with values that stand for no data".into()));
    }
    let values = if head.double {
        let mut values = vec![f64::NAN; samples];
        fill(input, head, valid, &mut values)?;
        values.into_iter().flat_map(f64::to_le_bytes).collect()
    } else {
        let mut values = vec![f32::NAN; samples];
        fill(input, head, valid, &mut values)?;
        values.into_iter().flat_map(f32::to_le_bytes).collect()
    };
    Ok(values)
}

/// The two types of numbers that are decoded here.
trait Number: Copy + Into<f64> {
    const SIZE: usize;
    /// Rounds as a cast in C does.
    fn of(value: f64) -> Self;
    fn read(input: &mut Input<'_>) -> Result<Self, CodecFailure>;
}

impl Number for f32 {
    const SIZE: usize = 4;

    fn of(value: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
        let rounded = value as Self;
        rounded
    }

    fn read(input: &mut Input<'_>) -> Result<Self, CodecFailure> {
        input.array().map(Self::from_le_bytes)
    }
}

impl Number for f64 {
    const SIZE: usize = 8;

    fn of(value: f64) -> Self {
        value
    }

    fn read(input: &mut Input<'_>) -> Result<Self, CodecFailure> {
        input.double()
    }
}

fn fill<T: Number>(
    input: &mut Input<'_>,
    head: &Head,
    valid: &[bool],
    values: &mut [T],
) -> Result<(), CodecFailure> {
    if head.valid == 0 {
        return Ok(());
    }
    let pixels = || values_of_pixels(valid);
    if head.least == head.greatest {
        return constant(values, head.depth, pixels(), &[T::of(head.least)]);
    }
    let mut greatest = vec![T::of(head.greatest); head.depth];
    if head.version >= 4 {
        let least = numbers::<T>(input, head.depth)?;
        greatest = numbers::<T>(input, head.depth)?;
        let same = least.iter().zip(&greatest).all(|(a, b)| (*a).into() == (*b).into());
        if same {
            return constant(values, head.depth, pixels(), &least);
        }
    }
    if input.byte()? != 0 {
        for pixel in pixels() {
            let all = values.get_mut(pixel * head.depth..).unwrap_or_default();
            for value in all.iter_mut().take(head.depth) {
                *value = T::read(input)?;
            }
        }
        return Ok(());
    }
    if head.version >= 6 && head.greatest_error == 0.0 && input.byte()? != 0 {
        return Err(CodecFailure::NoDecoder("LERC with entropy-coded floats".into()));
    }
    Blocks { head, valid, greatest: &greatest }.read(input, values)
}

/// Indexes of the valid pixels.
fn values_of_pixels(valid: &[bool]) -> impl Iterator<Item = usize> + '_ {
    valid.iter().enumerate().filter(|(_, valid)| **valid).map(|(pixel, _)| pixel)
}

/// One value for each depth, or one for all.
fn constant<T: Number>(
    values: &mut [T],
    depth: usize,
    pixels: impl Iterator<Item = usize>,
    all: &[T],
) -> Result<(), CodecFailure> {
    for pixel in pixels {
        let here = values.get_mut(pixel * depth..).unwrap_or_default();
        for (value, constant) in here.iter_mut().take(depth).zip(all.iter().cycle()) {
            *value = *constant;
        }
    }
    Ok(())
}

fn numbers<T: Number>(input: &mut Input<'_>, count: usize) -> Result<Vec<T>, CodecFailure> {
    let needed = count.saturating_mul(T::SIZE);
    let mut stored = Input(super::read(input, needed)?);
    (0..count).map(|_| T::read(&mut stored)).collect()
}

/// Square blocks of pixels, from left to right and from top to bottom, each depth by itself.
struct Blocks<'a, T> {
    head: &'a Head,
    valid: &'a [bool],
    greatest: &'a [T],
}

/// How the values of a block are made of what is stored.
struct Scale {
    offset: f64,
    step: f64,
    greatest: f64,
    /// The values are differences from those of the depth before.
    difference: bool,
}

impl<T: Number> Blocks<'_, T> {
    fn read(&self, input: &mut Input<'_>, values: &mut [T]) -> Result<(), CodecFailure> {
        let Head { rows, columns, block, depth, .. } = *self.head;
        for top in (0..rows).step_by(block) {
            for left in (0..columns).step_by(block) {
                let pixels = self.pixels(top, left);
                for sample in 0..depth {
                    self.block(input, left, &pixels, sample, values)?;
                }
            }
        }
        Ok(())
    }

    /// Valid pixels of a block, row by row.
    fn pixels(&self, top: usize, left: usize) -> Vec<usize> {
        let Head { rows, columns, block, .. } = *self.head;
        let right = left.saturating_add(block).min(columns);
        let bottom = top.saturating_add(block).min(rows);
        let all = (top..bottom).flat_map(|row| (left..right).map(move |column| row * columns + column));
        all.filter(|pixel| self.valid.get(*pixel) == Some(&true)).collect()
    }

    fn block(
        &self,
        input: &mut Input<'_>,
        left: usize,
        pixels: &[usize],
        sample: usize,
        values: &mut [T],
    ) -> Result<(), CodecFailure> {
        let flags = input.byte()?;
        let new = self.head.version >= 5;
        let difference = new && flags & 4 != 0;
        let pattern = if new { 14 } else { 15 };
        if usize::from(flags >> 2) & pattern != (left >> 3) & pattern || difference && sample == 0 {
            return Err(broken("a block with flags that do not fit its place"));
        }
        let places = pixels.iter().map(|pixel| pixel * self.head.depth + sample);
        let mut scale = Scale { offset: 0.0, step: 0.0, greatest: f64::INFINITY, difference };
        match flags & 3 {
            0 if !difference => return each(values, places, |_| T::read(input)),
            0 => return Err(broken("a block of plain differences")),
            2 => return scale.lay(values, places, &[]),
            kind => {
                scale.offset = offset(input, self.head.double, flags >> 6)?;
                scale.greatest = self.greatest.get(sample).copied().map_or(self.head.greatest, Into::into);
                if kind == 3 {
                    return scale.lay(values, places, &[]);
                }
            }
        }
        scale.step = 2.0 * self.head.greatest_error;
        let steps = unstuff(input, self.head.block.saturating_mul(self.head.block))?;
        if steps.len() != pixels.len() {
            return Err(broken("a block with other values than pixels"));
        }
        scale.lay(values, places, &steps)
    }
}

impl Scale {
    /// Puts values at their places, one for each step, or offsets where there are no steps.
    fn lay<T: Number>(
        &self,
        values: &mut [T],
        places: impl Iterator<Item = usize>,
        steps: &[u32],
    ) -> Result<(), CodecFailure> {
        let mut steps = steps.iter();
        let bounded = self.step > 0.0 || self.difference;
        for place in places {
            let step = steps.next().copied().unwrap_or(0);
            let mut value = self.offset + f64::from(step) * self.step;
            if self.difference {
                let before = place.checked_sub(1).and_then(|before| values.get(before));
                value += before.copied().map_or(f64::NAN, Into::into);
            }
            let value = if bounded { value.min(self.greatest) } else { value };
            *values.get_mut(place).ok_or_else(|| broken("a pixel outside"))? = T::of(value);
        }
        Ok(())
    }
}

fn each<T>(
    values: &mut [T],
    places: impl Iterator<Item = usize>,
    mut next: impl FnMut(usize) -> Result<T, CodecFailure>,
) -> Result<(), CodecFailure> {
    for place in places {
        *values.get_mut(place).ok_or_else(|| broken("a pixel outside"))? = next(place)?;
    }
    Ok(())
}

/// The least value of a block, in the smallest type that holds it.
fn offset(input: &mut Input<'_>, double: bool, narrower: u8) -> Result<f64, CodecFailure> {
    let kind = match (double, narrower) {
        (false, 0) | (true, 1) => FLOAT,
        (true, 0) => DOUBLE,
        (false, 1) | (true, 3) => 2,
        (false, 2) => 1,
        (true, 2) => 4,
        _ => return Err(broken("an offset of an unknown type")),
    };
    Ok(match kind {
        1 => input.byte()?.into(),
        2 => i16::from_le_bytes(input.array()?).into(),
        4 => input.int()?.into(),
        FLOAT => f32::from_le_bytes(input.array()?).into(),
        _ => input.double()?,
    })
}
