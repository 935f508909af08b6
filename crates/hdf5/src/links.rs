//! Links of one group before they are sorted.

use crate::{Error, io::Io, model::Link};

/// A link with its creation order, if the group tracks it.
pub(super) type OrderedLink = (Option<u64>, Link);

/// Charges one link whose names take `names` bytes to the memory budget.
pub(super) fn hold_link(io: &Io<'_>, names: usize) -> Result<(), Error> {
    io.hold("links", (size_of::<OrderedLink>() as u64).saturating_add(names as u64))
}
