//! Selections of arrays, without a socket.

use crate::common::{get, send, service, settings, store, url};

/// Returns the path of a selection of an array of a fixture.
async fn path(service: &axum::Router, name: &str, query: &str) -> String {
    let store = store(service, &url(name)).await.replace("/v1/zarr/", "/v1/values/");
    format!("{store}?{query}")
}

/// The upper half of `temperature` is 0 to 11 in rows of 6, and the chunk at the lower right is missing, as h5py reads
/// the file (`fixtures/hdf5/chunked.h5.json`).
#[tokio::test(flavor = "multi_thread")]
async fn elements_are_selected() {
    let service = service(&settings());
    for (select, expected) in [
        ("0,0", vec![0.0]),
        ("1,1:6:2", vec![7.0, 9.0, 11.0]),
        (":2,4:", vec![4.0, 5.0, 10.0, 11.0]),
        ("::99,::4", vec![0.0, 4.0]),
        ("0:0,:", vec![]),
        ("1,5:100", vec![11.0]),
    ] {
        let path = path(&service, "hdf5/chunked.h5", &format!("array=/temperature&select={select}")).await;
        let answer = get(&service, &path).await;
        let (values, rest) = answer.body.as_chunks();
        let values: Vec<f32> = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        assert_eq!((values, rest.len(), answer.status.as_u16()), (expected, 0, 200), "{select}");
        let again = send(&service, "GET", &path, &[("if-none-match", answer.header("etag"))]).await;
        assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unfit_selections_are_refused() {
    let service = service(&settings());
    let selections = [
        "0",
        "0,0,0",
        "0,6",
        "9,0",
        "-1,0",
        "0,a",
        "0,1:2:0",
        "0,1:2:3:4",
        "0,",
        ",",
        "0;0",
        "0, 1",
        "0,+1",
        "0,:-1",
        "0,18446744073709551616",
        "0,5:3:18446744073709551616",
        "0,٣",
    ];
    for select in selections {
        let select = percent_encoding::utf8_percent_encode(select, percent_encoding::NON_ALPHANUMERIC);
        let path = path(&service, "hdf5/chunked.h5", &format!("array=temperature&select={select}")).await;
        assert_eq!(get(&service, &path).await.problem(), (400, "parameter".to_owned()), "{select}");
    }
    for (query, status) in [("array=none", 404), ("select=0,0", 400), ("array=temperature&step=2", 400)] {
        let path = path(&service, "hdf5/chunked.h5", query).await;
        assert_eq!(get(&service, &path).await.status.as_u16(), status, "{query}");
    }
    let path = path(
        &service,
        "hdf5/chunked.h5",
        "array=temperature&select=0,18446744073709551615:18446744073709551615:18446744073709551615",
    )
    .await;
    assert_eq!(get(&service, &path).await.body.len(), 0);
}
