use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A file of an archive, as a listing has it. What a listing does not say is not known before the file is opened.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Item {
    /// Absolute url; local files have the scheme `file`.
    pub url: String,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Entity tag.
    pub etag: Option<String>,
    /// Modification time, in milliseconds since 1970-01-01T00:00:00Z.
    pub modified: Option<i64>,
    /// What a catalogue says of it, such as the properties of a STAC item; empty for others.
    #[serde(default)]
    pub properties: Map<String, Value>,
}
