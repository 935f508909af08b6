//! Baseline JPEG (ITU-T T.81) to planes of samples, as libjpeg computes them, to the last bit. Damaged streams, in which libraries
//! differ, are refused.

mod headers;
mod huffman;
mod idct;
mod scan;

pub(super) use headers::{Segments, Stream, of_tables};
pub(super) use scan::{Plane, decode};

use crate::{CodecFailure, corrupt};

fn malformed(problem: impl Into<String>) -> CodecFailure {
    corrupt("JPEG", problem.into())
}

#[cfg(test)]
mod tests {
    use super::idct;

    /// The transform of a single coefficient of T.81, A.3.3: the first cosine, with samples rounded.
    #[test]
    fn a_cosine() {
        let mut block = [0; 64];
        block[1] = 80;
        let angle = |x: u8| (2.0 * f64::from(x) + 1.0) * std::f64::consts::PI / 16.0;
        let row: Vec<f64> = (0..8).map(|x| (128.0 + 10.0 * 2_f64.sqrt() * angle(x).cos()).round()).collect();
        let samples = idct::samples(&block).unwrap().map(f64::from);
        assert!(samples.chunks(8).all(|line| line == row), "{samples:?}");
    }
}
