//! Inverse of the biorthogonal wavelet transform CDF 9/7, by lifting (`CDF97.cpp`).

use super::{
    Shape,
    sets::{dyadic, parts, transforms},
};

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
pub(super) fn invert(values: &mut [f64], shape: &Shape) {
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
            synthesize(even, odd);
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

fn synthesize(even: &mut [f64], odd: &mut [f64]) {
    odd.iter_mut().for_each(|odd| *odd *= -EPSILON);
    let scaled = |even: f64, change: f64| even * INVERSE - change;
    even_step(even, odd, DELTA, scaled);
    odd_step(odd, even, GAMMA);
    even_step(even, odd, BETA, |even, change| even - change);
    odd_step(odd, even, ALPHA);
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
