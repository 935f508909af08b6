//! `GET /v1/references`: a file as references.

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
    query::Parameters,
    rendered::{Rendering, lost},
    sources::Mapped,
};

/// The parameters that are known.
pub(crate) fn parameters() -> Vec<&'static str> {
    OF_MAPPING.into_iter().chain(["url"]).collect()
}

/// The answer.
pub(crate) async fn get(
    State(context): State<Arc<Context>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Problem> {
    let wanted = Parameters::read(request.uri(), &parameters())?.wanted(&context.config, &client)?;
    let format = wanted.format;
    let made = context.rendered.get(&wanted, "references", Mapped::documented, move |mapped, out| {
        if !format.is_several_files() {
            return Ok(virtualize::write_to(&mapped.store, format, out)?);
        }
        let most = out.most();
        let mut bundle = Bundle::new(out, most);
        virtualize::write_files(&mapped.store, format, &mut bundle)?;
        bundle.finish().map(drop).map_err(lost)
    });
    Ok(sent(&*made.await?, request.headers(), format))
}

/// Returns references as what they are: JSON, or an archive to keep.
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
