//! `imagecodecs_szip`: HDF5 filter 4, whose chunks start with their decoded size (`header`).

use serde_json::{Map, Value};

use super::{Codec, Definition, Registry};

/// Client data of the filter, in its order.
const PARAMETERS: [&str; 4] = ["options_mask", "pixels_per_block", "bits_per_pixel", "pixels_per_scanline"];

pub(super) const DEFINITION: Definition = Definition {
    configuration: |codec, _| {
        let Codec::Hdf5Szip(client_data) = codec else { return None };
        let client_data = client_data.get(..PARAMETERS.len())?;
        let parameters =
            PARAMETERS.iter().zip(client_data).map(|(name, value)| ((*name).to_owned(), (*value).into()));
        let mut configuration: Map<String, Value> = parameters.collect();
        configuration.insert("header".to_owned(), true.into());
        Some(Value::Object(configuration))
    },
    parse: |encoded| {
        PARAMETERS.iter().map(|name| encoded.number(name)).collect::<Option<_>>().map(Codec::Hdf5Szip)
    },
    describe: |_| "the HDF5 filter szip".to_owned(),
    examples: || vec![Codec::Hdf5Szip(vec![169, 8, 16, 100]), Codec::Hdf5Szip(vec![141, 32, 64, 99])],
    ..Definition::compressor(Registry::Imagecodecs, &["imagecodecs_szip"])
};
