use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::{extent::Selection, files::Files};
use crate::{
    compat::Signature,
    error::{CombineError, Note, Problem},
    values::Scalar,
};

/// The signatures of files, by [`Signature::storage_digest`].
pub type Signatures = BTreeMap<String, Signature>;

/// Returns all coordinates of a file (by its row) along a dimension, if they are known.
pub(super) type Coordinates<'a> = dyn Fn(u64, &str) -> Option<Vec<Scalar>> + 'a;

/// What is known of the files besides their extents.
pub struct Known<'a> {
    /// Their signatures.
    pub signatures: Signatures,
    /// Returns all coordinates of a file (by its row) along a dimension, if they are known. Called for files that overlap.
    pub coordinates: &'a dyn Fn(u64, &str) -> Option<Vec<Scalar>>,
    /// Returns the url of a file (by its row). Called for files that are named in errors and notes, and for all files if
    /// they have no coordinates.
    pub url: &'a dyn Fn(u64) -> String,
}

impl Known<'_> {
    /// Knows nothing.
    pub fn nothing() -> Self {
        Self { signatures: Signatures::new(), coordinates: &|_, _| None, url: &|row| row.to_string() }
    }
}

/// The files that are planned, and their names.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) files: &'a Files,
    pub(super) url: &'a dyn Fn(u64) -> String,
}

impl Source<'_> {
    /// Returns the url of a file.
    pub(super) fn url(&self, file: u32) -> String {
        (self.url)(file.into())
    }

    /// Returns the error of a file that cannot be placed.
    pub(super) fn misfit(&self, file: u32, problem: Problem) -> CombineError {
        CombineError::file(self.url(file), problem)
    }

    /// Returns the error of two files that exclude each other.
    pub(super) fn conflict(&self, left: u32, right: u32, problem: Problem) -> CombineError {
        CombineError::Files { left: self.url(left), right: self.url(right), problem: Box::new(problem) }
    }
}

/// The place of each file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// The eras, in the order of their first files.
    pub eras: Vec<PlannedEra>,
    /// Files that are left out, with reasons.
    pub left_out: Vec<LeftOut>,
    /// Notes for the user.
    pub notes: Vec<Note>,
}

/// A file that is not part of the combined dataset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// Its row.
    pub row: u64,
    /// Its url.
    pub url: String,
    /// Why.
    pub reason: String,
}

/// Compatible files, in their places.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedEra {
    /// Digest of their signature; that of the first files, if several signatures are compatible.
    pub signature: String,
    /// Path of the group that they become; "" if there is only one era.
    pub group: String,
    /// Number of elements of each place along each dimension, in the layout's order.
    pub sizes: Vec<Vec<u64>>,
    /// The files in order of place, the last dimension fastest.
    pub blocks: Vec<Block>,
}

/// A file and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its row.
    pub row: u64,
    /// Its place along each dimension, from 0, in the layout's order.
    pub at: SmallVec<[u32; 2]>,
    /// The elements that are selected along the only dimension; `None` for all.
    pub selection: Option<Box<Selection>>,
}

/// An era while it is planned: the numbers of its files, ascending.
pub(super) type Era = Vec<u32>;
