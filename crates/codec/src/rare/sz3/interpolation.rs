//! Prediction by interpolation (`SZ3/compressor/SZInterpolationCompressor.hpp`).
//!
//! Values at multiples of a stride are known; those between them are predicted axis by axis, then the stride halves. Each
//! level runs over blocks of so many strides.
//!
//! ```text
//! 8  size of each axis   4  size of a block in strides   4  0 linear, 1 cubic   4  order of the axes   quantizer, code
//! ```

use super::{
    NAME,
    blocks::strides,
    cut_off,
    huffman::{self, Reader},
    number::{Config, Number, Quantizer},
};
use crate::{CodecFailure, corrupt};

/// Decodes all values.
pub(super) fn decode<T: Number>(config: &Config, mut reader: Reader<'_>) -> Result<Vec<T>, CodecFailure> {
    let axes = config.shape.len();
    let shape = (0..axes).map(|_| reader.size()).collect::<Result<Vec<_>, _>>()?;
    let (block, kind, direction) = (reader.i32()?, reader.i32()?, reader.i32()?);
    let block = usize::try_from(block).ok().filter(|block| *block >= 2 && block.is_multiple_of(2));
    let order = usize::try_from(direction).ok().and_then(|direction| permutation(axes, direction));
    let (Some(block), Some(order), 0..=1) = (block, order, kind) else {
        return Err(corrupt(NAME, format!("interpolation {kind} in direction {direction}")));
    };
    if shape != config.shape {
        return Err(corrupt(NAME, format!("values of shape {shape:?}, expected {:?}", config.shape)));
    }
    let quantizer = Quantizer::parse(&mut reader)?;
    let count = config.elements().ok_or_else(cut_off)?;
    let codes = huffman::decode(&mut reader, count)?.into_iter();
    let strides = strides(&shape);
    let values = vec![T::default(); count];
    let mut decoder = Decoder { shape, strides, order, is_cubic: kind == 1, values, codes, quantizer };
    decoder.levels(block)?;
    Ok(decoder.values)
}

/// Returns the permutation of so many axes with this position in lexicographic order.
fn permutation(axes: usize, mut position: usize) -> Option<Vec<usize>> {
    let mut left: Vec<usize> = (0..axes).collect();
    let mut order = Vec::new();
    for size in (0..axes).rev() {
        let count: usize = (1..=size).product();
        order.push((position / count < left.len()).then(|| left.remove(position / count))?);
        position %= count;
    }
    Some(order)
}

struct Decoder<T> {
    shape: Vec<usize>,
    /// Distance in values between neighbours along each axis.
    strides: Vec<usize>,
    /// Axes in the order in which they are interpolated.
    order: Vec<usize>,
    is_cubic: bool,
    values: Vec<T>,
    codes: std::vec::IntoIter<i32>,
    quantizer: Quantizer<T>,
}

impl<T: Number> Decoder<T> {
    fn levels(&mut self, block: usize) -> Result<(), CodecFailure> {
        let bound = self.quantizer.bound;
        self.recover(0, &[(1, T::default())], 1)?;
        let longest = self.shape.iter().copied().max().unwrap_or(1);
        let levels = usize::BITS - (longest - 1).leading_zeros();
        for level in (1..=levels).rev() {
            self.quantizer.bound = if level >= 3 { bound * 0.5 } else { bound };
            let stride = 1_usize << (level - 1);
            self.blocks(stride, stride.saturating_mul(block))?;
        }
        Ok(())
    }

    /// Interpolates the blocks of a level, which are `size` values long along each axis.
    fn blocks(&mut self, stride: usize, size: usize) -> Result<(), CodecFailure> {
        let mut begin = vec![0_usize; self.shape.len()];
        loop {
            let end: Vec<usize> = begin
                .iter()
                .zip(&self.shape)
                .map(|(at, axis)| at.saturating_add(size).min(axis - 1))
                .collect();
            for position in 0..self.order.len() {
                self.block(&begin, &end, stride, position)?;
            }
            let shape = &self.shape;
            if !advance(&mut begin, |axis| (0, shape.get(axis).map_or(0, |size| size - 1), size)) {
                return Ok(());
            }
        }
    }

    /// Interpolates the lines of a block along the axis with this position in the order. Axes before it are known at every
    /// stride already, those after it at every second one.
    fn block(
        &mut self,
        begin: &[usize],
        end: &[usize],
        stride: usize,
        position: usize,
    ) -> Result<(), CodecFailure> {
        let axis = *self.order.get(position).ok_or_else(cut_off)?;
        let get = |list: &[usize], axis: usize| list.get(axis).copied().unwrap_or(0);
        let others: Vec<usize> = self.order.iter().copied().filter(|other| *other != axis).collect();
        let ranges: Vec<(usize, usize, usize)> = others
            .iter()
            .enumerate()
            .map(|(at, other)| {
                let step = if at < position { stride } else { 2 * stride };
                let first = get(begin, *other);
                (if first > 0 { first + step } else { 0 }, get(end, *other), step)
            })
            .collect();
        if ranges.iter().any(|(first, last, _)| first > last) {
            return Ok(());
        }
        let along = get(&self.strides, axis);
        let count = (get(end, axis) - get(begin, axis)) / stride + 1;
        let mut index: Vec<usize> = ranges.iter().map(|(first, ..)| *first).collect();
        loop {
            let offset: usize =
                index.iter().zip(&others).map(|(at, other)| at * get(&self.strides, *other)).sum();
            self.line(offset + get(begin, axis) * along, stride * along, count)?;
            if !advance(&mut index, |at| ranges.get(at).copied().unwrap_or_default()) {
                return Ok(());
            }
        }
    }

    /// Interpolates every second one of `count` values from `start` on, with `step` between them.
    fn line(&mut self, start: usize, step: usize, count: usize) -> Result<(), CodecFailure> {
        if self.is_cubic && count >= 5 {
            return self.cubic(start, step, count);
        }
        for at in (1..count.saturating_sub(1)).step_by(2) {
            let terms = [(1, at - 1), (1, at + 1)];
            self.predict(start, step, at, &terms, 2)?;
        }
        if count.is_multiple_of(2) {
            let at = count - 1;
            if count < 4 {
                return self.predict(start, step, at, &[(1, at - 1)], 1);
            }
            let value = |at: usize| {
                self.values.get(start + at * step).map(|value| value.to_f64()).ok_or_else(cut_off)
            };
            let predicted = T::from_f64(-0.5 * value(at - 3)? + 1.5 * value(at - 1)?);
            return self.recover(start + at * step, &[(1, predicted)], 1);
        }
        Ok(())
    }

    fn cubic(&mut self, start: usize, step: usize, count: usize) -> Result<(), CodecFailure> {
        let mut at = 3;
        while at + 3 < count {
            self.predict(start, step, at, &[(-1, at - 3), (9, at - 1), (9, at + 1), (-1, at + 3)], 16)?;
            at += 2;
        }
        self.predict(start, step, 1, &[(3, 0), (6, 2), (-1, 4)], 8)?;
        self.predict(start, step, at, &[(-1, at - 3), (6, at - 1), (3, at + 1)], 8)?;
        if count.is_multiple_of(2) {
            let at = count - 1;
            self.predict(start, step, at, &[(3, at - 5), (-10, at - 3), (15, at - 1)], 8)?;
        }
        Ok(())
    }

    /// Restores a value of a line, given factors and positions of others, and the divisor.
    fn predict(
        &mut self,
        start: usize,
        step: usize,
        at: usize,
        terms: &[(i8, usize)],
        divisor: u8,
    ) -> Result<(), CodecFailure> {
        let mut known = [(0, T::default()); 4];
        for (known, (factor, at)) in known.iter_mut().zip(terms) {
            *known = (*factor, *self.values.get(start + at * step).ok_or_else(cut_off)?);
        }
        let known = known.get(..terms.len()).unwrap_or_default();
        self.recover(start + at * step, known, divisor)
    }

    fn recover(&mut self, at: usize, known: &[(i8, T)], divisor: u8) -> Result<(), CodecFailure> {
        let code = self.codes.next().ok_or_else(cut_off)?;
        let value = self.quantizer.recover(T::combine(known, divisor), code)?;
        *self.values.get_mut(at).ok_or_else(cut_off)? = value;
        Ok(())
    }
}

/// Moves to the next index, the last axis fastest, given first, last and step of each axis; `false` at the end.
fn advance(index: &mut [usize], range: impl Fn(usize) -> (usize, usize, usize)) -> bool {
    for (axis, at) in index.iter_mut().enumerate().rev() {
        let (first, last, step) = range(axis);
        *at = at.saturating_add(step);
        if *at <= last {
            return true;
        }
        *at = first;
    }
    false
}
