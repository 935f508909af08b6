//! Arrays that are accumulated file by file.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use virtualize::ArrayValues;
use virtualize::zarr::{Array, ChunkGrid, ChunkManifest, DataType, ZarrFormat};

use super::attributes::MergedAttributes;
use crate::{
    compat::{
        Conversion, Difference, DimRole, MAX_KEPT, decode_alike, disagreement,
        geometry::Geometry,
        is_plain,
        storage::{ArrayParts, ChunkLayout},
        times,
    },
    error::Problem,
    values::{
        convert::{is_number, packing},
        sentinel::Sentinels,
    },
};

/// An array in all files that were added so far.
#[derive(Debug)]
pub(super) struct Growing {
    /// Its metadata in the first file.
    pub(super) first: Array,
    /// The first file.
    pub(super) url: Arc<str>,
    /// Role of each dimension of the layout.
    pub(super) roles: Vec<DimRole>,
    /// Whether its values are copied in any case.
    pub(super) always_copied: bool,
    /// Whether it holds times, or bounds of times, and is copied.
    pub(super) are_times: bool,
    /// Its part in each file, by the file's place along each dimension; 0 along dimensions where it is invariant.
    pub(super) pieces: BTreeMap<Vec<usize>, Piece>,
    /// Its merged attributes.
    pub(super) attributes: MergedAttributes,
    /// Total size of the values in the pieces, in bytes.
    kept: u64,
}

/// The part of an array in one file.
#[derive(Debug)]
pub(super) struct Piece {
    /// The file.
    pub(super) url: Arc<str>,
    /// Shape in the file.
    pub(super) shape: Vec<u64>,
    /// Chunk shape in the file; `None` if chunk sizes vary.
    pub(super) chunk: Option<Vec<u64>>,
    /// Chunks in the file.
    pub(super) chunks: ChunkManifest,
    /// Whether codecs and fill value equal those of the first file.
    pub(super) fits: bool,
    /// Values, if they were read.
    pub(super) values: Option<Bytes>,
    /// Digest of the values, if one was computed.
    pub(super) digest: Option<String>,
    /// Units, if they differ from those of the first file.
    pub(super) units: Option<Box<str>>,
    /// Data type and missing values, if they differ from those of the first file.
    pub(super) other: Option<Box<(DataType, Sentinels)>>,
}

/// Properties of an array in one file, besides its metadata.
pub(super) struct Read {
    pub(super) values: Option<ArrayValues>,
    pub(super) digest: Option<String>,
    pub(super) format: ZarrFormat,
    /// Whether it holds times, or bounds of times.
    pub(super) are_times: bool,
    /// Whether the layout assumes that the array is equal in all files.
    pub(super) assume_equal: bool,
    /// Whether the array may be missing from some files.
    pub(super) is_optional: bool,
}

impl Growing {
    pub(super) fn new(
        first: &Array,
        url: Arc<str>,
        roles: Vec<DimRole>,
        always_copied: bool,
        are_times: bool,
    ) -> Self {
        let mut first = first.clone();
        first.chunks = ChunkManifest::default();
        let attributes = MergedAttributes::new(&first.attributes);
        let are_times = always_copied && are_times;
        Self { first, url, roles, always_copied, are_times, pieces: BTreeMap::new(), attributes, kept: 0 }
    }

    /// Returns the place of a file's part among the pieces.
    pub(super) fn key(&self, at: &[usize]) -> Vec<usize> {
        let place = |(role, n): (&DimRole, &usize)| if *role == DimRole::Invariant { 0 } else { *n };
        self.roles.iter().zip(at).map(place).collect()
    }

    /// Returns whether the array varies along any dimension.
    pub(super) fn varies(&self) -> bool {
        self.roles.iter().any(|role| *role != DimRole::Invariant)
    }

    /// Returns the axes of the combined array; `sizes` are the elements of each place along each dimension of the layout.
    pub(super) fn geometry(&self, names: &[String], sizes: &[&[u64]]) -> Option<Geometry> {
        Geometry::new(&self.roles, &self.first.shape, &self.first.dimension_names, names, sizes)
    }

    /// Returns how the parts are stored.
    pub(super) fn parts(&self) -> ArrayParts<'_> {
        let parts = self.pieces.iter().map(|(at, piece)| (at.clone(), piece.layout())).collect();
        let (always_copied, is_plain) = (self.always_copied, is_plain(&self.first));
        ArrayParts { url: &self.url, always_copied, is_plain, parts }
    }

    /// Adds the part of a file.
    ///
    /// # Errors
    /// An optional or invariant array that differs from the files before. All other arrays agree because the plan has
    /// checked the signatures of their files.
    pub(super) fn add(
        &mut self,
        at: &[usize],
        url: &Arc<str>,
        array: Array,
        read: Read,
    ) -> Result<(), Problem> {
        let only_shape = read.assume_equal && !self.varies();
        let is_proved = !read.is_optional && !only_shape;
        if !is_proved
            && let Some(Difference { what, left, right, .. }) = self.disagreement(&array, only_shape)
        {
            return Err(Problem::Differs { what, now: right, before: left });
        }
        debug_assert!(
            !is_proved || self.disagreement(&array, only_shape).is_none(),
            "files whose signatures agree: {:?}",
            self.disagreement(&array, only_shape)
        );
        if !only_shape {
            self.attributes.add(&array.attributes, true);
        }
        let (assume_equal, key) = (read.assume_equal, self.key(at));
        let piece = self.piece(url, array, read);
        match self.pieces.get(&key) {
            Some(there) if !assume_equal => check_equal(there, &piece),
            Some(_) => Ok(()),
            None => {
                self.keep(key, piece);
                Ok(())
            }
        }
    }

    /// Creates the part of a file, with its differences from the first file.
    fn piece(&self, url: &Arc<str>, mut array: Array, read: Read) -> Piece {
        let units = times::text(&array.attributes, "units");
        let has_other_units = self.always_copied
            && times::has_time_units(&self.first)
            && times::has_time_units(&array)
            && units != times::text(&self.first.attributes, "units");
        Piece {
            url: url.clone(),
            fits: decode_alike(&array, &self.first) && array.fill_value == self.first.fill_value,
            units: units.filter(|_| has_other_units).map(Into::into),
            other: self.other(&array, read.format).filter(|_| self.always_copied),
            shape: std::mem::take(&mut array.shape),
            chunk: match array.chunk_grid {
                ChunkGrid::Regular(chunk) => Some(chunk),
                ChunkGrid::Rectilinear(_) => None,
            },
            chunks: array.chunks,
            values: read.values.map(|values| values.bytes),
            digest: read.digest,
        }
    }

    /// Keeps a part. Drops the values of all parts once they exceed [`MAX_KEPT`].
    fn keep(&mut self, key: Vec<usize>, mut piece: Piece) {
        let bytes = piece.values.as_ref().map_or(0, |values| values.len() as u64);
        self.kept = self.kept.saturating_add(bytes);
        if !self.always_copied && self.varies() && self.kept > MAX_KEPT {
            piece.values = None;
            for piece in self.pieces.values_mut() {
                piece.values = None;
            }
        }
        self.pieces.insert(key, piece);
    }

    /// Returns data type and missing values if they differ from those of the first file.
    fn other(&self, array: &Array, format: ZarrFormat) -> Option<Box<(DataType, Sentinels)>> {
        let sentinels = Sentinels::of(array, format);
        let is_other =
            array.data_type != self.first.data_type || sentinels != Sentinels::of(&self.first, format);
        is_other.then(|| Box::new((array.data_type.clone(), sentinels)))
    }

    /// Returns the difference from the first file's array that conversion cannot reconcile.
    fn disagreement(&self, array: &Array, only_shape: bool) -> Option<Difference> {
        let are_numbers = is_number(&array.data_type) && is_number(&self.first.data_type);
        let conversion = Conversion {
            is_copied: self.always_copied,
            of_numbers: self.always_copied && are_numbers && packing(&self.first.attributes).is_none(),
            of_times: self.are_times,
        };
        disagreement([&self.first, array], &self.roles, conversion, only_shape)
    }
}

impl Piece {
    /// Returns the number of chunks along each axis in the file.
    pub(super) fn counts(&self) -> Vec<u64> {
        let chunk = self.chunk.as_deref().unwrap_or(&self.shape);
        self.shape.iter().zip(chunk).map(|(n, c)| n.div_ceil((*c).max(1))).collect()
    }

    fn layout(&self) -> ChunkLayout<'_> {
        ChunkLayout {
            url: &self.url,
            shape: self.shape.as_slice().into(),
            chunk: self.chunk.as_deref().map(Into::into),
            fits: self.fits,
            is_read: self.values.is_some(),
        }
    }
}

/// Checks that the parts of two files at the same place are equal.
fn check_equal(there: &Piece, here: &Piece) -> Result<(), Problem> {
    let is_same = match (&there.values, &here.values, &there.digest, &here.digest) {
        (Some(left), Some(right), _, _) => {
            left == right && there.units == here.units && there.other == here.other
        }
        (_, _, Some(left), Some(right)) => left == right,
        _ => return Err(Problem::NotCompared),
    };
    if is_same && there.shape == here.shape {
        return Ok(());
    }
    Err(Problem::Values { url: there.url.to_string() })
}
