//! Invalid values for every parameter of the API's description: none causes an internal error or a panic.

use crate::common::{get, service, settings, url};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// Returns problematic values of many kinds.
fn hostile() -> Vec<String> {
    let long = "9".repeat(5000);
    let plain = [
        "",
        " ",
        "0",
        "-1",
        "1",
        "1e9",
        "NaN",
        "true",
        "null",
        "[]",
        "{}",
        "\0",
        "a\0b",
        "\r\nx-evil: 1",
        "é",
        "\u{202e}x",
        "😀",
        "../../etc/passwd",
        "..%2f..%2fetc",
        "%2e%2e/",
        "..\\..\\x",
        "/etc/passwd",
        "file:///etc/passwd",
        "file:///proc/self/environ",
        "file://localhost/etc/passwd",
        "http://127.0.0.1:1/",
        "http://169.254.169.254/",
        "https://user:secret@host/a",
        "s3://bucket/../x",
        "gopher://x/",
        "://",
        "file://",
        "18446744073709551616",
        "c/0/0",
        "zarr.json/",
        "a//b",
        "~",
        "AAAA~BBBB",
        "====",
        "%",
        "%zz",
        "+",
        ",,,",
        "0/0/0/0",
        "1,",
        "<script>",
        "' OR 1=1",
        "${jndi:x}",
    ];
    plain.into_iter().map(str::to_owned).chain([long, "é".repeat(3000), "../".repeat(500)]).collect()
}

fn resolved<'a>(document: &'a Value, parameter: &'a Value) -> &'a Value {
    match parameter["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => parameter,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_values_of_every_parameter_are_refused_or_answered() {
    let service = service(&settings());
    let document = get(&service, "/v1/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut requests = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let operation = &operations["get"];
        for parameter in operation["parameters"].as_array().unwrap_or(&Vec::new()) {
            let parameter = resolved(&document, parameter);
            for value in hostile() {
                for encoded in [utf8_percent_encode(&value, NON_ALPHANUMERIC).to_string(), value.clone()] {
                    let target = target(path, parameter, &encoded);
                    if target.parse::<axum::http::Uri>().is_err() {
                        continue;
                    }
                    let answer = get(&service, &target).await;
                    let status = answer.status.as_u16();
                    assert!(status < 500, "{target}: {status}");
                    if status >= 400 {
                        let (_, code) = answer.problem();
                        assert!(virtualize::Code::ALL.iter().any(|known| known.as_str() == code), "{code}");
                        assert!(!String::from_utf8_lossy(&answer.body).contains("secret"), "{target}");
                    } else {
                        assert!(
                            operation["responses"].get(status.to_string()).is_some(),
                            "{target}: {status}"
                        );
                    }
                    requests += 1;
                }
            }
        }
    }
    assert!(requests > 2000, "{requests}");
}

/// Returns the path with this value of a parameter, and with valid values of the required ones.
fn target(path: &str, parameter: &Value, value: &str) -> String {
    let (name, source) = (parameter["name"].as_str().unwrap(), url("hdf5/chunked.h5"));
    if parameter["in"] == "path" {
        let encoded = utf8_percent_encode(&source, NON_ALPHANUMERIC).to_string();
        let path = path.replace(&format!("{{{name}}}"), value);
        return path.replace("{source}", &encoded).replace("{key}", "zarr.json");
    }
    match name {
        "url" => format!("{path}?url={value}"),
        _ => format!("{path}?url={source}&{name}={value}"),
    }
}
