//! The web page at `/`. Its files are embedded from `assets/`. It loads nothing from other hosts, and its content
//! security policy forbids everything else.

use std::sync::{Arc, LazyLock};

use axum::{
    Extension,
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get},
};
use serde_json::json;

use crate::{
    Problem,
    client::Client,
    conditional::tag,
    context::Context,
    encode::{self, Fixed},
};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";

/// Path and content of each file.
static FILES: [(&str, Fixed); 58] = [
    ("/assets/api.js", Fixed::new(SCRIPT, include_str!("../assets/api.js"))),
    ("/assets/axes.js", Fixed::new(SCRIPT, include_str!("../assets/axes.js"))),
    ("/assets/coast-110m.txt", Fixed::new(TEXT, include_str!("../assets/coast-110m.txt"))),
    ("/assets/coast-50m.txt", Fixed::new(TEXT, include_str!("../assets/coast-50m.txt"))),
    ("/assets/colour.js", Fixed::new(SCRIPT, include_str!("../assets/colour.js"))),
    ("/assets/controls.js", Fixed::new(SCRIPT, include_str!("../assets/controls.js"))),
    ("/assets/crs-cf.js", Fixed::new(SCRIPT, include_str!("../assets/crs-cf.js"))),
    ("/assets/crs-epsg.js", Fixed::new(SCRIPT, include_str!("../assets/crs-epsg.js"))),
    ("/assets/crs-proj.js", Fixed::new(SCRIPT, include_str!("../assets/crs-proj.js"))),
    ("/assets/crs.js", Fixed::new(SCRIPT, include_str!("../assets/crs.js"))),
    ("/assets/cursor.js", Fixed::new(SCRIPT, include_str!("../assets/cursor.js"))),
    ("/assets/data.js", Fixed::new(SCRIPT, include_str!("../assets/data.js"))),
    ("/assets/details.js", Fixed::new(SCRIPT, include_str!("../assets/details.js"))),
    ("/assets/dom.js", Fixed::new(SCRIPT, include_str!("../assets/dom.js"))),
    ("/assets/epsg.txt", Fixed::new(TEXT, include_str!("../assets/epsg.txt"))),
    ("/assets/figure.js", Fixed::new(SCRIPT, include_str!("../assets/figure.js"))),
    ("/assets/georeference.js", Fixed::new(SCRIPT, include_str!("../assets/georeference.js"))),
    ("/assets/histogram.js", Fixed::new(SCRIPT, include_str!("../assets/histogram.js"))),
    ("/assets/icon.svg", Fixed::new(SVG, include_str!("../assets/icon.svg"))),
    ("/assets/json.js", Fixed::new(SCRIPT, include_str!("../assets/json.js"))),
    ("/assets/layout.js", Fixed::new(SCRIPT, include_str!("../assets/layout.js"))),
    ("/assets/lines.js", Fixed::new(SCRIPT, include_str!("../assets/lines.js"))),
    ("/assets/look.js", Fixed::new(SCRIPT, include_str!("../assets/look.js"))),
    ("/assets/main.js", Fixed::new(SCRIPT, include_str!("../assets/main.js"))),
    ("/assets/map-cells.js", Fixed::new(SCRIPT, include_str!("../assets/map-cells.js"))),
    ("/assets/map-coast.js", Fixed::new(SCRIPT, include_str!("../assets/map-coast.js"))),
    ("/assets/map-draw.js", Fixed::new(SCRIPT, include_str!("../assets/map-draw.js"))),
    ("/assets/map-gestures.js", Fixed::new(SCRIPT, include_str!("../assets/map-gestures.js"))),
    ("/assets/map-graticule.js", Fixed::new(SCRIPT, include_str!("../assets/map-graticule.js"))),
    ("/assets/map-grid.js", Fixed::new(SCRIPT, include_str!("../assets/map-grid.js"))),
    ("/assets/map-mode.js", Fixed::new(SCRIPT, include_str!("../assets/map-mode.js"))),
    ("/assets/map-readout.js", Fixed::new(SCRIPT, include_str!("../assets/map-readout.js"))),
    ("/assets/map-scale.js", Fixed::new(SCRIPT, include_str!("../assets/map-scale.js"))),
    ("/assets/map-tiles.js", Fixed::new(SCRIPT, include_str!("../assets/map-tiles.js"))),
    ("/assets/map.js", Fixed::new(SCRIPT, include_str!("../assets/map.js"))),
    ("/assets/nodes.js", Fixed::new(SCRIPT, include_str!("../assets/nodes.js"))),
    ("/assets/packed.js", Fixed::new(SCRIPT, include_str!("../assets/packed.js"))),
    ("/assets/picture.js", Fixed::new(SCRIPT, include_str!("../assets/picture.js"))),
    ("/assets/preferences.js", Fixed::new(SCRIPT, include_str!("../assets/preferences.js"))),
    ("/assets/profile.js", Fixed::new(SCRIPT, include_str!("../assets/profile.js"))),
    ("/assets/save.js", Fixed::new(SCRIPT, include_str!("../assets/save.js"))),
    ("/assets/shading.js", Fixed::new(SCRIPT, include_str!("../assets/shading.js"))),
    ("/assets/slice.js", Fixed::new(SCRIPT, include_str!("../assets/slice.js"))),
    ("/assets/snippets.js", Fixed::new(SCRIPT, include_str!("../assets/snippets.js"))),
    ("/assets/start.js", Fixed::new(SCRIPT, include_str!("../assets/start.js"))),
    ("/assets/style.css", Fixed::new(CSS, include_str!("../assets/style.css"))),
    ("/assets/table.js", Fixed::new(SCRIPT, include_str!("../assets/table.js"))),
    ("/assets/theme.js", Fixed::new(SCRIPT, include_str!("../assets/theme.js"))),
    ("/assets/time.js", Fixed::new(SCRIPT, include_str!("../assets/time.js"))),
    ("/assets/tree.js", Fixed::new(SCRIPT, include_str!("../assets/tree.js"))),
    ("/assets/use.js", Fixed::new(SCRIPT, include_str!("../assets/use.js"))),
    ("/assets/values.js", Fixed::new(SCRIPT, include_str!("../assets/values.js"))),
    ("/assets/vendor-licenses.txt", Fixed::new(TEXT, include_str!("../assets/vendor-licenses.txt"))),
    ("/assets/vendor-map.js", Fixed::new(SCRIPT, include_str!("../assets/vendor-map.js"))),
    ("/assets/vendor.js", Fixed::new(SCRIPT, include_str!("../assets/vendor.js"))),
    ("/assets/viewer.css", Fixed::new(CSS, include_str!("../assets/viewer.css"))),
    ("/assets/viewstate.js", Fixed::new(SCRIPT, include_str!("../assets/viewstate.js"))),
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

/// Names the content of all files.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let texts: Vec<&str> = FILES.iter().map(|(_, file)| file.text()).collect();
    tag(&texts).trim_matches('"').chars().take(12).collect()
});

/// The page, which names its files by version, so that browsers may keep them.
static PAGE: LazyLock<Fixed> = LazyLock::new(|| {
    let text = include_str!("../assets/index.html").replace("\"assets/", &format!("\"assets/{}/", *VERSION));
    Fixed::new(HTML, text.leak())
});

/// Returns the routes of the page and its files.
pub(crate) fn routes() -> Vec<(&'static str, MethodRouter<Arc<Context>>)> {
    let route = |(path, file): &'static (&'static str, Fixed)| {
        (*path, get(move |headers: HeaderMap| async move { answer(&headers, file).await }))
    };
    let page = get(|headers: HeaderMap| async move { answer(&headers, &PAGE).await });
    let fixed = [("/", page), ("/assets/{version}/{name}", get(versioned))];
    fixed.into_iter().chain(FILES.iter().map(route)).collect()
}

async fn answer(headers: &HeaderMap, file: &Fixed) -> Response {
    let mut response = file.answer(headers).await;
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns a file of the page. During an upgrade of several instances, the page may come from another version: its
/// files are answered too, but must not be kept.
async fn versioned(Path((version, name)): Path<(String, String)>, headers: HeaderMap) -> Response {
    let Some((_, file)) = FILES.iter().find(|(path, _)| path.strip_prefix("/assets/") == Some(&name)) else {
        return Problem::not_found("no such path").into_response();
    };
    let mut response = answer(&headers, file).await;
    if version == *VERSION {
        let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
        response.headers_mut().insert(header::CACHE_CONTROL, forever);
    }
    response
}

/// `GET /v1/about`: returns the version of the service, the prefixes and the examples that the client may read.
pub(crate) async fn about(
    State(context): State<Arc<Context>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Response {
    let examples: Vec<&String> =
        context.config.examples.iter().filter(|url| client.allowed.check(url).is_ok()).collect();
    let text = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "allow": client.allowed.prefixes(),
        "examples": examples,
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
        for (path, file) in FILES.iter().map(|(path, file)| (*path, file)).chain([("/", &*PAGE)]) {
            let (kind, text) = (file.kind(), file.text());
            // Browsers do not fetch namespaces.
            let elsewhere = text.replace("http://www.w3.org/", "");
            assert!(!elsewhere.contains("://") || !elsewhere.contains("src=\"http"), "{path}");
            assert!(
                kind != HTML
                    || !(text.contains("<style") || text.contains(" style=") || text.contains(" onclick=")),
                "{path}"
            );
        }
        let html = PAGE.text().replace(&format!("assets/{}/", *VERSION), "assets/");
        for script in html.split("<script").skip(1) {
            assert!(script.contains("src=\"assets/") && script.contains("></script>"), "{script}");
        }
        same_modules(&html);
        let all: usize = FILES.iter().map(|(_, file)| file.text().len()).sum();
        assert!(all < 1_100_000, "{all} bytes");
    }

    /// The browser loads all modules at once: the page preloads exactly what `main.js` imports, directly or not.
    fn same_modules(html: &str) {
        let mut needed = std::collections::BTreeSet::from(["main.js"]);
        let mut next = vec!["main.js"];
        while let Some(name) = next.pop() {
            let (_, file) =
                FILES.iter().find(|(path, _)| path.strip_prefix("/assets/") == Some(name)).unwrap();
            let imports =
                file.text().lines().filter_map(|line| line.split_once(" from \"./")?.1.split('"').next());
            next.extend(imports.filter(|import| needed.insert(import)));
        }
        let preloads =
            html.split("modulepreload\" href=\"assets/").skip(1).filter_map(|rest| rest.split('"').next());
        assert_eq!(needed, preloads.chain(["main.js"]).collect());
    }
}
