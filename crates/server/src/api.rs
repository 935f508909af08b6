//! What the description of the API declares, and how remedies name options to its clients.

use virtualize::Notation;

/// The OpenAPI document of the service.
pub(crate) const DOCUMENT: &str = include_str!("openapi.json");

/// Parameters of mapping, which every endpoint that reads a source accepts. The service itself sets the members of
/// [`MappingOptions`] that are not listed, such as the HDF5 reader and the total size of inline chunks.
pub(crate) const OF_MAPPING: [&str; 16] = [
    "chunk-grid",
    "complex-integers",
    "dmrpp",
    "follow-external",
    "format",
    "ifd",
    "inline",
    "inline-limit",
    "missing-value-convention",
    "ragged",
    "readable-by",
    "sidecars",
    "split-contiguous",
    "stack",
    "strict",
    "unpack",
];
/// Remedies for a request about one source name options as its query parameters do: `chunk-grid=rectilinear`.
pub(crate) const PARAMETERS: Notation = Notation(|option, value| {
    let name = option.as_str().replace('_', "-");
    let shown = value.map_or_else(|| name.clone(), |value| format!("{name}={value}"));
    OF_MAPPING.contains(&name.as_str()).then_some(shown)
});
