use std::collections::BTreeMap;

use super::extent::{FileExtent, Selection};
use crate::{compat::Signature, error::Note, values::Scalar};

/// The signatures of all files, by [`FileExtent::storage`].
pub type Signatures = BTreeMap<String, Signature>;

/// What is known of files beside their briefs.
pub struct Known<'a> {
    /// Their signatures.
    pub signatures: Signatures,
    /// All coordinates of a file, by its row, along a dimension; nothing where they are not known. It is asked of files
    /// that overlap.
    pub coordinates: &'a dyn Fn(u64, &str) -> Option<Vec<Scalar>>,
}

impl Known<'_> {
    /// Nothing is known.
    pub fn nothing() -> Self {
        Self { signatures: Signatures::new(), coordinates: &|_, _| None }
    }
}

/// Where each file goes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// Eras in the order of their first files.
    pub eras: Vec<PlannedEra>,
    /// Files that are left out, with the reason.
    pub left_out: Vec<LeftOut>,
    /// What is to be known.
    pub notes: Vec<Note>,
}

/// A file that is not part of the result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// Its row in the journal.
    pub row: u64,
    /// Its url.
    pub url: String,
    /// Why.
    pub reason: String,
}

/// Files that agree.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedEra {
    /// Digest of their signature; that of the first files, if several signatures are compatible.
    pub signature: String,
    /// Path of the group that they become; "" where there is only one era.
    pub group: String,
    /// Number of elements of each place along each dimension, in the layout's order.
    pub sizes: Vec<Vec<u64>>,
    /// The files in order of place, the last dimension fastest.
    pub blocks: Vec<Block>,
}

/// A file in its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its row in the journal.
    pub row: u64,
    /// Its url.
    pub url: String,
    /// Its place along each dimension, from 0, in the layout's order.
    pub at: Vec<usize>,
    /// What is taken of it along the only dimension, where that is not all.
    pub selection: Option<Selection>,
}

/// Its digest, and its files in the order of rows.
pub(super) type Era = (String, Vec<FileExtent>);
