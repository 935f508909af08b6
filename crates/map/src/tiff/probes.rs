//! Questions that only the stored bytes of chunks answer, and the decisions that follow from the answers. The caller
//! fetches the bytes between [`probes`] and [`decide`].

use std::collections::BTreeMap;

use virtualize_bytes::ByteRange;
use virtualize_zarr::{NodePath, Reference, SourceId};

use super::{jpeg, lerc};
use crate::{MapOptions, Mapped};

/// Most chunks examined in all arrays of a local file, and of a remote one, where each may cost a request.
const MOST_LOCAL: u64 = 1 << 20;
const MOST_REMOTE: u64 = 1 << 10;

/// Chunks to examine, by array.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Probes {
    /// LERC chunks, which may have masks: row-major position and stored bytes.
    pub lerc_masks: BTreeMap<NodePath, Vec<(u64, Reference)>>,
    /// JPEG streams, which may have fewer samples of some colors.
    pub jpeg_sampling: BTreeMap<NodePath, Vec<(SourceId, ByteRange)>>,
}

/// Answers to [`Probes`]. An error is the reason why a chunk of the array could not be examined.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProbeAnswers {
    /// The chunks whose masks change values that are not padding.
    pub lerc_masks: BTreeMap<NodePath, Result<Vec<(u64, Reference)>, String>>,
    /// Offset of the first subsampled stream.
    pub jpeg_sampling: BTreeMap<NodePath, Result<Option<u64>, String>>,
}

/// Returns the chunks to examine.
pub fn probes(mapped: &Mapped) -> Probes {
    let is_local = mapped.hierarchy.sources.first().is_some_and(|source| source.url.starts_with("file:"));
    let most = if is_local { MOST_LOCAL } else { MOST_REMOTE };
    Probes { lerc_masks: lerc::probes(mapped, most), jpeg_sampling: jpeg::probes(mapped, most) }
}

/// Adds tasks for chunks that have to be re-encoded, and leaves out arrays that readers would show otherwise than
/// libtiff.
pub fn decide(mapped: &mut Mapped, answers: ProbeAnswers, options: &MapOptions) {
    lerc::decide(mapped, answers.lerc_masks, options);
    jpeg::decide(mapped, answers.jpeg_sampling);
}
