//! `imagecodecs_szip`: HDF5 filter 4, whose chunks start with their decoded size (`header`).

use serde_json::{Map, Value};

use super::{Codec, Definition, OwnName, Registry, definition::Encoded};

/// Client data of the filter, in its order.
const PARAMETERS: [&str; 4] = ["options_mask", "pixels_per_block", "bits_per_pixel", "pixels_per_scanline"];

pub(super) const DEFINITION: Definition = Definition {
    configuration: |codec, _| {
        let mut configuration = parameters(codec)?;
        configuration.insert("header".to_owned(), true.into());
        Some(Value::Object(configuration))
    },
    parse,
    own: Some(OwnName {
        name: "virtualize.szip",
        configuration: |codec| parameters(codec).map(Value::Object),
        parse,
    }),
    describe: |_| "the HDF5 filter szip".to_owned(),
    examples: || vec![Codec::Hdf5Szip(vec![169, 8, 16, 100]), Codec::Hdf5Szip(vec![141, 32, 64, 99])],
    ..Definition::compressor(Registry::Imagecodecs, &["imagecodecs_szip"])
};

fn parameters(codec: &Codec) -> Option<Map<String, Value>> {
    let Codec::Hdf5Szip(client_data) = codec else { return None };
    let client_data = client_data.get(..PARAMETERS.len())?;
    let parameters = PARAMETERS.iter().zip(client_data);
    Some(parameters.map(|(name, value)| ((*name).to_owned(), (*value).into())).collect())
}

fn parse(encoded: &Encoded<'_>) -> Option<Codec> {
    PARAMETERS.iter().map(|name| encoded.number(name)).collect::<Option<_>>().map(Codec::Hdf5Szip)
}
