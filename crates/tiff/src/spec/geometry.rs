//! The size of an image and its division into strips or tiles (TIFF 6.0, sections 8 and 15).

use super::{fields::Fields, samples::samples_per_pixel, tag};
use crate::{Error, model::Cut};

/// Size of an image in pixels, and its division.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Geometry {
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) depth: u64,
    pub(crate) samples: u16,
    /// Whether each sample has a plane of its own.
    pub(crate) planar: bool,
    pub(crate) cut: Cut,
}

/// Tags that determine the number of strips or tiles.
pub(crate) const TAGS: [u16; 11] = [
    tag::IMAGE_WIDTH,
    tag::IMAGE_LENGTH,
    tag::IMAGE_DEPTH,
    tag::COMPRESSION,
    tag::PHOTOMETRIC,
    tag::SAMPLES_PER_PIXEL,
    tag::ROWS_PER_STRIP,
    tag::PLANAR_CONFIGURATION,
    tag::TILE_WIDTH,
    tag::TILE_LENGTH,
    tag::TILE_DEPTH,
];

impl Geometry {
    pub(crate) fn of(fields: &Fields) -> Result<Self, Error> {
        let samples = samples_per_pixel(fields)?;
        let height = extent(fields, tag::IMAGE_LENGTH)?;
        let planar = fields.one_or_two(tag::PLANAR_CONFIGURATION)?;
        Ok(Self {
            width: extent(fields, tag::IMAGE_WIDTH)?,
            height,
            depth: depth(fields, tag::IMAGE_DEPTH)?,
            samples,
            planar: samples > 1 && planar,
            cut: cut(fields, height)?,
        })
    }

    /// Returns the number of strips or tiles.
    ///
    /// # Errors
    /// There are more than `most`.
    pub(crate) fn pieces(&self, fields: &Fields, most: u64) -> Result<usize, Error> {
        let pieces = self.count().filter(|&pieces| pieces <= most);
        pieces.and_then(|pieces| usize::try_from(pieces).ok()).ok_or_else(|| {
            let problem =
                format!("{} × {} pixels in {:?}: more than {most} pieces", self.width, self.height, self.cut);
            Error::limit("image", fields.offset, problem)
        })
    }

    fn count(&self) -> Option<u64> {
        let planes = if self.planar { u64::from(self.samples) } else { 1 };
        let each = match self.cut {
            Cut::Strips { rows } => self.height.div_ceil(rows).checked_mul(self.depth)?,
            Cut::Tiles { width, height, depth } => {
                let columns = self.width.div_ceil(width);
                columns.checked_mul(self.height.div_ceil(height))?.checked_mul(self.depth.div_ceil(depth))?
            }
        };
        each.checked_mul(planes)
    }
}

fn extent(fields: &Fields, tag: u16) -> Result<u64, Error> {
    match fields.integer(tag)? {
        None => Err(fields.missing(tag)),
        Some(0) => Err(fields.malformed(tag, "0, expected 1 or more")),
        Some(extent) => Ok(extent),
    }
}

/// Writers of SGI store a depth of 0, or none, for a single plane.
fn depth(fields: &Fields, tag: u16) -> Result<u64, Error> {
    Ok(fields.integer(tag)?.unwrap_or(1).max(1))
}

/// Like libtiff, rejects malformed tags of strips in tiled images, and the other way round.
fn cut(fields: &Fields, height: u64) -> Result<Cut, Error> {
    let depth = depth(fields, tag::TILE_DEPTH)?;
    let rows = match fields.integer(tag::ROWS_PER_STRIP)? {
        Some(0) => return Err(fields.malformed(tag::ROWS_PER_STRIP, "0, expected 1 or more")),
        rows => rows.unwrap_or(height).min(height),
    };
    if fields.value(tag::TILE_WIDTH)?.is_some() || fields.value(tag::TILE_LENGTH)?.is_some() {
        return Ok(Cut::Tiles {
            width: extent(fields, tag::TILE_WIDTH)?,
            height: extent(fields, tag::TILE_LENGTH)?,
            depth,
        });
    }
    Ok(Cut::Strips { rows })
}
