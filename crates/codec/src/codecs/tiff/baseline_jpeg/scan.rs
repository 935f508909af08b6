//! Blocks of a sequential scan (T.81, annexes A and F).

use super::{
    headers::{Component, Stream},
    huffman::Bits,
    idct, malformed,
};
use crate::CodecFailure;

/// Place of each coefficient of a block in the order of the stream (T.81, figure 5).
const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39,
    46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// Samples of a component, with whole blocks at the edges.
#[derive(Debug)]
pub(in super::super) struct Plane {
    pub(in super::super) horizontal: u8,
    pub(in super::super) vertical: u8,
    /// Samples of a row.
    width: usize,
    samples: Vec<u8>,
}

impl Plane {
    fn new(component: &Component, across: usize, down: usize) -> Self {
        let width = across.saturating_mul(8).saturating_mul(component.horizontal.into());
        let height = down.saturating_mul(8).saturating_mul(component.vertical.into());
        let samples = vec![0; width.saturating_mul(height)];
        Self { horizontal: component.horizontal, vertical: component.vertical, width, samples }
    }

    /// Returns samples of a row; nothing past its end.
    pub(in super::super) fn run(&self, y: usize, x: usize, length: usize) -> &[u8] {
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

/// Decodes the planes of all components.
pub(in super::super) fn decode(stream: &Stream<'_>) -> Result<Vec<Plane>, CodecFailure> {
    let most = |of: fn(&Component) -> u8| stream.components.iter().map(of).max().unwrap_or(1);
    let across = stream.width.div_ceil(8 * usize::from(most(|component| component.horizontal)));
    let down = stream.height.div_ceil(8 * usize::from(most(|component| component.vertical)));
    let mut planes: Vec<_> = stream.components.iter().map(|one| Plane::new(one, across, down)).collect();
    let mut bits = Bits::new(stream.scan);
    let mut before = vec![0_i32; planes.len()];
    for unit in 0..across.saturating_mul(down) {
        if let Some(restart) = unit.checked_div(stream.restart_interval).filter(|_| unit > 0)
            && unit.is_multiple_of(stream.restart_interval)
        {
            bits.restart(u8::try_from(restart.saturating_sub(1) % 8).unwrap_or(0))?;
            before.fill(0);
        }
        let parts = stream.components.iter().zip(&mut planes).zip(&mut before);
        for ((component, plane), before) in parts {
            decode_unit(&mut bits, component, plane, before, (unit % across, unit / across))?;
        }
    }
    Ok(planes)
}

/// Decodes the blocks of one component in a minimum coded unit.
fn decode_unit(
    bits: &mut Bits<'_>,
    component: &Component,
    plane: &mut Plane,
    before: &mut i32,
    (x, y): (usize, usize),
) -> Result<(), CodecFailure> {
    let (across, down) = (usize::from(component.horizontal), usize::from(component.vertical));
    for row in 0..down {
        for column in 0..across {
            let coefficients = coefficients(bits, component, before)?;
            let block = idct::samples(&coefficients)?;
            plane.put(&block, x.saturating_mul(across) + column, y.saturating_mul(down) + row);
        }
    }
    Ok(())
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
