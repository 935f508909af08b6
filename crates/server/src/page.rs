//! The web page at `/`. Its files are embedded from `assets/`. It loads nothing from other hosts, and its content
//! security policy forbids everything else.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::Response,
    routing::{MethodRouter, get},
};
use serde_json::json;

use crate::{
    client::Client,
    context::Context,
    encode::{self, Fixed},
};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Path and content of each file.
static FILES: [(&str, Fixed); 20] = [
    ("/", Fixed::new(HTML, include_str!("../assets/index.html"))),
    ("/assets/api.js", Fixed::new(SCRIPT, include_str!("../assets/api.js"))),
    ("/assets/colour.js", Fixed::new(SCRIPT, include_str!("../assets/colour.js"))),
    ("/assets/details.js", Fixed::new(SCRIPT, include_str!("../assets/details.js"))),
    ("/assets/dom.js", Fixed::new(SCRIPT, include_str!("../assets/dom.js"))),
    ("/assets/events.js", Fixed::new(SCRIPT, include_str!("../assets/events.js"))),
    ("/assets/icon.svg", Fixed::new(SVG, include_str!("../assets/icon.svg"))),
    ("/assets/jobs.js", Fixed::new(SCRIPT, include_str!("../assets/jobs.js"))),
    ("/assets/json.js", Fixed::new(SCRIPT, include_str!("../assets/json.js"))),
    ("/assets/layout.js", Fixed::new(SCRIPT, include_str!("../assets/layout.js"))),
    ("/assets/line.js", Fixed::new(SCRIPT, include_str!("../assets/line.js"))),
    ("/assets/look.js", Fixed::new(SCRIPT, include_str!("../assets/look.js"))),
    ("/assets/main.js", Fixed::new(SCRIPT, include_str!("../assets/main.js"))),
    ("/assets/style.css", Fixed::new(CSS, include_str!("../assets/style.css"))),
    ("/assets/theme.js", Fixed::new(SCRIPT, include_str!("../assets/theme.js"))),
    ("/assets/tree.js", Fixed::new(SCRIPT, include_str!("../assets/tree.js"))),
    ("/assets/use.js", Fixed::new(SCRIPT, include_str!("../assets/use.js"))),
    ("/assets/values.js", Fixed::new(SCRIPT, include_str!("../assets/values.js"))),
    ("/assets/zarr.js", Fixed::new(SCRIPT, include_str!("../assets/zarr.js"))),
    // Browsers request this path by default.
    ("/favicon.ico", Fixed::new(SVG, include_str!("../assets/icon.svg"))),
];

/// Content security policy: the page may run its own scripts, use its own styles, and send requests to its own
/// service. Text never becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// Headers of every file.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Returns the routes of the page's files.
pub(crate) fn routes() -> Vec<(&'static str, MethodRouter<Arc<Context>>)> {
    let route = |(path, file): &'static (&'static str, Fixed)| {
        (*path, get(move |headers: HeaderMap| async move { answer(&headers, file).await }))
    };
    FILES.iter().map(route).collect()
}

async fn answer(headers: &HeaderMap, file: &Fixed) -> Response {
    let mut response = file.answer(headers).await;
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// `GET /v1/about`: returns the version of the service, the prefixes that the client may read, and whether the service
/// runs jobs.
pub(crate) async fn about(
    State(context): State<Arc<Context>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Response {
    let text = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "allow": client.allowed.prefixes(),
        "jobs": context.jobs.is_some(),
    })
    .to_string();
    encode::json(request.headers(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The service serves every file of `assets/`, and no file refers to another host.
    #[test]
    fn the_page_is_whole() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let names =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        for name in names {
            assert!(
                FILES
                    .iter()
                    .any(|(path, ..)| path.trim_start_matches("/assets/") == name || name == "index.html"),
                "{name}"
            );
        }
        for (path, file) in &FILES {
            let (kind, text) = file.parts();
            // Browsers do not fetch namespaces.
            let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("://") || !elsewhere.contains("src=\"http"), "{path}");
            assert!(
                kind != HTML
                    || !(text.contains("<style") || text.contains(" style=") || text.contains(" onclick=")),
                "{path}"
            );
        }
        let html = FILES.first().unwrap().1.parts().1;
        for script in html.split("<script").skip(1) {
            assert!(script.contains("src=\"assets/") && script.contains("></script>"), "{script}");
        }
        let all: usize = FILES.iter().map(|(_, file)| file.parts().1.len()).sum();
        assert!(all < 200_000, "{all} bytes");
    }
}
