//! How the samples of an image lie along the axes of its array.

use virtualize_tiff::model::{Cut, Image};
use virtualize_zarr::{Codec, ZarrFormat};

use crate::{Error, Result};

/// Axes of the array of an image, and how its strips or tiles cut them.
///
/// Stored order is that of the file: `band, [z,] y, x` for images of one band or planar ones, `[z,] y, x, band` for
/// chunky ones. Arrays have stored order, but for chunky images in Zarr v3: these are `band, [z,] y, x` by `transpose`.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Geometry {
    /// Samples of a pixel.
    pub(super) bands: u64,
    /// Planes of the image.
    pub(super) depth: u64,
    /// Rows of the image.
    pub(super) height: u64,
    /// Columns of the image.
    pub(super) width: u64,
    /// Size of a strip or tile: planes, rows, columns.
    pub(super) segment: [u64; 3],
    /// Samples of a pixel are stored side by side.
    pub(super) chunky: bool,
    /// The image has tiles.
    pub(super) tiled: bool,
    names: Names,
    transposed: bool,
}

/// Names of the axes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Names {
    /// Samples of a pixel.
    pub(super) band: String,
    /// Planes.
    pub(super) z: String,
    /// Rows.
    pub(super) y: String,
    /// Columns.
    pub(super) x: String,
}

impl Names {
    /// The names in the group of an image. Xarray's DataTree wants an axis to be the same in a group and all groups
    /// below it, so that axes of images in groups have names of their own, but for bands as many as the main image has.
    pub(super) fn of(path: &[usize], own_bands: bool) -> Self {
        let suffix = match path {
            [0] => String::new(),
            path => path.iter().map(|index| format!("_{index}")).collect(),
        };
        let band = if own_bands { format!("band{suffix}") } else { "band".into() };
        Self { band, z: format!("z{suffix}"), y: format!("y{suffix}"), x: format!("x{suffix}") }
    }
}

impl Geometry {
    /// The geometry of an image.
    pub(super) fn of(image: &Image, names: Names, format: ZarrFormat) -> Result<Self> {
        let bands = u64::from(image.samples_per_pixel);
        let chunky = !image.planar && bands > 1;
        let (segment, tiled) = match image.cut {
            Cut::Strips { rows } => ([1, rows.min(image.height), image.width], false),
            Cut::Tiles { width, height, depth } => ([depth, height, width], true),
        };
        let geometry = Self {
            bands,
            depth: image.depth,
            height: image.height,
            width: image.width,
            segment,
            chunky,
            tiled,
            names,
            transposed: chunky && format == ZarrFormat::V3,
        };
        let sizes = [bands, image.depth, image.height, image.width];
        if sizes.iter().chain(&geometry.segment).any(|size| *size == 0) {
            let (depth, height, width, segment) = (image.depth, image.height, image.width, geometry.segment);
            let problem = format!(
                "no content: {depth}x{height}x{width} pixels, {bands} samples, pieces of {segment:?}"
            );
            return Err(Error::malformed("image", problem));
        }
        Ok(geometry)
    }

    /// Names of the array's axes.
    pub(super) fn dimensions(&self) -> Vec<String> {
        let Names { band, z, y, x } = &self.names;
        self.in_array_order(band, &[z, y, x]).into_iter().cloned().collect()
    }

    /// Names of the axes.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Sizes of the array's axes.
    pub(super) fn shape(&self) -> Vec<u64> {
        self.in_array_order(self.bands, &[self.depth, self.height, self.width])
    }

    /// Shape of a chunk of so many rows, in the array's order.
    pub(super) fn chunk_shape(&self, rows: u64) -> Vec<u64> {
        let [depth, _, width] = self.segment;
        self.in_array_order(self.bands_of_a_segment(), &[depth, rows, width])
    }

    /// Sizes of chunks of so many rows along each axis, in the array's order; they end with the array.
    pub(super) fn chunk_edges(&self, rows: u64) -> Vec<Vec<u64>> {
        let edges = |(size, chunk): (u64, u64)| {
            let rest = (!size.is_multiple_of(chunk)).then_some(size % chunk);
            (0..size / chunk).map(|_| chunk).chain(rest).collect()
        };
        self.shape().into_iter().zip(self.chunk_shape(rows)).map(edges).collect()
    }

    /// Shape of a piece of so many rows, in stored order.
    pub(super) fn stored_shape(&self, rows: u64) -> Vec<u64> {
        let [depth, _, width] = self.segment;
        self.in_order(self.bands_of_a_segment(), &[depth, rows, width], self.chunky)
    }

    /// The codec between the two orders, where they differ.
    pub(super) fn transpose(&self) -> Option<Codec> {
        let axes = self.shape().len();
        self.transposed.then(|| Codec::Transpose { order: (1..axes).chain([0]).collect() })
    }

    /// Samples of a pixel that a strip or tile holds.
    pub(super) fn bands_of_a_segment(&self) -> u64 {
        if self.chunky { self.bands } else { 1 }
    }

    /// Strips or tiles along planes of samples, planes of the volume, rows, columns, as the file orders them.
    pub(super) fn counts(&self) -> [u64; 4] {
        let [depth, height, width] = self.segment;
        [
            if self.chunky { 1 } else { self.bands },
            self.depth.div_ceil(depth),
            self.height.div_ceil(height),
            self.width.div_ceil(width),
        ]
    }

    /// Rows that a strip or tile at this place along the rows holds: all of a tile, but fewer in a last strip.
    pub(super) fn rows_of(&self, index: u64) -> u64 {
        let rows = self.segment[1];
        if self.tiled {
            return rows;
        }
        self.height.saturating_sub(index.saturating_mul(rows)).min(rows)
    }

    fn in_array_order<T: Copy>(&self, band: T, [z, y, x]: &[T; 3]) -> Vec<T> {
        self.in_order(band, &[*z, *y, *x], self.chunky && !self.transposed)
    }

    fn in_order<T: Copy>(&self, band: T, [z, y, x]: &[T; 3], band_last: bool) -> Vec<T> {
        let mut axes = if self.depth > 1 { vec![*z, *y, *x] } else { vec![*y, *x] };
        axes.insert(if band_last { axes.len() } else { 0 }, band);
        axes
    }
}
