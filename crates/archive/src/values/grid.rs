//! Grids that are equal but for rounding: coordinates and transformations that writers computed or rounded in different ways.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use virtualize::{
    ArrayValues,
    zarr::{DataType, FillValue},
};

use super::scalar::elements;

/// Fraction of a pixel by which equal positions may differ.
const TOLERANCE: f64 = 1e-6;

/// Evenly spaced coordinates.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Grid {
    /// The first coordinate.
    pub first: f64,
    /// The last coordinate.
    pub last: f64,
    /// Number of coordinates, at least 2.
    pub count: u32,
}

impl Grid {
    /// Returns the grid of coordinates of type float64; `None` unless they are evenly spaced.
    pub(crate) fn of(values: &ArrayValues) -> Option<Self> {
        let ([_], DataType::Float64) = (values.shape.as_slice(), &values.data_type) else { return None };
        let number =
            |element: &[u8]| FillValue::Fixed(values.bytes.slice_ref(element)).to_f64(&DataType::Float64);
        let numbers: Vec<f64> = elements(values)?.map(number).collect::<Option<_>>()?;
        let (first, last) = (*numbers.first()?, *numbers.last()?);
        let grid = Self { first, last, count: u32::try_from(numbers.len()).ok().filter(|count| *count > 1)? };
        let step = grid.step();
        let is_even = |(n, number): (u32, &f64)| {
            (number - (first + f64::from(n) * step)).abs() <= TOLERANCE / 10.0 * step.abs()
        };
        (step.is_finite() && step != 0.0 && (0..).zip(&numbers).all(is_even)).then_some(grid)
    }

    fn step(&self) -> f64 {
        (self.last - self.first) / f64::from(self.count - 1)
    }

    /// Returns whether the coordinates of two grids are equal but for rounding: to a fraction of a pixel, or of the size of
    /// pixels to binary32.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        let (step, limit) = (self.step(), TOLERANCE * self.step().abs());
        self.count == other.count
            && (self.first - other.first).abs() <= limit
            && ((self.last - other.last).abs() <= limit || is_rounded(step, other.step()))
    }
}

/// Replaces numbers in ascending order that differ by rounding from the one before, where pixels have this size or more.
pub(crate) fn snap(numbers: &[f64], step: f64) -> Vec<f64> {
    let mut canonical: Vec<f64> = Vec::with_capacity(numbers.len());
    for number in numbers {
        let before = canonical.last().copied().filter(|before| number - before <= TOLERANCE * step);
        canonical.push(before.unwrap_or(*number));
    }
    canonical
}

/// Returns whether evenly spaced float64 elements are equal but for rounding.
pub(crate) fn values_agree(one: &[u8], other: &[u8]) -> bool {
    let numbers = |bytes: &[u8]| -> Vec<f64> {
        bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
    };
    let (one, other) = (numbers(one), numbers(other));
    let steps = one.windows(2).map(|pair| match pair {
        [left, right] => (right - left).abs(),
        _ => 0.0,
    });
    let limit = TOLERANCE * steps.fold(f64::INFINITY, f64::min);
    let near = |(one, other): (&f64, &f64)| (one - other).abs() <= limit;
    one.len() > 1 && limit.is_finite() && one.len() == other.len() && one.iter().zip(&other).all(near)
}

/// Returns whether a number may be another one that was rounded to binary32.
fn is_rounded(one: f64, other: f64) -> bool {
    (one - other).abs() <= one.abs() * f64::from(f32::EPSILON) / 2.0
}

/// Returns whether two affine transformations, of GDAL (text) or of Python (array), are equal but for rounding. Origins may be
/// null, and are then not compared.
pub(crate) fn transforms_agree(one: &Value, other: &Value) -> bool {
    if one == other {
        return true;
    }
    let number = |value: &Value| if value.is_null() { Some(0.0) } else { value.as_f64() };
    let numbers = |value: &Value| -> Option<Vec<f64>> {
        match value {
            Value::String(text) => text
                .split_whitespace()
                .map(|it| if it == "…" { Some(0.0) } else { it.parse().ok() })
                .collect(),
            Value::Array(numbers) => numbers.iter().map(number).collect(),
            _ => None,
        }
    };
    let (Some(left), Some(right)) = (numbers(one), numbers(other)) else { return false };
    let origin = if one.is_string() { 0 } else { 2 };
    let is_origin = |at: usize| at % 3 == origin;
    let sizes = left.iter().enumerate().filter(|(at, _)| !is_origin(*at)).map(|(_, number)| number.abs());
    let limit = TOLERANCE * sizes.fold(0.0, f64::max);
    let agrees = |(at, (one, other)): (usize, (&f64, &f64))| {
        if is_origin(at) { (one - other).abs() <= limit } else { is_rounded(*one, *other) }
    };
    left.len() == 6 && right.len() == 6 && left.iter().zip(&right).enumerate().all(agrees)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn grid(first: f64, step: f64, count: u32) -> ArrayValues {
        let bytes = (0..count).flat_map(|n| (first + f64::from(n) * step).to_le_bytes()).collect();
        ArrayValues { data_type: DataType::Float64, shape: vec![count.into()], bytes }
    }

    #[test]
    fn grids_agree_to_a_fraction_of_a_pixel() {
        let of = |first, step, count| Grid::of(&grid(first, step, count)).unwrap();
        let one = of(-20.0, 0.05, 70);
        assert!(one.agrees(&of(-20.0, 0.050_000_000_745_058_06, 70)), "0.05 as float32");
        assert!(one.agrees(&of(-20.0 + 4e-8, 0.05, 70)));
        for (first, step, count) in [(-20.0 + 1e-7, 0.05, 70), (-20.0, 0.05001, 70), (-20.0, 0.05, 71)] {
            assert!(!one.agrees(&of(first, step, count)), "{first} {step} {count}");
        }
        let mut uneven = grid(0.0, 1.0, 3);
        uneven.bytes = [0.0, 1.0, 3.0].iter().flat_map(|n: &f64| n.to_le_bytes()).collect();
        assert_eq!(Grid::of(&uneven), None);
        assert_eq!(Grid::of(&grid(0.0, 1.0, 1)), None);
    }

    #[test]
    fn transforms_agree_in_both_notations() {
        let text = |x: f64, size: f64| json!(format!("{x:?} {size:?} 0.0 5.0 0.0 -{size:?}"));
        let list = |x: f64, size: f64| json!([size, 0, x, 0, -size, 5]);
        for (x, size, agree) in [
            (1.0, 0.050_000_000_745_058_06, true),
            (1.0 + 4e-8, 0.05, true),
            (1.0 + 1e-7, 0.05, false),
            (1.0, 0.0501, false),
        ] {
            assert_eq!(transforms_agree(&text(1.0, 0.05), &text(x, size)), agree, "{x} {size}");
            assert_eq!(transforms_agree(&list(1.0, 0.05), &list(x, size)), agree, "{x} {size}");
        }
        assert!(transforms_agree(
            &json!([0.05, 0, null, 0, -0.05, null]),
            &json!([0.050_000_000_745_058_06, 0, null, 0, -0.05, null])
        ));
        assert!(!transforms_agree(&json!("a"), &json!("b")));
    }
}
