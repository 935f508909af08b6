//! `GET /v1/openapi.json`: the description of the API, which tests compare with the service.

use axum::{extract::Request, response::Response};

use crate::{api::DOCUMENT, encode::Fixed};

/// Handles the request.
pub(crate) async fn get(request: Request) -> Response {
    static ANSWER: Fixed = Fixed::new("application/json", DOCUMENT);
    ANSWER.answer(request.headers()).await
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::{folder, inspect, layout, references, routes, values};

    fn document() -> Value {
        serde_json::from_str(DOCUMENT).unwrap()
    }

    #[test]
    fn routes_and_paths_are_the_same() {
        let served: BTreeSet<String> =
            routes::api().iter().map(|(path, ..)| path.replace("{*", "{")).collect();
        let described: BTreeSet<String> = document()["paths"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(served, described);
    }

    #[test]
    fn parameters_are_the_same() {
        for (path, known) in [
            ("/v1/references", references::parameters()),
            ("/v1/folder", folder::parameters()),
            ("/v1/inspect", inspect::parameters()),
            ("/v1/chunks", layout::parameters()),
            ("/v1/values/{source}", [&["source"], values::parameters().as_slice()].concat()),
        ] {
            let document = document();
            let listed = document["paths"][path]["get"]["parameters"].as_array().unwrap();
            let names = listed.iter().map(|one| {
                let parameter =
                    document.pointer(one["$ref"].as_str().unwrap().trim_start_matches('#')).unwrap();
                parameter["name"].as_str().unwrap().to_owned()
            });
            let known: BTreeSet<String> = known.into_iter().map(str::to_owned).collect();
            assert_eq!(names.collect::<BTreeSet<_>>(), known, "{path}");
        }
    }
}
