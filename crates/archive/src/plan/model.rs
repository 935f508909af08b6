use std::collections::BTreeMap;

use super::extent::{Brief, Taken};
use crate::{compat::Signature, error::Note, values::Scalar};

/// Signatures of the kinds of files that there are, by their digests ([`Brief::kind`]).
pub type Kinds = BTreeMap<String, Signature>;

/// What is known of files beside their briefs.
pub struct Known<'a> {
    /// Their kinds.
    pub kinds: Kinds,
    /// All coordinates of a file, by its row, along a dimension; nothing where they are not known. It is asked of files
    /// that overlap.
    pub coordinates: &'a dyn Fn(u64, &str) -> Option<Vec<Scalar>>,
}

impl Known<'_> {
    /// Nothing is known.
    pub fn nothing() -> Self {
        Self { kinds: Kinds::new(), coordinates: &|_, _| None }
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
    /// Digest of their signature.
    pub era: String,
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
    pub taken: Option<Taken>,
}

/// Its digest, and its files in the order of rows.
pub(super) type Era = (String, Vec<Brief>);
