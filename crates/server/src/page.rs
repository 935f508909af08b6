//! The web page at `/`. Its files are embedded from `assets/`. It loads nothing from other hosts, and its content
//! security policy forbids everything else.

use std::sync::{Arc, LazyLock};

use axum::{
    Extension, Router,
    extract::{Path, State},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::Response,
    routing::get,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    app::Service,
    auth::Client,
    problem::Problem,
    respond::{self, tag},
};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";

/// Lists the files of `assets/` by name, with their media types and contents.
macro_rules! files {
    ($($name:literal $kind:ident,)*) => { [$(($name, $kind, include_str!(concat!("../assets/", $name)))),*] };
}

/// Name, media type and content of each file.
static FILES: [(&str, &str, &str); 37] = files![
    "api.js" SCRIPT,
    "axes.js" SCRIPT,
    "coast-110m.txt" TEXT,
    "coast-50m.txt" TEXT,
    "colour.js" SCRIPT,
    "controls.js" SCRIPT,
    "crs.js" SCRIPT,
    "cursor.js" SCRIPT,
    "data.js" SCRIPT,
    "details.js" SCRIPT,
    "dom.js" SCRIPT,
    "epsg.txt" TEXT,
    "figure.js" SCRIPT,
    "georeference.js" SCRIPT,
    "gestures.js" SCRIPT,
    "histogram.js" SCRIPT,
    "icon.svg" SVG,
    "look.js" SCRIPT,
    "main.js" SCRIPT,
    "map-grid.js" SCRIPT,
    "map-lines.js" SCRIPT,
    "map-tiles.js" SCRIPT,
    "map-view.js" SCRIPT,
    "map.js" SCRIPT,
    "plot.js" SCRIPT,
    "readout.js" SCRIPT,
    "start.js" SCRIPT,
    "style.css" CSS,
    "table.js" SCRIPT,
    "theme.js" SCRIPT,
    "tree.js" SCRIPT,
    "use.js" SCRIPT,
    "values.js" SCRIPT,
    "vendor-licenses.txt" TEXT,
    "vendor-map.js" SCRIPT,
    "vendor.js" SCRIPT,
    "viewer.css" CSS,
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

/// Names the content of all files.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let texts: Vec<&str> = FILES.iter().map(|(_, _, text)| *text).collect();
    tag(&texts).trim_matches('"').chars().take(12).collect()
});

/// The page, which names its files by version, so that browsers may keep them.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    include_str!("../assets/index.html").replace("\"assets/", &format!("\"assets/{}/", *VERSION))
});

/// Returns the routes of the page and its files.
pub(crate) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/", get(|headers: HeaderMap| async move { answer(&headers, HTML, PAGE.as_str()) }))
        // Browsers request this path by default.
        .route("/favicon.ico", get(|headers: HeaderMap| async move { file(&headers, "icon.svg") }))
        .route(
            "/assets/{name}",
            get(|Path(name): Path<String>, headers: HeaderMap| async move { file(&headers, &name) }),
        )
        .route("/assets/{version}/{name}", get(versioned))
}

fn answer(headers: &HeaderMap, kind: &'static str, text: &'static str) -> Response {
    let mut response = respond::bytes(headers, kind, text);
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn file(headers: &HeaderMap, name: &str) -> Result<Response, Problem> {
    let found = FILES.iter().find(|(other, ..)| *other == name);
    let (_, kind, text) = found.ok_or_else(|| Problem::not_found("no such path"))?;
    Ok(answer(headers, kind, text))
}

/// Returns a file of the page. During an upgrade of several instances, the page may come from another version: its
/// files are answered too, but must not be kept.
async fn versioned(
    Path((version, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mut response = file(&headers, &name)?;
    if version == *VERSION {
        let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
        response.headers_mut().insert(header::CACHE_CONTROL, forever);
    }
    Ok(response)
}

/// What a client may read.
#[derive(Serialize, ToSchema)]
pub(crate) struct About {
    /// Version of the service.
    version: &'static str,
    /// Prefixes that the client may read.
    allow: Vec<String>,
    /// Example files.
    examples: Vec<String>,
}

/// Version of the service, and prefixes that the client may read
#[utoipa::path(get, path = "/v1/about", tag = "Service", responses(
    (status = 200, description = "What the client may read", body = About),
    (status = 304, description = "Not modified"),
    Problem,
))]
pub(crate) async fn about(
    State(service): State<Arc<Service>>,
    Extension(client): Extension<Arc<Client>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let examples = service.config.examples.iter().filter(|url| client.allowed.check(url).is_ok());
    let about = About {
        version: env!("CARGO_PKG_VERSION"),
        allow: client.allowed.prefixes().into_iter().map(str::to_owned).collect(),
        examples: examples.cloned().collect(),
    };
    Ok(respond::json(&headers, serde_json::to_string(&about).map_err(|_| Problem::internal())?))
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
            assert!(name == "index.html" || FILES.iter().any(|(other, ..)| *other == name), "{name}");
        }
        for (name, kind, text) in FILES.into_iter().chain([("", HTML, PAGE.as_str())]) {
            // Browsers do not fetch namespaces.
            let elsewhere = text.replace("http://www.w3.org/", "");
            assert!(!elsewhere.contains("://") || !elsewhere.contains("src=\"http"), "{name}");
            let is_inline = ["<style", " style=", " onclick="].iter().any(|inline| text.contains(inline));
            assert!(kind != HTML || !is_inline, "{name}");
        }
        let html = PAGE.replace(&format!("assets/{}/", *VERSION), "assets/");
        for script in html.split("<script").skip(1) {
            assert!(script.contains("src=\"assets/") && script.contains("></script>"), "{script}");
        }
        same_modules(&html);
        let all: usize = FILES.iter().map(|(_, _, text)| text.len()).sum();
        assert!(all < 1_100_000, "{all} bytes");
    }

    /// The browser loads all modules at once: the page preloads exactly what `main.js` imports, directly or not.
    fn same_modules(html: &str) {
        let mut needed = std::collections::BTreeSet::from(["main.js"]);
        let mut next = vec!["main.js"];
        while let Some(name) = next.pop() {
            let (_, _, text) = FILES.iter().find(|(other, ..)| *other == name).unwrap();
            let imports = text.lines().filter_map(|line| line.split_once(" from \"./")?.1.split('"').next());
            next.extend(imports.filter(|import| needed.insert(import)));
        }
        let preloads =
            html.split("modulepreload\" href=\"assets/").skip(1).filter_map(|rest| rest.split('"').next());
        assert_eq!(needed, preloads.chain(["main.js"]).collect());
    }
}
