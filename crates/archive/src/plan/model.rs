use std::collections::BTreeMap;

use super::extent::{FileExtent, Selection};
use crate::{compat::Signature, error::Note, values::Scalar};

/// The signatures of all files, by [`FileExtent::storage`].
pub type Signatures = BTreeMap<String, Signature>;

/// What is known of the files besides their extents.
pub struct Known<'a> {
    /// Their signatures.
    pub signatures: Signatures,
    /// Returns all coordinates of a file (by its row) along a dimension, if they are known. Called for files that overlap.
    pub coordinates: &'a dyn Fn(u64, &str) -> Option<Vec<Scalar>>,
}

impl Known<'_> {
    /// Knows nothing.
    pub fn nothing() -> Self {
        Self { signatures: Signatures::new(), coordinates: &|_, _| None }
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
    /// Its row in the journal.
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
    /// Its row in the journal.
    pub row: u64,
    /// Its url.
    pub url: String,
    /// Its place along each dimension, from 0, in the layout's order.
    pub at: Vec<usize>,
    /// The elements that are selected along the only dimension; `None` for all.
    pub selection: Option<Selection>,
}

/// An era while it is planned: its signature's digest, and its files in the order of their rows.
pub(super) type Era = (String, Vec<FileExtent>);
