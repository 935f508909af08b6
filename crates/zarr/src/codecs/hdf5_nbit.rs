//! HDF5's nbit filter (5), which no client decodes.

use super::{Codec, Definition};

pub(super) const DEFINITION: Definition = Definition {
    describe: |_| "the HDF5 filter nbit".to_owned(),
    examples: || vec![Codec::Hdf5Nbit(vec![8])],
    ..Definition::internal()
};
