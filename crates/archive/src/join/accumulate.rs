//! Arrays that grow file by file.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::Value;
use virtualize::ArrayValues;
use virtualize::zarr::{Array, ChunkGrid, ChunkManifest, DataType, ZarrFormat};

use super::attributes::Merged;
use crate::{
    compat::{Place, decode_alike, fill_value, geometry::Geometry, of_array, storage::MOST_KEPT, times},
    values::{
        convert::{is_number, packing},
        sentinel::{MISSING, Sentinels},
    },
};

/// An array in all files that were seen.
#[derive(Debug)]
pub(super) struct Growing {
    /// Its metadata in the first file.
    pub(super) first: Array,
    /// The first file.
    pub(super) url: Arc<str>,
    /// How it varies along each dimension of the layout.
    pub(super) places: Vec<Place>,
    /// Whether its values are copied in any case.
    pub(super) always: bool,
    /// Whether it holds times, or bounds of times, that are copied.
    pub(super) times: bool,
    /// Its part of each file, by place; 0 along dimensions that it does not vary along.
    pub(super) pieces: BTreeMap<Vec<usize>, Piece>,
    /// Its attributes.
    pub(super) attributes: Merged,
    /// Bytes of values in the pieces.
    kept: u64,
}

/// The part of an array that is in one file.
#[derive(Debug)]
pub(super) struct Piece {
    /// Url of the file.
    pub(super) url: Arc<str>,
    /// Shape in the file.
    pub(super) shape: Vec<u64>,
    /// Chunk shape in the file; nothing where chunk sizes vary.
    pub(super) chunk: Option<Vec<u64>>,
    /// Where its chunks lie.
    pub(super) chunks: ChunkManifest,
    /// Whether codecs and fill value are those of the first file.
    pub(super) fits: bool,
    /// Values, where they were read.
    pub(super) values: Option<Bytes>,
    /// Digest of the values, where one was made.
    pub(super) digest: Option<String>,
    /// Units, where they are not those of the first file.
    pub(super) units: Option<Box<str>>,
    /// Type of its values and what means "missing", where they are not those of the first file.
    pub(super) other: Option<Box<(DataType, Sentinels)>>,
}

/// What a file says of an array beside its metadata.
pub(super) struct Read {
    pub(super) values: Option<ArrayValues>,
    pub(super) digest: Option<String>,
    pub(super) format: ZarrFormat,
    /// Whether it holds times, or bounds of times.
    pub(super) times: bool,
}

impl Growing {
    pub(super) fn new(first: &Array, url: Arc<str>, places: Vec<Place>, always: bool, times: bool) -> Self {
        let mut first = first.clone();
        first.chunks = ChunkManifest::default();
        let attributes = Merged::new(&first.attributes);
        Self {
            first,
            url,
            places,
            always,
            times: always && times,
            pieces: BTreeMap::new(),
            attributes,
            kept: 0,
        }
    }

    /// Where the part of a file goes.
    pub(super) fn key(&self, at: &[usize]) -> Vec<usize> {
        let one = |(place, n): (&Place, &usize)| if *place == Place::Absent { 0 } else { *n };
        self.places.iter().zip(at).map(one).collect()
    }

    /// Takes the part of a further file.
    ///
    /// # Errors
    /// What does not agree with the first file.
    pub(super) fn add(
        &mut self,
        at: &[usize],
        url: &Arc<str>,
        mut array: Array,
        read: Read,
        assume_equal: bool,
    ) -> Result<(), String> {
        self.agrees(&array)?;
        let are_times = self.always && times::has_time_units(&self.first) && times::has_time_units(&array);
        if !assume_equal || self.varies() {
            self.means_the_same(&array)?;
            self.attributes.add(&array.attributes, true);
            self.reads_the_same(&array)?;
        }
        let key = self.key(at);
        let units = times::text(&array.attributes, "units");
        let other_units = are_times && units != times::text(&self.first.attributes, "units");
        let other = self.other(&array, read.format).filter(|_| self.always);
        let fits = decode_alike(&array, &self.first) && array.fill_value == self.first.fill_value;
        let piece = Piece {
            url: url.clone(),
            shape: std::mem::take(&mut array.shape),
            chunk: match array.chunk_grid {
                ChunkGrid::Regular(chunk) => Some(chunk),
                ChunkGrid::Rectilinear(_) => None,
            },
            chunks: array.chunks,
            fits,
            values: read.values.map(|values| values.bytes),
            digest: read.digest,
            units: if other_units { units.map(Into::into) } else { None },
            other,
        };
        match self.pieces.get(&key) {
            Some(there) if !assume_equal => equal(there, &piece),
            Some(_) => Ok(()),
            None => {
                self.keep(key, piece);
                Ok(())
            }
        }
    }

    /// Keeps a part; without values where all parts have too many.
    fn keep(&mut self, key: Vec<usize>, mut piece: Piece) {
        let bytes = piece.values.as_ref().map_or(0, |values| values.len() as u64);
        self.kept = self.kept.saturating_add(bytes);
        if !self.always && self.varies() && self.kept > MOST_KEPT {
            piece.values = None;
            for piece in self.pieces.values_mut() {
                piece.values = None;
            }
        }
        self.pieces.insert(key, piece);
    }

    /// What chunks that are not stored read as, which in Zarr v2 means "missing" as well.
    fn reads_the_same(&self, array: &Array) -> Result<(), String> {
        // Of times that are copied it is seen to that none is missing.
        let converts = self.always && array.data_type != self.first.data_type;
        let same = || converts && fill_value(array) == fill_value(&self.first);
        if self.times || array.fill_value == self.first.fill_value || same() {
            return Ok(());
        }
        let shown = |array: &Array| {
            array.fill_value.as_ref().map_or("none".to_owned(), |_| fill_value(array).to_string())
        };
        Err(format!("fill value {}, and {} before", shown(array), shown(&self.first)))
    }

    /// Its axes in the whole; `sizes` are elements of each place along each dimension of the layout.
    pub(super) fn geometry(&self, names: &[String], sizes: &[&[u64]]) -> Option<Geometry> {
        Geometry::new(&self.places, &self.first.shape, &self.first.dimension_names, names, sizes)
    }

    /// Whether it varies along any dimension.
    pub(super) fn varies(&self) -> bool {
        self.places.iter().any(|place| *place != Place::Absent)
    }

    /// Its type and what means "missing", where they are others than the first file's.
    fn other(&self, array: &Array, format: ZarrFormat) -> Option<Box<(DataType, Sentinels)>> {
        let sentinels = Sentinels::of(array, format);
        let is_other =
            array.data_type != self.first.data_type || sentinels != Sentinels::of(&self.first, format);
        is_other.then(|| Box::new((array.data_type.clone(), sentinels)))
    }

    fn means_the_same(&self, array: &Array) -> Result<(), String> {
        if array.attributes == self.first.attributes {
            return Ok(());
        }
        let (now, before) = (of_array(array, self.always), of_array(&self.first, self.always));
        let compared = |name: &&String| !(self.times && MISSING.contains(&name.as_str()));
        let mut names = now.keys().chain(before.keys()).filter(compared);
        let differs = names.find(|name| now.get(*name) != before.get(*name));
        let Some(name) = differs else { return Ok(()) };
        let shown = |value: Option<&Value>| value.map_or("none".to_owned(), Value::to_string);
        Err(format!("attribute {name} is {}, and {} before", shown(now.get(name)), shown(before.get(name))))
    }

    fn agrees(&self, array: &Array) -> Result<(), String> {
        let first = &self.first;
        let are_numbers = is_number(&array.data_type) && is_number(&first.data_type);
        let converts = self.always && are_numbers && packing(&first.attributes).is_none();
        if array.data_type != first.data_type && !converts {
            return Err(format!("data type {}, and {} before", array.data_type, first.data_type));
        }
        if array.dimension_names != first.dimension_names || array.shape.len() != first.shape.len() {
            let (now, before) = (&array.dimension_names, &first.dimension_names);
            return Err(format!("dimensions {}, and {} before", names(now), names(before)));
        }
        for (axis, (now, before)) in array.shape.iter().zip(&first.shape).enumerate() {
            if now != before && !self.places.contains(&Place::Axis(axis)) {
                return Err(format!("{now} elements along axis {axis}, and {before} before"));
            }
        }
        Ok(())
    }
}

fn names(names: &[Option<String>]) -> String {
    let shown: Vec<_> = names.iter().map(|name| name.as_deref().unwrap_or("?")).collect();
    format!("({})", shown.join(", "))
}

/// Holds two files' parts at one place to be equal.
fn equal(there: &Piece, here: &Piece) -> Result<(), String> {
    let same = match (&there.values, &here.values, &there.digest, &here.digest) {
        (Some(left), Some(right), _, _) => {
            left == right && there.units == here.units && there.other == here.other
        }
        (_, _, Some(left), Some(right)) => left == right,
        _ => {
            let what = "its values were not compared with those before; --assume-equal takes them for equal";
            return Err(what.to_owned());
        }
    };
    let hint = "--concat-var takes it along, --assume-equal keeps that one";
    if same && there.shape == here.shape {
        return Ok(());
    }
    Err(format!(
        "its values are not those of {}, though it does not vary along the dimension; {hint}",
        there.url
    ))
}
