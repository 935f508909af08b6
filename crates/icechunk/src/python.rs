//! The lines of Python that open a repository.

use std::fmt::Write;

use icechunk::virtual_chunks::VirtualChunkContainer;

use crate::{CommitOptions, RepositoryLocation, StorageOptions};

/// Lines that open the branch, with the repository's containers authorised: those of earlier commits too.
pub(crate) fn lines(
    location: &RepositoryLocation,
    options: &CommitOptions,
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
    let group = match options.group.trim_matches('/') {
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
            format!(
                "icechunk.gcs_storage(bucket={}, prefix={}, from_env=True)",
                quoted(bucket),
                quoted(prefix)
            )
        }
        RepositoryLocation::Azure { container, prefix } => format!(
            "icechunk.azure_storage(account={}, container={}, prefix={}, from_env=True)",
            quoted(&options.azure_account().unwrap_or_default()),
            quoted(container),
            quoted(prefix)
        ),
    }
}

fn credentials(prefix: &str, options: &StorageOptions) -> &'static str {
    let anonymous = options.is_anonymous();
    match prefix.split("://").next().unwrap_or_default() {
        "file" => "icechunk.Credentials.LocalFileSystemAccess()",
        "http" | "https" => "icechunk.Credentials.HttpAccess()",
        "gs" if anonymous => "icechunk.GcsCredentials.Anonymous()",
        "gs" => "icechunk.gcs_from_env_credentials()",
        "az" | "abfs" if anonymous => "icechunk.azure_anonymous_credentials()",
        "az" | "abfs" => "icechunk.azure_from_env_credentials()",
        _ if anonymous => "icechunk.s3_anonymous_credentials()",
        _ => "icechunk.s3_from_env_credentials()",
    }
}

/// A literal that JSON and Python read alike.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
