//! `GET /v1/folder`: one level of an allowed folder or key prefix.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Request, State},
    response::Response,
};
use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};
use virtualize_store::{Listed, Page};

use crate::{Problem, client::Client, context::Context, encode, query::Parameters, sources::on_thread};

/// Default and maximum number of entries per page.
const ENTRIES: u64 = 1000;
/// Memory for each entry of a page: its URL, twice, as it is parsed and as it is sent.
const ENTRY: u64 = 8 << 10;

/// Returns the accepted parameters.
pub(crate) fn parameters() -> Vec<&'static str> {
    vec!["after", "limit", "url"]
}

/// Handles the request.
pub(crate) async fn get(
    State(context): State<Arc<Context>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(request.uri(), &parameters())?;
    let url = parameters.url()?;
    if matches!(url.split_once("://"), Some((scheme, _)) if scheme.to_ascii_lowercase().starts_with("http")) {
        return Err(Problem::not_found("web servers have no listing of folders"));
    }
    let limit = parameters.number("limit", 1, ENTRIES)?.unwrap_or(ENTRIES);
    let after = parameters.get("after").filter(|after| !after.is_empty()).map(str::to_owned);
    let share = client.quota.memory.take(limit.saturating_mul(ENTRY)).await?;
    let url = format!("{}/", url.strip_suffix('/').unwrap_or(url));
    let (asked, options) = (url.clone(), context.config.store_options(&client.allowed));
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let place = client.quota.opening().await?;
    let work =
        move |_| async move { virtualize_store::list_folder(&asked, most, after.as_deref(), &options).await };
    let page = on_thread(work, place).await??;
    context.metrics.traffic_of(&url).request(0);
    let text = described(&virtualize_store::folder_url(&url)?, &page).to_string();
    drop(share);
    Ok(encode::json(request.headers(), text))
}

fn described(url: &str, page: &Page) -> Value {
    let folders: Vec<&str> = page.folders.iter().map(|folder| folder.url.as_str()).collect();
    let files: Vec<Value> = page.files.iter().map(file).collect();
    json!({ "url": url, "folders": folders, "files": files, "next": page.next })
}

fn file(file: &Listed) -> Value {
    let modified = file.modified.and_then(DateTime::from_timestamp_millis);
    let modified = modified.map(|time| time.to_rfc3339_opts(SecondsFormat::Millis, true));
    json!({ "url": file.url, "size": file.size, "modified": modified })
}
