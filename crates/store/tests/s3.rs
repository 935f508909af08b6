//! S3 on a loopback server that verifies signatures, and on one that accepts anonymous requests.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::Path;

use common::{conforms, content, options};
use hyper_util::rt::TokioIo;
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use virtualize_bytes::{ByteRange, ReadErrorKind, ReadRanges};
use virtualize_store::{ExistingFolder, SideFolder, StoreError, StoreOptions, open, put};

const KEY: &str = "AKEXAMPLE";
const SECRET: &str = "not-a-secret";

/// Serves the folders under `root` as buckets; requires signatures if `signed`.
async fn serve(root: &Path, signed: bool) -> String {
    let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root).unwrap());
    if signed {
        builder.set_auth(SimpleAuth::from_single(KEY, SECRET));
    }
    let service = builder.build();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let server = hyper::server::conn::http1::Builder::new();
            let service = service.clone();
            tokio::spawn(async move {
                server.serve_connection(TokioIo::new(socket), service).await.map_err(drop)
            });
        }
    });
    url
}

fn signed(endpoint: &str, secret: &str) -> StoreOptions {
    let values = [("aws_access_key_id", KEY), ("aws_secret_access_key", secret), ("AWS_REGION", "us-east-1")];
    StoreOptions {
        values: values.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
        endpoint: Some(endpoint.to_owned()),
        ..options()
    }
}

fn anonymous(endpoint: &str) -> StoreOptions {
    StoreOptions { anonymous: true, endpoint: Some(endpoint.to_owned()), ..options() }
}

fn bucket() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("bucket/folder")).unwrap();
    std::fs::write(root.path().join("bucket/folder/a b.nc"), content()).unwrap();
    root
}

const URL: &str = "s3://bucket/folder/a b.nc";

#[tokio::test]
async fn with_credentials() {
    let root = bucket();
    let options = signed(&serve(root.path(), true).await, SECRET);
    let object = open(URL, &options).await.unwrap();
    conforms(object.as_ref()).await;
    assert_eq!(object.url(), URL);
    assert!(object.modified().is_some());
    let missing = open("s3://bucket/none.nc", &options).await.unwrap_err();
    assert_eq!(missing.kind(), ReadErrorKind::NotFound, "{missing}");
}

#[tokio::test]
async fn without_credentials() {
    let root = bucket();
    let object = open(URL, &anonymous(&serve(root.path(), false).await)).await.unwrap();
    conforms(object.as_ref()).await;
}

#[tokio::test]
async fn wrong_or_missing_credentials() {
    let root = bucket();
    let endpoint = serve(root.path(), true).await;
    for options in [signed(&endpoint, "wrong"), anonymous(&endpoint)] {
        let error = open(URL, &options).await.unwrap_err();
        assert_eq!(error.kind(), ReadErrorKind::Denied, "{error}");
        assert!(format!("{:?}", error.remedy()).contains("Anonymous"));
    }
}

#[tokio::test]
async fn output_goes_to_a_bucket_too() {
    let root = bucket();
    let options = signed(&serve(root.path(), true).await, SECRET);
    put("s3://bucket/out/refs.json", &options, content().into()).await.unwrap();
    conforms(open("s3://bucket/out/refs.json", &options).await.unwrap().as_ref()).await;
}

#[tokio::test]
async fn folders_become_objects_below_a_prefix() {
    let root = bucket();
    let options = signed(&serve(root.path(), true).await, SECRET);
    let write = async |overwrite: bool, keys: &[&str]| {
        let mut folder = SideFolder::create("s3://bucket/out/store.zarr/", overwrite).unwrap();
        for key in keys {
            std::io::Write::write_all(&mut folder.file(key).unwrap(), key.as_bytes()).unwrap();
        }
        folder.finish(&options).await
    };
    let there = |key: &str| root.path().join("bucket/out/store.zarr").join(key).is_file();
    write(false, &["a/c/0", "a/zarr.json", "zarr.json"]).await.unwrap();
    assert!(there("a/c/0") && there("a/zarr.json") && there("zarr.json"));
    assert!(matches!(write(false, &["zarr.json"]).await, Err(StoreError::Occupied { .. })));
    write(true, &["b/zarr.json", "zarr.json"]).await.unwrap();
    assert!(!there("a/c/0") && there("b/zarr.json") && there("zarr.json"));
    assert!(root.path().join("bucket/folder/a b.nc").is_file());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_uploads_what_has_changed() {
    const TARGET: &str = "s3://bucket/out/store.zarr";
    let root = bucket();
    let options = signed(&serve(root.path(), true).await, SECRET);
    let write = |folder: &mut SideFolder, key: &str, text: &str| {
        std::io::Write::write_all(&mut folder.file(key).unwrap(), text.as_bytes()).unwrap();
    };
    let mut folder = SideFolder::create(TARGET, false).unwrap();
    for key in ["a/0", "a/1", "b", "zarr.json"] {
        write(&mut folder, key, "before");
    }
    let published = folder.finish(&options).await.unwrap();
    let path = |key: &str| root.path().join("bucket/out/store.zarr").join(key);
    let written = |key: &str| std::fs::metadata(path(key)).unwrap().modified().unwrap();
    let before = written("a/0");
    let reached = options.clone();
    let extended = tokio::task::spawn_blocking(move || {
        let existing = ExistingFolder::find(TARGET, &reached).unwrap().unwrap();
        assert_eq!(existing.receipt(), published);
        let mut text = String::new();
        existing.open("a/1").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "before");
        let mut folder = SideFolder::extend(TARGET, &existing).unwrap();
        folder.keep("a/0").unwrap();
        write(&mut folder, "a/1", "after");
        write(&mut folder, "zarr.json", "after");
        folder
    });
    extended.await.unwrap().finish(&options).await.unwrap();
    let text = |key: &str| std::fs::read_to_string(path(key)).unwrap();
    assert_eq!([text("a/0"), text("a/1"), text("zarr.json")], ["before", "after", "after"]);
    assert!(!path("b").exists());
    assert_eq!(written("a/0"), before);
}

#[tokio::test]
async fn an_object_that_is_replaced_is_noticed() {
    let root = bucket();
    let options = signed(&serve(root.path(), true).await, SECRET);
    let object = open(URL, &options).await.unwrap();
    put(URL, &options, content()[1..].into()).await.unwrap();
    let error = object.read_ranges(&[ByteRange::new(900_000, 5)]).await.unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::Changed, "{error}");
}

#[tokio::test]
async fn an_option_that_is_not_known() {
    let values = vec![("nonsense".to_owned(), "1".to_owned())];
    let error = open(URL, &StoreOptions { values, ..options() }).await.unwrap_err();
    assert!(error.to_string().contains("nonsense"), "{error}");
}
