//! `GET /v1/references`: references to the chunks of a file.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use virtualize::Format;

use crate::{
    Problem,
    api::OF_MAPPING,
    bundle::Bundle,
    client::Client,
    context::Context,
    query::{Parameters, Wanted},
    rendered::{Rendering, lost},
    sources::Mapped,
};

/// Returns the accepted parameters.
pub(crate) fn parameters() -> Vec<&'static str> {
    OF_MAPPING.into_iter().chain(["url"]).collect()
}

/// Handles the request.
pub(crate) async fn get(
    State(context): State<Arc<Context>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Problem> {
    let wanted = Parameters::read(request.uri(), &parameters())?.wanted(&context.config, &client)?;
    let made = made(&context, &wanted).await?;
    Ok(sent(&made, request.headers(), wanted.format))
}

/// Generates the references of a file, or reuses them.
pub(crate) async fn made(context: &Context, wanted: &Wanted) -> Result<Arc<Rendering>, Problem> {
    let format = wanted.format;
    let made = context.rendered.get(wanted, "references", Mapped::documented, move |mapped, out| {
        if !format.is_several_files() {
            return Ok(virtualize::write_to(&mapped.store, format, out)?);
        }
        let most = out.most();
        let mut bundle = Bundle::new(out, most);
        virtualize::write_files(&mapped.store, format, &mut bundle)?;
        bundle.finish().map(drop).map_err(lost)
    });
    made.await
}

/// Builds the response: JSON, or an archive to download.
fn sent(made: &Rendering, headers: &HeaderMap, format: Format) -> Response {
    let mut response = made.answer(headers, format.media_type());
    if format.is_several_files() {
        let disposition = format!("attachment; filename=\"{}\"", format.download_name());
        if let Ok(disposition) = HeaderValue::from_str(&disposition) {
            response.headers_mut().insert(header::CONTENT_DISPOSITION, disposition);
        }
    }
    response
}
