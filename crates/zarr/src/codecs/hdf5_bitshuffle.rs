//! HDF5's bitshuffle filter (32008), whose framing no released client knows.
//! <https://github.com/kiyo-masui/bitshuffle/blob/master/src/bshuf_h5filter.c>

use serde_json::json;

use super::{Codec, Definition, OwnName};

/// Names of the compressions, by their number in the client data.
const COMPRESSIONS: [(u32, &str); 3] = [(0, "none"), (2, "lz4"), (3, "zstd")];

pub(super) const DEFINITION: Definition = Definition {
    own: Some(OwnName {
        name: "virtualize.bitshuffle",
        configuration: |codec| {
            let Codec::Hdf5Bitshuffle(client_data) = codec else { return None };
            let element_size = client_data.get(2)?;
            let block_size = client_data.get(3).copied().unwrap_or(0);
            let compression = client_data.get(4).copied().unwrap_or(0);
            let (_, compression) = COMPRESSIONS.iter().find(|(number, _)| *number == compression)?;
            Some(json!({"element_size": element_size, "block_size": block_size, "compression": compression}))
        },
        parse: |encoded| {
            let compression = encoded.text("compression")?;
            let (compression, _) = COMPRESSIONS.iter().find(|(_, name)| *name == compression)?;
            let (element_size, block_size) = (encoded.number("element_size")?, encoded.number("block_size")?);
            Some(Codec::Hdf5Bitshuffle(vec![0, 0, element_size, block_size, *compression]))
        },
    }),
    describe: |_| "the HDF5 filter bitshuffle".to_owned(),
    examples: || {
        COMPRESSIONS.iter().map(|(number, _)| Codec::Hdf5Bitshuffle(vec![0, 0, 2, 0, *number])).collect()
    },
    ..Definition::internal()
};
