//! `imagecodecs_lz4h5`: HDF5 filter 32004.
//! <https://github.com/HDFGroup/hdf5_plugins/blob/master/docs/RegisteredFilterPlugins.md>

use super::{Codec, Definition, OwnName, Registry};

pub(super) const DEFINITION: Definition = Definition {
    own: Some(OwnName::plain("virtualize.lz4", |_| Some(Codec::Hdf5Lz4))),
    parse: |_| Some(Codec::Hdf5Lz4),
    examples: || vec![Codec::Hdf5Lz4],
    ..Definition::compressor(Registry::Imagecodecs, &["imagecodecs_lz4h5"])
};
