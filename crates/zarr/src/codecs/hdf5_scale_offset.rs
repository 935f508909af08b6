//! HDF5's scale-offset filter (6), which no client decodes.

use super::{Codec, Definition};

pub(super) const DEFINITION: Definition = Definition {
    describe: |_| "the HDF5 filter scale-offset".to_owned(),
    examples: || vec![Codec::Hdf5ScaleOffset(vec![0])],
    ..Definition::internal()
};
