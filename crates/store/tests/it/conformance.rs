//! Conformance checks for every kind of store that needs no external program.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common::{Server, conforms, content, options, run};
use virtualize_bytes::{MemorySource, ReadRanges};
use virtualize_store::{Object, open};

#[test]
fn memory() {
    run(conforms(&MemorySource(content().into())));
    run(conforms(Object::in_memory("memory:///a", content()).as_ref()));
}

#[test]
fn local_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a b%20#.bin");
    std::fs::write(&path, content()).unwrap();
    run(async {
        let object = open(path.to_str().unwrap(), &options()).await.unwrap();
        conforms(object.as_ref()).await;
        assert_eq!(object.url(), format!("file://{}", path.display()));
        assert!(object.modified().is_some());
        let again = open(object.url(), &options()).await.unwrap();
        assert_eq!(again.size(), object.size());
    });
}

#[test]
fn http() {
    let server = Server::of_file(content());
    run(async {
        let object = open(&format!("{}/a%20b/c.bin?x=1&y=%2F", server.url), &options()).await.unwrap();
        conforms(object.as_ref()).await;
        assert_eq!(object.etag(), Some("\"one\""));
        assert_eq!(object.modified(), Some(1_795_255_200_000));
    });
    assert!(server.requests().iter().all(|request| request.target == "/a%20b/c.bin?x=1&y=%2F"));
}

#[test]
fn http_without_ranges() {
    let server = Server::start(|request| {
        let mut plain = request.clone();
        plain.headers.remove("range");
        crate::common::file(&plain, content(), "\"one\"")
    });
    run(async {
        let object = open(&format!("{}/c.bin", server.url), &options()).await.unwrap();
        conforms(object.as_ref()).await;
    });
}
