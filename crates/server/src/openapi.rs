//! `GET /v1/openapi.json`: the description of the API, kept true by tests.

use axum::{
    extract::Request,
    response::Response,
};

use crate::{conditional::tag, encode::{Content, answer}};

/// The document, as it stands in the crate.
pub(crate) const DOCUMENT: &str = include_str!("openapi.json");

/// The answer.
pub(crate) async fn get(request: Request) -> Response {
    let etag = tag(&["openapi", DOCUMENT]);
    answer(request.headers(), Content::Memory(DOCUMENT.as_bytes().into()), "application/json", &etag)
}
