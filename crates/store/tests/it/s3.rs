//! S3 on a loopback server that verifies signatures, and on one that accepts anonymous requests.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use crate::common::{OUTPUTS, conforms, content, options};
use hyper_util::rt::TokioIo;
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use virtualize_bytes::{ByteRange, ReadErrorKind, ReadRanges};
use virtualize_store::{Access, SideFolder, StoreError, StoreOptions, open, put};

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
    let access = Access {
        values: values.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
        endpoint: Some(endpoint.to_owned()),
        ..Access::default()
    };
    StoreOptions { access, ..options() }
}

fn anonymous(endpoint: &str) -> StoreOptions {
    let access = Access { anonymous: true, endpoint: Some(endpoint.to_owned()), ..Access::default() };
    StoreOptions { access, ..options() }
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
    for (options, identity) in [
        (signed(&endpoint, "wrong"), "; requested with AWS_ACCESS_KEY_ID"),
        (anonymous(&endpoint), "; requested anonymously"),
    ] {
        let error = open(URL, &options).await.unwrap_err();
        assert_eq!(error.kind(), ReadErrorKind::Denied, "{error}");
        assert!(error.to_string().ends_with(identity) && !error.to_string().contains("wrong"), "{error}");
        let remedy = format!("{:?}", error.remedy());
        assert!(remedy.contains("AWS_PROFILE") && remedy.contains("Anonymous") != options.access.anonymous);
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
        let mut folder = SideFolder::create("s3://bucket/out/store.zarr/", overwrite, OUTPUTS).unwrap();
        for key in keys {
            std::io::Write::write_all(&mut folder.file(key).unwrap(), key.as_bytes()).unwrap();
        }
        folder.finish(&options).await
    };
    let path = |key: &str| root.path().join("bucket/out/store.zarr").join(key);
    write(false, &["ours.a/0", "ours.b", "root"]).await.unwrap();
    assert!(path("ours.a/0").is_file() && path("ours.b").is_file() && path("root").is_file());
    assert!(matches!(write(false, &["root"]).await, Err(StoreError::Occupied { foreign: None, .. })));
    write(true, &["ours.b", "ours.c", "root"]).await.unwrap();
    assert!(!path("ours.a/0").exists() && path("ours.c").is_file() && path("root").is_file());
    assert!(root.path().join("bucket/folder/a b.nc").is_file());
    std::fs::write(path("thesis.txt"), "x").unwrap();
    let found = write(true, &["ours.d", "root"]).await;
    assert!(matches!(&found, Err(StoreError::Occupied { foreign: Some(key), .. }) if key == "thesis.txt"));
    assert!(path("thesis.txt").is_file() && path("ours.c").is_file() && !path("ours.d").exists());
    // Left of an interrupted upload, which listed its keys.
    std::fs::remove_file(path("root")).unwrap();
    std::fs::remove_file(path("thesis.txt")).unwrap();
    assert!(write(true, &["root"]).await.is_err());
    let list = root.path().join("bucket/out/.virtualize-store.zarr.part");
    std::fs::write(&list, "ours.b\nours.c\nroot").unwrap();
    write(true, &["root"]).await.unwrap();
    assert!(path("root").is_file() && !path("ours.c").exists() && !list.exists());
}

#[tokio::test]
async fn large_objects_are_uploaded_in_parts() {
    let root = bucket();
    let options = signed(&serve(root.path(), true).await, SECRET);
    let content: Vec<u8> = (0..9_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut object = virtualize_store::SideObject::create("s3://bucket/large").unwrap();
    std::io::Write::write_all(&mut object, &content).unwrap();
    object.finish(&options).await.unwrap();
    assert!(std::fs::read(root.path().join("bucket/large")).unwrap() == content);
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
    let access = Access { values, ..Access::default() };
    let error = open(URL, &StoreOptions { access, ..options() }).await.unwrap_err();
    assert!(error.to_string().contains("nonsense"), "{error}");
}
