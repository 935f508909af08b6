//! `GET /v1/folder`: one level of an allowed folder or key prefix.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, Uri},
    response::Response,
};
use chrono::{DateTime, SecondsFormat};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::{
    app::{Service, log_file},
    auth::Client,
    budget::on_thread,
    problem::Problem,
    query::Parameters,
    respond,
};

/// Default and maximum number of entries per page.
const ENTRIES: u64 = 1000;
/// Memory for each entry of a page: its URL, twice, as it is parsed and as it is sent.
const ENTRY: u64 = 8 << 10;

/// Query parameters of a listing.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the query")]
pub(crate) struct Listing {
    /// Folder, or prefix of keys in a bucket: an absolute URL with an allowed prefix. `/v1/about` lists the prefixes
    /// that the client may read.
    #[param(max_length = 4096, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$", example = "s3://bucket/data/")]
    url: String,
    /// `next` of the previous page.
    #[param(max_length = 8192, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    after: Option<String>,
    /// Maximum number of entries per page.
    #[param(minimum = 1, maximum = 1000, default = 1000)]
    limit: Option<u64>,
}

/// One page of a listing. Names that start with a dot, and entries that cannot be opened, are omitted.
#[derive(Serialize, ToSchema)]
pub(crate) struct Page {
    /// The folder, which ends in `/`.
    url: String,
    /// URLs of the folders, which end in `/`.
    folders: Vec<String>,
    files: Vec<File>,
    /// Value of `after` for the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

/// A file of a listing.
#[derive(Serialize, ToSchema)]
pub(crate) struct File {
    url: String,
    /// Size in bytes.
    #[schema(required)]
    size: Option<u64>,
    /// Time of the last modification (RFC 3339).
    #[schema(required)]
    modified: Option<String>,
}

/// Folders and files directly below an allowed folder, sorted by URL
#[utoipa::path(get, path = "/v1/folder", tag = "Folders", params(Listing), responses(
    (status = 200, description = "One page", body = Page),
    (status = 304, description = "Not modified"),
    Problem,
))]
pub(crate) async fn folder(
    State(service): State<Arc<Service>>,
    Extension(client): Extension<Arc<Client>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["after", "limit", "url"])?;
    let url = parameters.url()?;
    if matches!(url.split_once("://"), Some((scheme, _)) if scheme.to_ascii_lowercase().starts_with("http")) {
        return Err(Problem::not_found("web servers cannot list folders"));
    }
    // Records the folder in the log; `list_folder` checks it.
    let _ = client.check(url.trim_end_matches('/'));
    let limit = parameters.number("limit", 1, ENTRIES)?.unwrap_or(ENTRIES);
    let after = parameters.get("after").filter(|after| !after.is_empty()).map(str::to_owned);
    let share = service.responses.take(limit.saturating_mul(ENTRY)).await?;
    let url = format!("{}/", url.strip_suffix('/').unwrap_or(url));
    let (listed, options) = (url.clone(), service.config.store_options(&client.allowed));
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let work = move |_| async move {
        virtualize_store::list_folder(&listed, most, after.as_deref(), false, &options).await
    };
    let page = on_thread(work, share).await??;
    service.metrics.traffic_of(&url).request(0);
    let files = page.files.into_iter().map(|file| {
        let modified = file.modified.and_then(DateTime::from_timestamp_millis);
        let modified = modified.map(|time| time.to_rfc3339_opts(SecondsFormat::Millis, true));
        File { url: file.url, size: file.size, modified }
    });
    let url = virtualize_store::folder_url(&url)?;
    // The root of a bucket has no canonical form as a file.
    log_file(url.trim_end_matches('/'));
    let page = Page {
        url,
        folders: page.folders.into_iter().map(|folder| folder.url).collect(),
        files: files.collect(),
        next: page.next,
    };
    Ok(respond::json(&headers, serde_json::to_string(&page).map_err(|_| Problem::internal())?))
}
