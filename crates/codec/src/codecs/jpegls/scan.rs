//! The rows of a scan (T.87, annex A.8 and B).
//!
//! ```text
//! neighbours   c b d   of the row above
//! of x         a x
//! ```

use super::{
    NAME,
    bits::Bits,
    cut_off,
    model::{Model, Parameters},
};
use crate::{CodecFailure, corrupt};

/// How the components of a scan alternate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Interleave {
    None,
    Rows,
    Samples,
}

impl Interleave {
    pub(super) fn parse(number: u8, components: usize) -> Result<Self, CodecFailure> {
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
pub(super) struct Scan {
    pub(super) parameters: Parameters,
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Components.
    pub(super) count: usize,
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
                bits = Bits::new(after_restart(&bits)?);
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

/// Skips the padding and the restart marker.
fn after_restart<'a>(bits: &Bits<'a>) -> Result<&'a [u8], CodecFailure> {
    match bits.after() {
        Some([0xff, 0xd0..=0xd7, rest @ ..]) => Ok(rest),
        _ => Err(corrupt(NAME, "no restart marker where one is expected")),
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
