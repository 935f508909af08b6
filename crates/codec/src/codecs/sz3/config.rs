//! The configuration at the end of a chunk (`SZ3/utils/Config.hpp`).

use super::{NAME, cut_off, reader::Reader, unsupported};
use crate::{CodecFailure, corrupt};

/// How values are predicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Algorithm {
    /// From neighbours at distances that halve from level to level.
    Interpolation,
    /// From neighbours before them, or by a linear function, block by block.
    Blocks,
}

/// What decoding needs of the configuration.
#[derive(Clone, Debug)]
pub(super) struct Config {
    /// Slowest axis first.
    pub(super) shape: Vec<usize>,
    pub(super) algorithm: Algorithm,
    /// Whether the frame holds the values themselves.
    pub(super) is_lossless: bool,
    pub(super) lorenzo: bool,
    pub(super) lorenzo2: bool,
    pub(super) regression: bool,
}

impl Config {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, CodecFailure> {
        let mut reader = Reader::new(bytes);
        let [axes] = reader.array()?;
        if !(1..=4).contains(&axes) {
            return Err(corrupt(NAME, format!("{axes} axes")));
        }
        let shape = (0..axes).map(|_| reader.size()).collect::<Result<Vec<_>, _>>()?;
        let _elements = reader.size()?;
        let [algorithm, _mode] = reader.array()?;
        let (error_bound, _relative) = (reader.f64()?, reader.f64()?);
        let [lorenzo, lorenzo2, regression, regression2] = reader.array()?.map(|flag: u8| flag != 0);
        // Interpolation and its direction, its block size, codecs, bins, block size, two that are unused.
        reader.bytes(2 + 4 + 2 + 4 * 4)?;
        let uses_threads = reader.flag()?;
        let is_lossless = error_bound == 0.0;
        let algorithm = match algorithm {
            _ if is_lossless => Algorithm::Blocks,
            0 => Algorithm::Blocks,
            2 => Algorithm::Interpolation,
            other => return Err(unsupported(&format!("algorithm {other}"))),
        };
        if uses_threads {
            return Err(unsupported("chunks in parts for several threads"));
        }
        if regression2 && algorithm == Algorithm::Blocks && !is_lossless {
            return Err(unsupported("regression of second order"));
        }
        if shape.contains(&0) {
            return Err(cut_off());
        }
        Ok(Self { shape, algorithm, is_lossless, lorenzo, lorenzo2, regression })
    }

    pub(super) fn elements(&self) -> Option<usize> {
        self.shape.iter().try_fold(1_usize, |count, size| count.checked_mul(*size))
    }
}
