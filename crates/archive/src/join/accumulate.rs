//! Arrays that are accumulated file by file.

use std::sync::Arc;

use virtualize::zarr::{Array, ChunkGrid, ChunkManifest, ZarrFormat};

use super::{
    attributes::MergedAttributes,
    files::Files,
    pieces::{Form, Pieces, Place},
};
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
pub(super) struct Growing<'a> {
    /// Its metadata in the first file.
    pub(super) first: Array,
    /// The first file.
    first_block: u32,
    /// Role of each dimension of the layout.
    pub(super) roles: Vec<DimRole>,
    /// Whether its values are copied in any case.
    pub(super) always_copied: bool,
    /// Whether it holds times, or bounds of times, and is copied.
    pub(super) are_times: bool,
    /// Its parts: one for each place along the dimensions along which it varies.
    pub(super) pieces: Pieces,
    /// Its merged attributes.
    pub(super) attributes: MergedAttributes,
    pub(super) files: Files<'a>,
    options: ArrayOptions,
}

/// Properties of an array that hold for all files.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrayOptions {
    pub(super) format: ZarrFormat,
    /// Whether the layout assumes that the array is equal in all files.
    pub(super) assume_equal: bool,
    /// Whether the array may be missing from some files.
    pub(super) is_optional: bool,
}

/// Metadata of an array in a file, compared with the first file. Applies to all files with the same document.
#[derive(Clone, Debug)]
pub(super) struct Compared {
    form: Form,
    units: u32,
    /// Number of chunks if none is missing.
    all_chunks: Option<u64>,
    /// Index of the form of the last file, if it is among those of the parts.
    index: Option<u32>,
}

/// Properties of an array in a file, besides its metadata.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read<'a> {
    /// Number of chunks.
    pub(super) chunks: u64,
    pub(super) values: Option<&'a [u8]>,
    pub(super) digest: Option<&'a str>,
}

impl<'a> Growing<'a> {
    /// Creates an array from its metadata in the first file that has it. `is_copied` and `are_times` describe its values.
    pub(super) fn new(
        first: &Array,
        (files, first_block): (Files<'a>, u32),
        roles: Vec<DimRole>,
        (is_copied, are_times): (bool, bool),
        options: ArrayOptions,
    ) -> Self {
        let mut first = first.clone();
        first.chunks = ChunkManifest::default();
        Self {
            attributes: MergedAttributes::new(&first.attributes),
            first,
            first_block,
            always_copied: is_copied,
            are_times: is_copied && are_times,
            pieces: Pieces::new(varies_throughout(&roles)),
            roles,
            files,
            options,
        }
    }

    /// Returns the url of the first file that has the array.
    pub(super) fn url(&self) -> String {
        self.files.url(self.first_block)
    }

    /// Returns the url of the file of a part.
    pub(super) fn url_of(&self, piece: u32) -> String {
        self.pieces.get(piece).map(|piece| self.files.url(piece.block)).unwrap_or_default()
    }

    /// Returns the place of a part.
    pub(super) fn place_of(&self, piece: u32) -> Place {
        self.pieces.get(piece).map(|piece| self.files.place(piece.block, &self.roles)).unwrap_or_default()
    }

    /// Returns the part at a place.
    pub(super) fn find(&self, place: &Place) -> Option<u32> {
        self.pieces.find(place, |block| self.files.place(block, &self.roles).cmp(place))
    }

    /// Returns whether the array varies along every dimension, so that each file has a part.
    pub(super) fn is_of_each_file(&self) -> bool {
        varies_throughout(&self.roles)
    }

    /// Returns the first file whose part no file has.
    pub(super) fn first_missing(&self) -> Option<u32> {
        let blocks = 0..u32::try_from(self.files.blocks.len()).unwrap_or(u32::MAX);
        if self.is_of_each_file() {
            let has = |block: &u32| self.pieces.get(*block).is_some_and(|piece| piece.block == *block);
            return blocks.into_iter().find(|block| !has(block));
        }
        blocks.into_iter().find(|block| self.find(&self.files.place(*block, &self.roles)).is_none())
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
        ArrayParts {
            always_copied: self.always_copied,
            is_plain: is_plain(&self.first),
            layouts: self.pieces.forms().map(|form| &form.layout).collect(),
        }
    }

    /// Compares the metadata of a file with the files before, and merges its attributes.
    ///
    /// # Errors
    /// An optional or invariant array that differs from the files before. All other arrays agree because the plan has
    /// checked the signatures of their files.
    pub(super) fn compare(&mut self, array: &Array) -> Result<Compared, Problem> {
        let only_shape = self.options.assume_equal && !self.varies();
        let is_proved = !self.options.is_optional && !only_shape;
        if !is_proved && let Some(Difference { what, left, right, .. }) = self.disagreement(array, only_shape)
        {
            return Err(Problem::Differs { what, now: right, before: left });
        }
        debug_assert!(
            !is_proved || self.disagreement(array, only_shape).is_none(),
            "files whose signatures agree: {:?}",
            self.disagreement(array, only_shape)
        );
        if !only_shape {
            self.attributes.add(&array.attributes, true);
        }
        let units = times::text(&array.attributes, "units");
        let has_other_units = self.always_copied
            && times::has_time_units(&self.first)
            && times::has_time_units(array)
            && units != times::text(&self.first.attributes, "units");
        let units = units.filter(|_| has_other_units);
        let form = self.form(array);
        Ok(Compared {
            all_chunks: form.counts().iter().try_fold(1_u64, |all, n| all.checked_mul(*n)),
            units: self.pieces.intern_units(units).ok_or(Problem::TooLarge)?,
            form,
            index: None,
        })
    }

    /// Returns the form of an array whose values were not read.
    fn form(&self, array: &Array) -> Form {
        let chunk = match &array.chunk_grid {
            ChunkGrid::Regular(chunk) => Some(chunk.clone()),
            ChunkGrid::Rectilinear(_) => None,
        };
        let fits = decode_alike(array, &self.first) && array.fill_value == self.first.fill_value;
        Form {
            layout: ChunkLayout { shape: array.shape.clone(), chunk, fits, is_read: false },
            values: None,
            other: self.other(array),
            is_complete: false,
        }
    }

    /// Returns data type and missing values if they differ from those of the first file, and the values are copied.
    fn other(&self, array: &Array) -> Option<Arc<(virtualize::zarr::DataType, Sentinels)>> {
        let sentinels = Sentinels::of(array, self.options.format);
        let is_other = array.data_type != self.first.data_type
            || sentinels != Sentinels::of(&self.first, self.options.format);
        (self.always_copied && is_other).then(|| Arc::new((array.data_type.clone(), sentinels)))
    }

    /// Adds the part of a file.
    ///
    /// # Errors
    /// A part that differs from that of another file at the same place.
    pub(super) fn add(&mut self, block: u32, compared: &mut Compared, read: Read<'_>) -> Result<(), Problem> {
        let read = Read { values: read.values.filter(|_| self.pieces.keeps_values()), ..read };
        compared.update(read);
        if let Some(there) = self.there(block) {
            return if self.options.assume_equal { Ok(()) } else { self.check_equal(there, compared, read) };
        }
        let form = match compared.index.or_else(|| self.pieces.form_index(&compared.form)) {
            Some(form) => form,
            None => self.pieces.intern(&compared.form).ok_or(Problem::TooLarge)?,
        };
        compared.index = Some(form);
        let Self { pieces, files, roles, .. } = self;
        let place = || files.place(block, roles);
        let piece = (block, form, compared.units);
        pieces.push(place, piece, read.values, (read.digest, read.chunks)).ok_or(Problem::TooLarge)?;
        if !self.always_copied && self.varies() && self.pieces.kept() > MAX_KEPT {
            self.pieces.drop_values();
        }
        Ok(())
    }

    /// Returns the part of another file at the place of a file.
    fn there(&self, block: u32) -> Option<u32> {
        match self.varies() {
            false => self.pieces.first(),
            true if varies_throughout(&self.roles) => None,
            true => self.find(&self.files.place(block, &self.roles)),
        }
    }

    /// Checks that the parts of two files at the same place are equal.
    fn check_equal(&self, there: u32, compared: &Compared, read: Read<'_>) -> Result<(), Problem> {
        let form = self.pieces.form(there).ok_or(Problem::TooLarge)?;
        let is_same = match (self.pieces.values(there), read.values, self.pieces.digest(there), read.digest) {
            (Some(left), Some(right), _, _) => {
                let units = self.pieces.get(there).map(|piece| piece.units);
                left == right && units == Some(compared.units) && form.other == compared.form.other
            }
            (_, _, Some(left), Some(right)) => left == right,
            _ => return Err(Problem::NotCompared),
        };
        if is_same && form.layout.shape == compared.form.layout.shape {
            return Ok(());
        }
        Err(Problem::Values { url: self.url_of(there) })
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

impl Compared {
    /// Adapts the form to the values and chunks of a file.
    fn update(&mut self, read: Read<'_>) {
        let values = read.values.map(|values| values.len() as u64);
        let is_complete = self.all_chunks == Some(read.chunks);
        if (self.form.values, self.form.is_complete) != (values, is_complete) {
            self.form.values = values;
            self.form.layout.is_read = values.is_some();
            self.form.is_complete = is_complete;
            self.index = None;
        }
    }
}

/// Returns whether an array varies along every dimension, so that each file has a place of its own.
fn varies_throughout(roles: &[DimRole]) -> bool {
    !roles.is_empty() && roles.iter().all(|role| *role != DimRole::Invariant)
}
