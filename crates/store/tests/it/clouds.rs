//! Buckets of S3, Google and Azure on servers with scripted responses: redirects, regions, unusual keys.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common::{Request, Response, Server, file, options, run};
use futures::future::join_all;
use virtualize_bytes::ReadErrorKind;
use virtualize_store::{
    Access, Listed, SideFolder, StoreError, StoreOptions, list_page, open, open_listed, put,
};

/// Options for anonymous requests to a server.
fn at(server: &Server) -> StoreOptions {
    let values = vec![("azure_storage_account_name".to_owned(), "account".to_owned())];
    let access = Access { anonymous: true, endpoint: Some(server.url.clone()), values, ..Access::default() };
    StoreOptions { access, ..options() }
}

fn s3(server: &Server) -> StoreOptions {
    StoreOptions { access: Access { values: vec![], ..at(server).access }, ..options() }
}

fn of(server: &Server, scheme: &str) -> StoreOptions {
    if scheme == "az" { at(server) } else { s3(server) }
}

#[test]
fn redirects_of_an_endpoint_are_not_followed() {
    let secret = Server::of_file(b"secret");
    let elsewhere = format!("{}/bucket/a", secret.url);
    let server = Server::start(move |_| Response {
        status: 307,
        headers: vec![("Location", elsewhere.clone())],
        body: vec![],
    });
    for scheme in ["s3", "gs", "az"] {
        let error = run(open(&format!("{scheme}://bucket/a"), &of(&server, scheme))).unwrap_err();
        assert!(!error.to_string().contains(&secret.url), "{error}");
        let (bucket, options) = (format!("{scheme}://bucket/"), of(&server, scheme));
        assert!(run(list_page(&bucket, true, None, &options)).is_err(), "{scheme}");
    }
    assert_eq!((server.requests().len(), secret.requests().len()), (6, 0));
}

// ---- regions

const HOME: &str = "eu-north-1";

/// Serves a bucket in its home region only; `signed` requests name their region.
fn regional(request: &Request) -> Response {
    let signature = request.headers.get("authorization").cloned().unwrap_or_default();
    if !signature.contains(&format!("/{HOME}/s3/")) {
        return Response {
            status: 301,
            headers: vec![("x-amz-bucket-region", HOME.to_owned())],
            body: b"<Error><Code>PermanentRedirect</Code><Message>Elsewhere.</Message></Error>".to_vec(),
        };
    }
    match request.method.as_str() {
        "PUT" => Response { headers: vec![("ETag", "\"p\"".to_owned())], ..Response::status(200) },
        _ if request.target.contains("list-type=2") => listing(&["a.nc"]),
        _ => file(request, b"bytes", "\"one\""),
    }
}

const MODIFIED: &str = "<LastModified>2026-11-21T10:00:00.000Z</LastModified>";

fn listing(keys: &[&str]) -> Response {
    let entry = |key: &&str| format!("<Contents><Key>{key}</Key><Size>5</Size>{MODIFIED}</Contents>");
    let entries: String = keys.iter().map(entry).collect();
    let body = format!("<ListBucketResult>{entries}</ListBucketResult>");
    Response { status: 200, headers: vec![], body: body.into_bytes() }
}

fn signed(server: &Server, more: &[(&str, &str)]) -> StoreOptions {
    let keys = [("aws_access_key_id", "K"), ("aws_secret_access_key", "S")];
    let values = keys.iter().chain(more).map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let access = Access { anonymous: false, values: values.collect(), ..s3(server).access };
    StoreOptions { access, ..options() }
}

#[test]
fn the_region_of_a_bucket_is_found_once() {
    let server = Server::start(regional);
    let options = signed(&server, &[]);
    let clone = options.clone();
    run(async {
        for _ in 0..3 {
            assert_eq!(open("s3://bucket/a.nc", &options).await.unwrap().bytes(), 5);
        }
        let page = list_page("s3://bucket/", true, None, &clone).await.unwrap();
        assert_eq!(page.files[0].url, "s3://bucket/a.nc");
        put("s3://bucket/b", &options, "b".into()).await.unwrap();
    });
    assert_eq!(server.requests().len(), 1 + 5, "one refusal");
    assert_eq!(virtualize_store::known_region("s3://bucket", &options).as_deref(), Some(HOME));
}

#[test]
fn all_first_requests_follow_the_bucket_to_its_region() {
    const EACH: usize = 16;
    // Every request is sent before any learns the region.
    let all_sent = std::sync::Barrier::new(3 * EACH);
    let server = Server::start(move |request| {
        let response = regional(request);
        if response.status == 301 {
            all_sent.wait();
        }
        response
    });
    let options = &signed(&server, &[]);
    run(async {
        let names = || (0..EACH).map(|n| format!("s3://bucket/{n}.nc"));
        let opened =
            join_all(names().map(|url| async move { open(&url, options).await.map(|file| file.bytes()) }));
        let listed = join_all((0..EACH).map(|_| list_page("s3://bucket/", true, None, options)));
        let written = join_all(names().map(|url| async move { put(&url, options, "b".into()).await }));
        let (opened, listed, written) = futures::join!(opened, listed, written);
        opened.into_iter().for_each(|size| assert_eq!(size, Ok(5)));
        listed.into_iter().for_each(|page| assert_eq!(page.unwrap().files.len(), 1));
        written.into_iter().for_each(|receipt| drop(receipt.unwrap()));
    });
    assert_eq!(server.requests().len(), 3 * EACH * 2, "each request is refused once");
}

#[test]
fn a_key_that_ends_in_416_is_requested_again() {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let server =
        Server::start(move |request| match count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Response::status(503),
            _ => file(request, b"content", "\"one\""),
        });
    assert_eq!(run(open("s3://bucket/tile 416", &s3(&server))).unwrap().bytes(), 7);
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn the_region_is_found_by_listings_and_before_writing() {
    let server = Server::start(regional);
    let options = signed(&server, &[]);
    assert_eq!(run(list_page("s3://bucket/", true, None, &options)).unwrap().files.len(), 1);
    let options = signed(&server, &[]);
    run(put("s3://bucket/b", &options, "b".into())).unwrap();
    run(put("s3://bucket/c", &options, "c".into())).unwrap();
    let methods: Vec<_> = server.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(methods, ["GET", "GET", "HEAD", "PUT", "PUT"]);
}

#[test]
fn a_region_that_someone_set_is_not_changed_but_the_right_one_is_named() {
    let server = Server::start(regional);
    let options = signed(&server, &[("aws_region", "us-west-2")]);
    let errors = [
        run(open("s3://bucket/a.nc", &options)).unwrap_err(),
        run(list_page("s3://bucket/", true, None, &options)).unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().contains("is in region eu-north-1"), "{error}");
        assert!(format!("{:?}", error.remedy()).contains("AWS_REGION"));
    }
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn servers_that_send_to_and_fro_or_to_other_hosts_are_given_up() {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(move |_| {
        let count = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Response {
            headers: vec![("x-amz-bucket-region", format!("region-{count}"))],
            ..Response::status(301)
        }
    });
    assert!(run(open("s3://bucket/a.nc", &s3(&server))).is_err());
    assert!(run(list_page("s3://bucket/", true, None, &s3(&server))).is_err());
    assert_eq!(server.requests().len(), 4);
    let server = Server::start(|_| Response {
        headers: vec![("x-amz-bucket-region", "evil.example/".to_owned())],
        ..Response::status(301)
    });
    let error = run(open("s3://bucket/a.nc", &s3(&server))).unwrap_err();
    assert!(!error.to_string().contains("evil"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

// ---- keys

/// Keys as they appear in a document, and whether they can be read.
const KEYS: [(&str, bool); 14] = [
    ("/lead.nc", false),
    ("a b+c#d?e&amp;f.nc", true),
    ("a%2Fb.nc", true),
    ("a/../b.nc", false),
    ("a/./b.nc", false),
    ("a//b.nc", false),
    ("a/b.nc", true),
    ("a/line&#10;break.nc", false),
    ("folder/", false),
    (" space .nc ", true),
    ("~*[x]{y}|\\^`'\".nc", true),
    ("\u{e9}/\u{65e5}\u{672c}.nc", true),
    ("%41.nc", true),
    ("a\u{301}.nc", true),
];

fn unescaped(key: &str) -> String {
    key.replace("&amp;", "&").replace("&#10;", "\n")
}

fn blob(key: &str) -> String {
    format!(
        "<Blob><Name>{key}</Name><Properties><Last-Modified>Sat, 21 Nov 2026 10:00:00 GMT</Last-Modified>\
         <Content-Length>9</Content-Length><Content-Type/><Etag>one</Etag></Properties></Blob>"
    )
}

/// Lists the readable keys, and serves each under its own path only; the content is the requested path.
fn keyed(request: &Request) -> Response {
    let listing = |outer: (&str, &str), entry: &dyn Fn(&str) -> String| {
        let entries: String =
            KEYS.iter().filter(|(_, is_readable)| *is_readable).map(|(key, _)| entry(key)).collect();
        let body = format!("{}{entries}{}", outer.0, outer.1);
        Response { status: 200, headers: vec![], body: body.into_bytes() }
    };
    if request.target.contains("list-type=2") {
        return listing(("<ListBucketResult>", "</ListBucketResult>"), &|key| {
            format!("<Contents><Key>{key}</Key><Size>9</Size>{MODIFIED}</Contents>")
        });
    }
    if request.target.contains("comp=list") {
        let outer = ("<EnumerationResults><Blobs>", "</Blobs></EnumerationResults>");
        return listing(outer, &|key| blob(key));
    }
    file(request, request.target.as_bytes(), "\"one\"")
}

/// Returns the bytes that a request's path encodes (RFC 3986, section 2.1).
fn decoded(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn keys_are_read_as_they_are_or_refused_by_name() {
    let server = Server::start(keyed);
    for scheme in ["s3", "gs", "az"] {
        let options = of(&server, scheme);
        let bucket = format!("{scheme}://bucket/");
        let page = run(list_page(&bucket, true, None, &options)).unwrap();
        let mut expected: Vec<_> = KEYS
            .iter()
            .filter(|(_, is_readable)| *is_readable)
            .map(|(key, _)| format!("{bucket}{}", unescaped(key)))
            .collect();
        expected.sort();
        assert_eq!(page.files.iter().map(|file| file.url.clone()).collect::<Vec<_>>(), expected);
        for (key, readable) in KEYS {
            let url = format!("{bucket}{}", unescaped(key));
            match run(open(&url, &options)) {
                Ok(object) if readable => {
                    let size = object.bytes();
                    let path = run(object.read_once(virtualize_bytes::ByteRange::new(0, size))).unwrap();
                    let path = decoded(std::str::from_utf8(&path).unwrap());
                    assert_eq!(path, format!("/bucket/{}", unescaped(key)), "{scheme}");
                }
                Err(error @ StoreError::Location { .. }) if !readable => {
                    assert!(error.to_string().contains("the key") || error.to_string().contains("a key"));
                    assert!(!error.to_string().contains('\n'), "{error}");
                    assert_eq!(error.kind(), ReadErrorKind::Invalid);
                }
                other => panic!("{url:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_listing_with_an_unreadable_key_is_refused_by_name() {
    for key in ["a//b.nc", "a/../b.nc", "./b.nc"] {
        let server = Server::start(move |_| listing(&["a.nc", key]));
        let error = run(list_page("s3://bucket/", true, None, &s3(&server))).unwrap_err();
        assert!(matches!(&error, StoreError::Location { .. }), "{error:?}");
        assert!(error.to_string().contains(key), "{error}");
    }
}

#[test]
fn folder_markers_are_not_files() {
    let server = Server::start(|request| match request.target.contains("list-type=2") {
        true => {
            let mut listed = listing(&["empty/", "empty.nc"]);
            listed.body = String::from_utf8(listed.body).unwrap().replace("<Size>5", "<Size>0").into_bytes();
            listed
        }
        false if request.target.ends_with("/empty.nc") => file(request, b"", "\"one\""),
        false => Response::status(404),
    });
    let page = run(list_page("s3://bucket/", true, None, &s3(&server))).unwrap();
    assert_eq!(page.files.iter().map(|file| file.url.as_str()).collect::<Vec<_>>(), ["s3://bucket/empty.nc"]);
}

#[test]
fn what_cannot_be_read_is_not_written_either() {
    let server = Server::start(regional);
    for key in ["a//b.json", "/b.json", "a/../b.json"] {
        let error = run(put(&format!("s3://bucket/{key}"), &signed(&server, &[]), "x".into())).unwrap_err();
        assert!(matches!(error, StoreError::Location { .. }), "{error}");
    }
    assert!(
        run(SideFolder::create("s3://bucket/a//b", false, crate::common::OUTPUTS)
            .unwrap()
            .finish(&s3(&server)))
        .is_err()
    );
    assert!(server.requests().iter().all(|request| request.method == "HEAD"));
}

// ---- listings that break

#[test]
fn a_page_that_breaks_off_is_requested_again() {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(move |_| {
        let mut whole = listing(&["a/b", "c"]);
        if count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            whole.body.truncate(60);
        }
        whole
    });
    let page = run(list_page("s3://bucket/", true, None, &s3(&server))).unwrap();
    assert_eq!((page.files.len(), server.requests().len()), (2, 2));
}

#[test]
fn etags_of_azure_have_no_quotes_in_listings() {
    let server = Server::of_file(b"bytes");
    let listed = |tag: &str| Listed { etag: Some(tag.to_owned()), ..Listed::of("az://bucket/a") };
    assert!(run(open_listed(&listed("one"), &at(&server))).is_ok());
    let error = run(open_listed(&listed("two"), &at(&server))).unwrap_err();
    assert_eq!(error.kind(), ReadErrorKind::Changed);
}

#[test]
fn an_object_that_is_replaced_while_it_is_read_is_noticed_in_each_store() {
    use virtualize_bytes::{ByteRange, ReadRanges};
    for scheme in ["s3", "gs", "az"] {
        let count = std::sync::atomic::AtomicUsize::new(0);
        let server = Server::start(move |request| {
            let first = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
            file(request, crate::common::content(), if first { "\"one\"" } else { "\"two\"" })
        });
        let object = run(open(&format!("{scheme}://bucket/a"), &of(&server, scheme))).unwrap();
        let error = run(object.read_ranges(&[ByteRange::new(900_000, 5)])).unwrap_err();
        assert_eq!(error.kind, ReadErrorKind::Changed, "{scheme}: {error}");
    }
}

#[test]
fn pages_of_azure() {
    let server = Server::start(|request| {
        let (name, marker) = match request.target.contains("marker=m%2F1") {
            true => ("b", "<NextMarker/>"),
            false => ("a", "<NextMarker>m/1</NextMarker>"),
        };
        let blob = blob(name);
        let body = format!("<EnumerationResults><Blobs>{blob}</Blobs>{marker}</EnumerationResults>");
        Response { status: 200, headers: vec![], body: body.into_bytes() }
    });
    run(async {
        let first = list_page("az://bucket/", true, None, &at(&server)).await.unwrap();
        let second = list_page("az://bucket/", true, first.next.as_deref(), &at(&server)).await.unwrap();
        assert_eq!(
            (first.files[0].url.as_str(), second.files[0].url.as_str()),
            ("az://bucket/a", "az://bucket/b")
        );
        assert_eq!(second.next, None);
    });
}

#[test]
fn paths_of_web_servers_are_sent_as_they_are() {
    let server = Server::start(|request| file(request, request.target.as_bytes(), "\"one\""));
    for (path, sent) in [
        ("/a//b.nc", "/a//b.nc"),
        ("//b.nc", "//b.nc"),
        ("/a%2Fb+c.nc?x=%2F&y", "/a%2Fb+c.nc?x=%2F&y"),
        ("/a b/\u{e9}.nc", "/a%20b/%C3%A9.nc"),
        ("/%41/", "/%41/"),
    ] {
        let object = run(open(&format!("{}{path}", server.url), &options())).unwrap();
        let bytes = run(object.read_once(virtualize_bytes::ByteRange::new(0, object.bytes()))).unwrap();
        assert_eq!(std::str::from_utf8(&bytes).unwrap(), sent);
    }
}
