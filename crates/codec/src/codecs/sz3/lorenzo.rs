//! Lorenzo predictors: the value that makes a finite difference of first or second order along all axes zero. Values outside
//! the array count as zero (`SZ3/predictor/LorenzoPredictor.hpp`, `MetaLorenzoPredictor.hpp`).

use super::number::Number;

/// Values before the predicted one: factors and distances along each axis.
pub(in crate::codecs) struct Lorenzo {
    terms: Vec<Term>,
}

struct Term {
    factor: i8,
    distance: Vec<usize>,
    /// Distance in values.
    offset: usize,
}

impl Lorenzo {
    /// Returns the predictor of this order along `along` of the axes, given the distances in values between neighbours
    /// along each axis. The order of the terms is that of the library, which decides how sums are rounded.
    pub(in crate::codecs) fn new(second_order: bool, along: &[usize], strides: &[usize]) -> Self {
        let weights: &[i8] = if second_order && along.len() < 4 { &[1, -2, 1] } else { &[1, -1] };
        let mut terms: Vec<Term> = (1..weights.len().pow(u32::try_from(along.len()).unwrap_or(0)))
            .map(|number| term(number, weights, along, strides))
            .collect();
        if weights.len() == 2 && along.len() == 3 {
            terms.sort_by_key(|term| term.distance.iter().sum::<usize>());
        }
        Self { terms }
    }

    /// Predicts the value with this index and position.
    pub(in crate::codecs) fn predict<T: Number>(&self, values: &[T], index: &[usize], position: usize) -> T {
        let mut known = [(0, T::default()); 26];
        for (known, term) in known.iter_mut().zip(&self.terms) {
            let is_inside = index.iter().zip(&term.distance).all(|(at, distance)| at >= distance);
            let value = if is_inside { values.get(position - term.offset).copied() } else { None };
            *known = (term.factor, value.unwrap_or_default());
        }
        T::combine(known.get(..self.terms.len()).unwrap_or_default(), 1)
    }
}

/// Returns the term whose distances are the digits of `number`, the last axis least significant.
fn term(mut number: usize, weights: &[i8], along: &[usize], strides: &[usize]) -> Term {
    let mut distance = vec![0; strides.len()];
    let mut factor = -1;
    for axis in along.iter().rev() {
        let digit = number % weights.len();
        number /= weights.len();
        factor *= weights.get(digit).copied().unwrap_or(0);
        if let Some(distance) = distance.get_mut(*axis) {
            *distance = digit;
        }
    }
    let offset = distance.iter().zip(strides).map(|(distance, stride)| distance * stride).sum();
    Term { factor, distance, offset }
}
