//! Listed files as columns, for plans and parts.

use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use serde_json::{Map, Value};

use super::{
    columns::{Columns, Group},
    sealed::Fault,
};
use crate::Item;

/// Schema of the columns.
pub(super) const SCHEMA: &str = "required binary url (UTF8);
    optional int64 size;
    optional binary etag (UTF8);
    optional int64 modified;
    optional binary properties (JSON);";

/// Writes the columns. Sizes beyond 2^63 are not known.
pub(super) fn write<'a>(
    columns: &mut Columns<'_, '_>,
    items: impl Iterator<Item = &'a Item> + Clone,
) -> Result<(), Fault> {
    let urls: Vec<ByteArray> = items.clone().map(|item| item.url.as_str().into()).collect();
    columns.required::<ByteArrayType>(&urls)?;
    let sizes = items.clone().map(|item| item.size.and_then(|size| i64::try_from(size).ok()));
    columns.optional::<Int64Type>(sizes)?;
    columns.optional::<ByteArrayType>(items.clone().map(|item| item.etag.as_deref().map(ByteArray::from)))?;
    columns.optional::<Int64Type>(items.clone().map(|item| item.modified))?;
    columns.optional::<ByteArrayType>(items.map(|item| {
        let properties = &item.properties;
        (!properties.is_empty()).then(|| Value::Object(properties.clone()).to_string().as_str().into())
    }))
}

/// Reads the columns.
pub(super) fn read(group: &Group<'_>) -> Result<Vec<Item>, Fault> {
    let urls = group.required::<ByteArrayType>("url")?;
    let sizes = group.optional::<Int64Type>("size")?;
    let etags = group.optional::<ByteArrayType>("etag")?;
    let times = group.optional::<Int64Type>("modified")?;
    let properties = group.optional::<ByteArrayType>("properties")?;
    let columns = urls.iter().zip(sizes).zip(etags).zip(times).zip(properties);
    columns
        .map(|((((url, size), etag), modified), properties)| {
            Ok(Item {
                url: text("url", url)?,
                size: size.map(|size| unsigned("size", size)).transpose()?,
                etag: etag.map(|etag| text("etag", &etag)).transpose()?,
                modified,
                properties: properties
                    .map_or(Ok(Map::new()), |properties| json("properties", &properties))?,
            })
        })
        .collect()
}

/// Returns the text of a value.
pub(super) fn text(name: &'static str, value: &ByteArray) -> Result<String, Fault> {
    let text = std::str::from_utf8(value.data());
    text.map(str::to_owned).map_err(|error| Fault::Column { name, reason: error.to_string() })
}

/// Parses a value.
pub(super) fn json<T: serde::de::DeserializeOwned>(
    name: &'static str,
    value: &ByteArray,
) -> Result<T, Fault> {
    let parsed = serde_json::from_slice(value.data());
    parsed.map_err(|error| Fault::Column { name, reason: error.to_string() })
}

/// Returns a number that must not be negative.
pub(super) fn unsigned(name: &'static str, number: i64) -> Result<u64, Fault> {
    u64::try_from(number).map_err(|error| Fault::Column { name, reason: error.to_string() })
}
