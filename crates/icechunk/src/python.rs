//! The Python snippet that opens a repository.

use std::fmt::Write;

use icechunk::virtual_chunks::VirtualChunkContainer;

use crate::{CommitOptions, RepositoryLocation, StorageOptions};

/// Returns a snippet that opens a group of the branch and authorizes all virtual chunk containers of the repository.
pub(crate) fn snippet(
    location: &RepositoryLocation,
    options: &CommitOptions,
    group: &str,
    containers: &[VirtualChunkContainer],
) -> String {
    let mut text = String::from("import icechunk, xarray as xr\n");
    let _ = writeln!(text, "storage = {}", storage(location, &options.storage));
    let _ = writeln!(text, "credentials = icechunk.containers_credentials({{");
    for container in containers {
        let prefix = container.url_prefix();
        let _ = writeln!(text, "    {}: {},", quoted(prefix), credentials(prefix, &options.storage));
    }
    let _ = writeln!(text, "}})");
    let _ = writeln!(
        text,
        "repository = icechunk.Repository.open(storage, authorize_virtual_chunk_access=credentials)"
    );
    let _ = writeln!(text, "session = repository.readonly_session({})", quoted(&options.branch));
    let group = match group {
        "" => String::new(),
        group => format!(", group={}", quoted(group)),
    };
    let _ = write!(text, "dataset = xr.open_zarr(session.store{group}, consolidated=False)");
    text
}

fn storage(location: &RepositoryLocation, options: &StorageOptions) -> String {
    match location {
        RepositoryLocation::Local(path) => {
            format!("icechunk.local_filesystem_storage({})", quoted(&path.display().to_string()))
        }
        RepositoryLocation::S3 { bucket, prefix } => {
            let mut text =
                format!("icechunk.s3_storage(bucket={}, prefix={}", quoted(bucket), quoted(prefix));
            if let Some(region) = options.region() {
                let _ = write!(text, ", region={}", quoted(&region));
            }
            if let Some(endpoint) = options.s3_endpoint() {
                let http = if endpoint.starts_with("http://") { ", allow_http=True" } else { "" };
                let _ = write!(text, ", endpoint_url={}{http}, force_path_style=True", quoted(&endpoint));
            }
            text + if options.is_anonymous() { ", anonymous=True)" } else { ", from_env=True)" }
        }
        RepositoryLocation::Google { bucket, prefix } => {
            let access = if options.google_is_anonymous() { "anonymous=True" } else { "from_env=True" };
            let (bucket, prefix) = (quoted(bucket), quoted(prefix));
            let config = config(&options.google_endpoint());
            format!("icechunk.gcs_storage(bucket={bucket}, prefix={prefix}, {access}{config})")
        }
        RepositoryLocation::Azure { container, prefix } => format!(
            "icechunk.azure_storage(account={}, container={}, prefix={}, {}{})",
            quoted(&options.azure_account().unwrap_or_default()),
            quoted(container),
            quoted(prefix),
            if options.anonymous { "anonymous=True" } else { "from_env=True" },
            config(&options.azure_endpoint())
        ),
    }
}

/// Returns the `config` argument for a service with a custom endpoint.
fn config(settings: &[(String, String)]) -> String {
    match settings {
        [] => String::new(),
        settings => {
            let settings: std::collections::BTreeMap<_, _> = settings.iter().cloned().collect();
            format!(", config={}", serde_json::json!(settings))
        }
    }
}

fn credentials(prefix: &str, options: &StorageOptions) -> &'static str {
    let anonymous = options.is_anonymous();
    match prefix.split("://").next().unwrap_or_default() {
        "file" => "icechunk.Credentials.LocalFileSystemAccess()",
        "http" | "https" => "icechunk.Credentials.HttpAccess()",
        "gs" if anonymous || options.google_is_anonymous() => "icechunk.GcsCredentials.Anonymous()",
        "gs" => "icechunk.gcs_from_env_credentials()",
        "az" | "abfs" if anonymous => "icechunk.azure_anonymous_credentials()",
        "az" | "abfs" => "icechunk.azure_from_env_credentials()",
        _ if anonymous => "icechunk.s3_anonymous_credentials()",
        _ => "icechunk.s3_from_env_credentials()",
    }
}

/// Returns a string literal that is valid in both JSON and Python.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
