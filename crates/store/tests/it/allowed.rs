//! Files outside the allowed prefixes are unreachable through redirects, links and names of private addresses.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::{fs, os::unix::fs::symlink};

use crate::common::{Response, Server, options, run};
use virtualize_bytes::{ByteRange, ReadErrorKind};
use virtualize_store::{Access, Allowed, StoreError, StoreOptions, open};

fn only(prefixes: &[&str]) -> StoreOptions {
    StoreOptions { allowed: Some(Allowed::parse(prefixes).unwrap()), retries: 0, ..options() }
}

fn refused(url: &str, options: &StoreOptions) -> StoreError {
    run(open(url, options)).expect_err(url)
}

#[test]
fn symbolic_links_do_not_lead_out() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
    for place in [&inside, &outside] {
        fs::create_dir(place).unwrap();
        fs::write(place.join("a"), "bytes").unwrap();
    }
    symlink(outside.join("a"), inside.join("file")).unwrap();
    symlink(&outside, inside.join("folder")).unwrap();
    symlink(inside.join("a"), inside.join("fine")).unwrap();
    symlink(&inside, folder.path().join("alias")).unwrap();
    let root = format!("file://{}", folder.path().display());
    let options = only(&[&format!("{root}/in/")]);
    for name in ["in/a", "in/fine"] {
        let object = run(open(&format!("{root}/{name}"), &options)).unwrap();
        assert_eq!(run(object.read_once(ByteRange::new(1, 3))).unwrap(), "yte");
    }
    for name in ["in/file", "in/folder/a", "out/a", "alias/a"] {
        let error = refused(&format!("{root}/{name}"), &options);
        assert!(matches!(error, StoreError::NotAllowed { .. }), "{name}: {error}");
    }
    // A prefix that is itself a symbolic link covers its target.
    let aliased = only(&[&format!("{root}/alias")]);
    assert!(run(open(&format!("{root}/alias/a"), &aliased)).is_ok());
    assert!(run(open(&inside.join("a").display().to_string(), &options)).is_err(), "a path is not a url");
}

#[test]
fn redirects_are_not_followed() {
    let secret = Server::of_file(b"secret");
    let elsewhere = format!("{}/a", secret.url);
    let server = Server::start(move |_| Response {
        status: 302,
        headers: vec![("Location", elsewhere.clone())],
        body: vec![],
    });
    let error = refused(&format!("{}/a", server.url), &only(&[&server.url]));
    assert!(!error.to_string().contains(&secret.url), "{error}");
    assert_eq!((server.requests().len(), secret.requests().len()), (1, 0));
}

#[test]
fn an_address_is_reached_where_a_prefix_names_it() {
    let server = Server::of_file(b"bytes");
    let port = server.url.rsplit_once(':').unwrap().1;
    let by_name = format!("http://localhost:{port}");
    assert!(run(open(&format!("{}/a", server.url), &only(&[&server.url]))).is_ok());
    assert!(run(open(&format!("{by_name}/a"), &only(&[&by_name]))).is_ok());
    let error = refused(&format!("{by_name}/a"), &only(&[&server.url]));
    assert_eq!(error.kind(), ReadErrorKind::Denied);
}

#[test]
fn names_of_private_addresses_are_not_connected_to() {
    let server = Server::of_file(b"bytes");
    let port = server.url.rsplit_once(':').unwrap().1;
    // A name other than `localhost` for the loopback address; some resolvers resolve it, others do not.
    let named = format!("http://name.localhost:{port}");
    refused(&format!("{named}/a"), &only(&[&named]));
    assert!(server.requests().is_empty());
}

#[test]
fn no_token_is_sent() {
    let server = Server::of_file(b"bytes");
    let access = Access { bearer_token: Some("secret".to_owned()), ..Access::default() };
    let with = StoreOptions { access, ..only(&[&server.url]) };
    refused(&format!("{}/a", server.url), &with);
    assert!(server.requests().is_empty());
}
