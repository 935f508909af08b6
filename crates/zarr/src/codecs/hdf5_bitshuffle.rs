//! HDF5's bitshuffle filter (32008), whose framing no client knows.

use super::{Codec, Definition};

pub(super) const DEFINITION: Definition = Definition {
    describe: |_| "the HDF5 filter bitshuffle".to_owned(),
    examples: || vec![Codec::Hdf5Bitshuffle(vec![0, 0, 2, 0, 2])],
    ..Definition::internal()
};
