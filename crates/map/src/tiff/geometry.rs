//! Axes of an image's array, and their order in the file.

use virtualize_tiff::model::{Cut, Image};
use virtualize_zarr::{Codec, ZarrFormat};

use crate::{Error, Result};

/// Axes of the array of an image, and the strips or tiles that divide them.
///
/// Stored order is that of the file: `band, [z,] y, x` for planar images and those of one band, `[z,] y, x, band` for chunky
/// ones (PlanarConfiguration). Arrays are in stored order, except for chunky images in Zarr v3, where the codec `transpose`
/// makes them `band, [z,] y, x`.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Geometry {
    /// Samples of a pixel.
    pub(super) bands: u64,
    /// Planes of the image (ImageDepth).
    pub(super) depth: u64,
    /// Rows of the image.
    pub(super) height: u64,
    /// Columns of the image.
    pub(super) width: u64,
    /// Size of a strip or tile in planes, rows, columns.
    pub(super) segment: [u64; 3],
    /// Whether the samples of a pixel are stored next to each other.
    pub(super) chunky: bool,
    /// Whether the image has tiles.
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
    /// Returns the names for the image at `path` among the directories.
    ///
    /// In xarray's DataTree, a dimension has one length in a group and in all groups below it. The axes of images in groups
    /// therefore get names of their own, except for `band` if the image has as many bands as the main image
    /// (`own_bands` is false).
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
    /// Determines the geometry of an image.
    ///
    /// # Errors
    /// An axis has no extent.
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

    /// Returns the names of the array's axes.
    pub(super) fn dimensions(&self) -> Vec<String> {
        let Names { band, z, y, x } = &self.names;
        self.in_array_order(band, &[z, y, x]).into_iter().cloned().collect()
    }

    /// Returns the names of the axes by their role.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the shape of the array.
    pub(super) fn shape(&self) -> Vec<u64> {
        self.in_array_order(self.bands, &[self.depth, self.height, self.width])
    }

    /// Returns the shape of a chunk with this number of rows, in the array's order.
    pub(super) fn chunk_shape(&self, rows: u64) -> Vec<u64> {
        let [depth, _, width] = self.segment;
        self.in_array_order(self.bands_of_a_segment(), &[depth, rows, width])
    }

    /// Returns the sizes of all chunks along each axis, in the array's order, for chunks of this number of rows. The last
    /// ones end with the array.
    pub(super) fn chunk_edges(&self, rows: u64) -> Vec<Vec<u64>> {
        let edges = |(size, chunk): (u64, u64)| {
            let rest = (!size.is_multiple_of(chunk)).then_some(size % chunk);
            (0..size / chunk).map(|_| chunk).chain(rest).collect()
        };
        self.shape().into_iter().zip(self.chunk_shape(rows)).map(edges).collect()
    }

    /// Returns the shape of a strip or tile with this number of rows, in stored order.
    pub(super) fn stored_shape(&self, rows: u64) -> Vec<u64> {
        let [depth, _, width] = self.segment;
        self.in_order(self.bands_of_a_segment(), &[depth, rows, width], self.chunky)
    }

    /// Returns the codec between the two orders, if they differ.
    pub(super) fn transpose(&self) -> Option<Codec> {
        let axes = self.shape().len();
        self.transposed.then(|| Codec::Transpose { order: (1..axes).chain([0]).collect() })
    }

    /// Returns the number of samples of a pixel in a strip or tile.
    pub(super) fn bands_of_a_segment(&self) -> u64 {
        if self.chunky { self.bands } else { 1 }
    }

    /// Returns the number of strips or tiles along planes of samples, planes of the volume, rows and columns: the order in
    /// which the file lists them.
    pub(super) fn counts(&self) -> [u64; 4] {
        let [depth, height, width] = self.segment;
        [
            if self.chunky { 1 } else { self.bands },
            self.depth.div_ceil(depth),
            self.height.div_ceil(height),
            self.width.div_ceil(width),
        ]
    }

    /// Returns the stored rows of the `index`-th strip or tile along the rows: the last strip has fewer, the last tile has all.
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
