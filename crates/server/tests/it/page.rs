//! The files of the web page and the endpoints that it uses, without a socket.

use virtualize_server::Settings;

use crate::common::{Answer, get, send, service, settings, store, url};

/// Returns the path of the store of a fixture's decoded chunks.
async fn plain(service: &axum::Router, name: &str) -> String {
    format!("{}/", store(service, &url(name)).await.replace("/v1/zarr/", "/v1/plain/"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_served_with_its_policy() {
    let service = service(&settings());
    let page = get(&service, "/").await;
    assert_eq!((page.status.as_u16(), page.header("content-type")), (200, "text/html; charset=utf-8"));
    let html = String::from_utf8(page.body.clone()).unwrap();
    let files = html.split('"').filter(|text| text.starts_with("assets/")).collect::<Vec<_>>();
    assert!(files.len() >= 4);
    for file in files.iter().copied().chain([""]) {
        let answer = get(&service, &format!("/{file}")).await;
        assert_eq!(answer.status, 200, "{file}");
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
        let again =
            send(&service, "GET", &format!("/{file}"), &[("if-none-match", answer.header("etag"))]).await;
        assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
        assert!(!again.header("content-security-policy").is_empty());
    }
    assert_eq!(get(&service, "/assets/../src/lib.rs").await.status, 404);
}

/// Browsers keep the files that a page names, because their addresses change with their content.
#[tokio::test(flavor = "multi_thread")]
async fn files_have_addresses_of_their_version() {
    let service = service(&settings());
    let html = String::from_utf8(get(&service, "/").await.body).unwrap();
    let main = html.split('"').find(|text| text.ends_with("/main.js")).unwrap();
    let kept = |answer: &Answer| answer.header("cache-control").contains("immutable");
    let answer = get(&service, &format!("/{main}")).await;
    assert!(kept(&answer));
    let other = get(&service, "/assets/0123456789ab/main.js").await;
    assert!(!kept(&other) && other.body == answer.body);
    assert!(!kept(&get(&service, "/").await) && !kept(&get(&service, "/assets/main.js").await));
    assert_eq!(get(&service, "/assets/0123456789ab/none.js").await.problem(), (404, "not-found".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn examples_are_allowed_files() {
    let example = url("hdf5/chunked.h5");
    let service = service(&Settings { example: vec![example.clone()], ..settings() });
    assert_eq!(get(&service, "/v1/about").await.json()["examples"], serde_json::json!([example]));
    let outside = Settings { example: vec!["file:///etc/passwd".to_owned()], ..settings() };
    assert!(outside.check().unwrap_err().to_string().starts_with("--example: "));
}

/// The upper half of `temperature` is 0 to 11 in rows of 6, and the chunk at the lower right is missing, as h5py reads
/// the file (`fixtures/hdf5/chunked.h5.json`).
#[tokio::test(flavor = "multi_thread")]
async fn chunks_are_decoded() {
    let service = service(&settings());
    let store = plain(&service, "hdf5/chunked.h5").await;
    let metadata = get(&service, &format!("{store}temperature/zarr.json")).await.json();
    let bytes = serde_json::json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
    assert_eq!(
        (&metadata["codecs"], &metadata["chunk_grid"]["configuration"]["chunk_shape"]),
        (&bytes, &[2, 3].into())
    );
    let root = get(&service, &format!("{store}zarr.json")).await.json();
    assert_eq!(root["consolidated_metadata"]["metadata"]["temperature"]["codecs"], bytes);
    let chunk = get(&service, &format!("{store}temperature/c/0/1")).await;
    let values: Vec<f32> = chunk.body.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    assert_eq!(values, [3.0, 4.0, 5.0, 9.0, 10.0, 11.0]);
    let etag = chunk.header("etag");
    let again = send(&service, "GET", &format!("{store}temperature/c/0/1"), &[("if-none-match", etag)]).await;
    assert_eq!(again.status, 304);
    for missing in ["temperature/c/1/1", "temperature/c/2/0", "temperature/c/0", "nothing/zarr.json"] {
        assert_eq!(
            get(&service, &format!("{store}{missing}")).await.problem(),
            (404, "not-found".to_owned())
        );
    }
    // Chunks that are stored as bare elements can be read by range.
    let part = send(&service, "GET", &format!("{store}lat/c/0"), &[("range", "bytes=8-15")]).await;
    assert_eq!((part.status.as_u16(), part.body.len()), (206, 8));
}

#[tokio::test(flavor = "multi_thread")]
async fn text_is_not_plain() {
    let service = service(&settings());
    let store = plain(&service, "hdf5/netcdf4.nc").await;
    for key in ["label/zarr.json", "label/c/0"] {
        assert_eq!(get(&service, &format!("{store}{key}")).await.problem(), (422, "not-plain".to_owned()));
    }
    let root = get(&service, &format!("{store}zarr.json")).await.json();
    let all = root["consolidated_metadata"]["metadata"].as_object().unwrap();
    assert!(all.contains_key("time") && !all.contains_key("label"));
}

/// The chunk positions match those of h5py's `get_chunk_info`.
#[tokio::test(flavor = "multi_thread")]
async fn chunks_are_listed() {
    let service = service(&settings());
    let ask = |array: &str| format!("/v1/chunks?url={}&array={array}", url("hdf5/chunked.h5"));
    let table = get(&service, &ask("/temperature")).await.json();
    assert_eq!(
        (&table["count"], &table["stored"], &table["inline"], &table["step"]),
        (&4.into(), &3.into(), &0.into(), &1.into())
    );
    assert_eq!(table["chunks"]["offset"], serde_json::json!([8272, 8295, 8318]));
    assert_eq!(table["chunks"]["length"], serde_json::json!([23, 23, 16]));
    assert_eq!(table["sources"][0]["size"], 8334);
    assert_eq!(get(&service, &ask("none")).await.problem(), (404, "not-found".to_owned()));
    let without = format!("/v1/chunks?url={}", url("hdf5/chunked.h5"));
    assert_eq!(get(&service, &without).await.problem(), (400, "parameter".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_methods_are_listed() {
    let service = service(&settings());
    let about = get(&service, "/v1/about").await.json();
    assert_eq!(about["allow"], serde_json::json!([url("hdf5"), url("tiff")]));
}
