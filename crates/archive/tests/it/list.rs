//! Listings of the local disk, of buckets with and without credentials, of lists and of STAC documents.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::{
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::TryStreamExt;
use hyper_util::rt::TokioIo;
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use virtualize::StoreOptions;
use virtualize_archive::{
    Item,
    list::{Assets, Filter, Input, ListError, ListOptions, Tally, list},
};
use virtualize_store::Access;

async fn listed(
    inputs: Vec<Input>,
    filter: Filter,
    options: &ListOptions,
) -> (Result<Vec<Item>, ListError>, Tally) {
    let mut listing = list(inputs, filter, options.clone()).unwrap();
    let mut items = Vec::new();
    loop {
        match listing.try_next().await {
            Ok(Some(item)) => items.push(item),
            Ok(None) => return (Ok(items), listing.tally().clone()),
            Err(error) => return (Err(error), listing.tally().clone()),
        }
    }
}

/// Returns the URLs of an input without their common prefix.
async fn names(input: &str, start: &str, options: &ListOptions) -> Vec<String> {
    let (items, _) = listed(vec![Input::Files(input.to_owned())], Filter::default(), options).await;
    let short = |item: Item| item.url.strip_prefix(start).unwrap_or(&item.url).to_owned();
    items.unwrap().into_iter().map(short).collect()
}

async fn error(input: Input, options: &ListOptions) -> String {
    listed(vec![input], Filter::default(), options).await.0.unwrap_err().to_string()
}

fn tree(root: &Path, files: &[&str]) {
    for file in files {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"content").unwrap();
    }
}

const TREE: [&str; 7] = [
    "era5/2020/t2m.nc",
    "era5/2020/u10.nc",
    "era5/2021/t2m.nc",
    "era5/2021/x/deep.nc",
    "era5/a b#%20.nc",
    "era5.nc",
    "top.txt",
];

/// Matches of each pattern, for local paths and for keys.
const PATTERNS: &[(&str, &[&str])] = &[
    ("era5/*.nc", &["era5/a b#%20.nc"]),
    ("era5/*/t2m.nc", &["era5/2020/t2m.nc", "era5/2021/t2m.nc"]),
    ("era5/20*/*.nc", &["era5/2020/t2m.nc", "era5/2020/u10.nc", "era5/2021/t2m.nc"]),
    ("era5/**/t2m.nc", &["era5/2020/t2m.nc", "era5/2021/t2m.nc"]),
    (
        "era5/**/*.nc",
        &[
            "era5/2020/t2m.nc",
            "era5/2020/u10.nc",
            "era5/2021/t2m.nc",
            "era5/2021/x/deep.nc",
            "era5/a b#%20.nc",
        ],
    ),
    ("**/deep.nc", &["era5/2021/x/deep.nc"]),
    ("era5/{2020/u10,2021/t2m}.nc", &["era5/2020/u10.nc", "era5/2021/t2m.nc"]),
    ("*/202[02-9]/?10.nc", &["era5/2020/u10.nc"]),
    ("era5*", &["era5.nc"]),
    ("era5/2021/", &["era5/2021/t2m.nc", "era5/2021/x/deep.nc"]),
    ("era5/2021", &["era5/2021/t2m.nc", "era5/2021/x/deep.nc"]),
    ("top.txt", &["top.txt"]),
    ("*/2020/t2m.nc", &["era5/2020/t2m.nc"]),
];

#[tokio::test]
async fn local_files() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    tree(&root, &TREE);
    let start = format!("file://{}/", root.display());
    let options = ListOptions::default();
    for (pattern, expected) in PATTERNS {
        assert_eq!(
            names(&format!("{}/{pattern}", root.display()), &start, &options).await,
            *expected,
            "{pattern}"
        );
    }
    let (items, _) =
        listed(vec![Input::Files(format!("{}/era5/*/t2m.nc", root.display()))], Filter::default(), &options)
            .await;
    assert!(items.unwrap().iter().all(|item| item.size == Some(7) && item.modified.is_some()));
}

#[cfg(unix)]
#[tokio::test]
async fn links_are_followed_but_not_round_in_circles() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    tree(&root, &["a/x.nc", "a[1].nc"]);
    symlink("x.nc", root.join("a/link.nc")).unwrap();
    symlink(&root, root.join("a/up")).unwrap();
    symlink("a", root.join("latest")).unwrap();
    symlink("nowhere", root.join("a/dangling.nc")).unwrap();
    let start = format!("file://{}/", root.display());
    let options = ListOptions::default();
    let under = async |pattern: &str| names(&format!("{}/{pattern}", root.display()), &start, &options).await;
    assert_eq!(under("**/*.nc").await, ["a/dangling.nc", "a/link.nc", "a/x.nc", "a[1].nc"]);
    assert_eq!(under("latest/x*").await, ["latest/x.nc"], "a link that is named is followed");
    assert_eq!(under("l*t/x.nc").await, ["latest/x.nc"]);
    assert_eq!(under("a[1].nc").await, ["a[1].nc"], "a file that is there is itself");
}

#[tokio::test]
async fn nothing_found_says_what_is_near() {
    let folder = tempfile::tempdir().unwrap();
    tree(folder.path(), &TREE);
    let (root, options) = (folder.path().canonicalize().unwrap(), ListOptions::default());
    let root = root.display();
    let missed = async |pattern: &str| error(Input::Files(format!("{root}/{pattern}")), &options).await;
    let text = missed("era5/*.tif").await;
    assert!(
        text.contains("/era5/*.tif") && text.contains("/era5/2020/, ") && text.contains("/era5/2021/, "),
        "{text}"
    );
    let text = missed("era6/x/*.nc").await;
    assert!(text.contains("/era5.nc, ") && text.contains("/era5/"), "{text}");
    let text = missed("era5/2020/t2n.nc").await;
    assert!(text.contains("/era5/2020/t2m.nc"), "{text}");
    assert!(error(Input::List("no/such/list".to_owned()), &options).await.contains("not found"));
}

#[tokio::test]
async fn filters_and_duplicates() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    tree(&root, &TREE);
    let root = root.display();
    let inputs = || vec![Input::Files(format!("{root}/**")), Input::Files(format!("{root}/era5/20*/*.nc"))];
    let options = ListOptions::default();
    let (items, tally) = listed(inputs(), Filter::named("t2m.nc"), &options).await;
    assert_eq!(items.unwrap().len(), 2);
    assert_eq!((tally.listed, tally.filtered, tally.duplicates.count), (2, 6, 2));
    assert!(tally.notes()[0].contains("2 files are listed more than once"), "{:?}", tally.notes());
    let text = listed(inputs(), Filter::named("*.h5"), &options).await.0.unwrap_err().to_string();
    assert!(text.contains("10 do not match \"*.h5\""), "{text}");
    for (pattern, count) in [("t2m.*", 2), ("2020/*.nc", 2), ("*/2020/t2m.nc", 1), ("**/x/*", 1)] {
        let (items, _) = listed(inputs(), Filter::named(pattern), &options).await;
        assert_eq!(items.map(|items| items.len()), Ok(count), "{pattern}");
    }
    for pattern in ["T2M.nc", "020/*.nc", "era5/*.tif"] {
        assert!(listed(inputs(), Filter::named(pattern), &options).await.0.is_err(), "{pattern}");
    }
    let error = list(inputs(), Filter::named("[a"), options.clone()).err().unwrap();
    assert!(format!("{:?}", error.remedy()).contains("[*]"));
}

const KEY: &str = "AKEXAMPLE";
const SECRET: &str = "not-a-secret";

/// Serves the folders under `root` as buckets, and counts the listing requests.
async fn serve(root: &Path, signed: bool) -> (ListOptions, Arc<AtomicUsize>) {
    let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root).unwrap());
    if signed {
        builder.set_auth(SimpleAuth::from_single(KEY, SECRET));
    }
    let service = builder.build();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Some(format!("http://{}", listener.local_addr().unwrap()));
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (service, counted) = (service.clone(), counted.clone());
            tokio::spawn(async move {
                let server = hyper::server::conn::http1::Builder::new();
                let service = Counted { service, counted };
                server.serve_connection(TokioIo::new(socket), service).await.map_err(drop)
            });
        }
    });
    let values = [("aws_access_key_id", KEY), ("aws_secret_access_key", SECRET), ("AWS_REGION", "us-east-1")];
    let values = values.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    let values = if signed { values } else { Vec::new() };
    let access = Access { values, anonymous: !signed, endpoint, ..Access::default() };
    let store = StoreOptions { access, retries: 1, ..StoreOptions::default() };
    (ListOptions { store, ..ListOptions::default() }, count)
}

#[derive(Clone)]
struct Counted<S> {
    service: S,
    counted: Arc<AtomicUsize>,
}

impl<R, S: hyper::service::Service<R>> hyper::service::Service<R> for Counted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, request: R) -> Self::Future {
        self.counted.fetch_add(1, Ordering::SeqCst);
        self.service.call(request)
    }
}

#[tokio::test]
async fn keys_with_and_without_credentials() {
    for signed in [true, false] {
        let root = tempfile::tempdir().unwrap();
        tree(&root.path().join("bucket"), &TREE);
        let (options, _) = serve(root.path(), signed).await;
        for (pattern, expected) in PATTERNS {
            let pattern = format!("s3://bucket/{pattern}");
            assert_eq!(names(&pattern, "s3://bucket/", &options).await, *expected, "{pattern}");
        }
        assert_eq!(names("s3://bucket", "s3://bucket/", &options).await.len(), 7);
        let (items, _) =
            listed(vec![Input::Files("s3://bucket/era5/**".to_owned())], Filter::default(), &options).await;
        let item = &items.unwrap()[0];
        assert!(item.size == Some(7) && item.modified.is_some(), "{item:?}");
        let object = item.open(&options.store).await.unwrap();
        assert_eq!((object.url(), object.stats().requests), (item.url.as_str(), 1));
        let text = error(Input::Files("s3://bucket/era6/*.nc".to_owned()), &options).await;
        assert!(text.contains("s3://bucket/era5.nc, s3://bucket/era5/"), "{text}");
        if signed {
            let mut wrong = options.clone();
            wrong.store.access.anonymous = true;
            let text = error(Input::Files("s3://bucket/*.nc".to_owned()), &wrong).await;
            assert!(text.contains("access denied"), "{text}");
        }
    }
}

#[tokio::test]
async fn many_pages() {
    let root = tempfile::tempdir().unwrap();
    let bucket = root.path().join("bucket");
    let keys: Vec<_> = (0..2_500).map(|n| format!("d{:02}/{:02}/f{n:04}.nc", n % 25, n / 25 % 10)).collect();
    let mut sorted: Vec<_> = keys.iter().map(String::as_str).collect();
    tree(&bucket, &sorted);
    sorted.sort_unstable();
    let (options, count) = serve(root.path(), false).await;
    let requests = || count.swap(0, Ordering::SeqCst);
    assert_eq!(names("s3://bucket/**/*.nc", "s3://bucket/", &options).await, sorted);
    assert_eq!(requests(), 3, "pages of a thousand keys");
    assert_eq!(names("s3://bucket/*/*/*.nc", "s3://bucket/", &options).await, sorted);
    assert_eq!(requests(), 3, "most match: all keys are listed");
    let of = |start: &str, middle: &str| -> Vec<_> {
        sorted.iter().copied().filter(|key| key.starts_with(start) && key.contains(middle)).collect()
    };
    assert_eq!(names("s3://bucket/d1*/07/*.nc", "s3://bucket/", &options).await, of("d1", "/07/"));
    assert_eq!(requests(), 1, "one page has them all");
    assert_eq!(names("s3://bucket/*/07/*.nc", "s3://bucket/", &options).await, of("", "/07/"));
    assert!([3, 27].contains(&requests()));
    assert_eq!(names("s3://bucket/*/07/f01*.nc", "s3://bucket/", &options).await, of("", "/07/f01"));
    assert_eq!(requests(), 27, "few match: a page, the folders, and one request a folder");
}

#[tokio::test]
async fn lists_of_files() {
    let root = tempfile::tempdir().unwrap();
    tree(&root.path().join("bucket"), &["x/a.nc", "x/b.nc"]);
    let text = "# files\nb.nc\n\ns3://bucket/x/a.nc\n{\"url\": \"b.nc\"}\n";
    fs::write(root.path().join("bucket/x/list.txt"), text).unwrap();
    let (options, _) = serve(root.path(), false).await;
    let (items, tally) =
        listed(vec![Input::List("s3://bucket/x/list.txt".to_owned())], Filter::default(), &options).await;
    let urls: Vec<_> = items.unwrap().into_iter().map(|item| item.url).collect();
    assert_eq!(urls, ["s3://bucket/x/b.nc", "s3://bucket/x/a.nc"]);
    assert_eq!(tally.duplicates.first, ["s3://bucket/x/b.nc"]);
    let local = root.path().join("list.txt");
    fs::write(&local, "/data/a.nc\nftp://x/a.nc\n").unwrap();
    let text = error(Input::List(local.display().to_string()), &ListOptions::default()).await;
    assert!(text.contains("list.txt, line 2: "), "{text}");
    fs::write(&local, "# none\n").unwrap();
    assert!(
        error(Input::List(local.display().to_string()), &ListOptions::default())
            .await
            .contains("lists no files")
    );
}

fn stac(name: &str) -> Input {
    Input::Stac(format!("{}/tests/list/stac/{name}", env!("CARGO_MANIFEST_DIR")))
}

fn short(items: Vec<Item>) -> Vec<String> {
    let here = format!("file://{}/tests/list/stac/", env!("CARGO_MANIFEST_DIR"));
    items.into_iter().map(|item| item.url.replace(&here, "")).collect()
}

fn keys(keys: &[&str]) -> ListOptions {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    ListOptions { assets: Assets { keys, ..Assets::default() }, ..ListOptions::default() }
}

#[tokio::test]
async fn a_stac_item() {
    let (items, _) = listed(vec![stac("s2/item_1.json")], Filter::default(), &keys(&["B04"])).await;
    let items = items.unwrap();
    assert_eq!(items[0].size, Some(123_456), "file:size");
    assert_eq!(items[0].properties["datetime"], "2024-01-03T10:20:30Z");
    assert_eq!(
        (items[0].properties["id"].as_str(), items[0].properties["asset"].as_str()),
        (Some("item_1"), Some("B04"))
    );
    assert_eq!(short(items), ["s2/item_1/B04.tif"]);
    let text = error(stac("s2/item_1.json"), &ListOptions::default()).await;
    assert!(text.contains("several assets: B04, B08"), "{text}");
    let text = error(stac("s2/item_1.json"), &keys(&["B99"])).await;
    assert!(text.contains("1 STAC items have no selected asset"), "{text}");
    let (items, _) = listed(vec![stac("s2/item_1.json")], Filter::default(), &keys(&["B04", "B08"])).await;
    assert_eq!(short(items.unwrap()), ["s2/item_1/B04.tif", "s3://example/B08.tif"]);
}

#[tokio::test]
async fn a_stac_catalogue_with_a_circle() {
    let (items, tally) = listed(vec![stac("catalog.json")], Filter::default(), &keys(&["B04", "nc"])).await;
    assert_eq!(short(items.unwrap()), ["s2/item_1/B04.tif", "s2/item_2.tif", "nc/a.nc"]);
    assert_eq!(tally.without_asset.first, ["item_3 (which has B08)"]);
    assert!(tally.notes()[0].contains("1 STAC items have none of the selected assets, such as item_3"));
}

/// Serves pages in the style of a STAC API: chunked, without lengths or ranges.
async fn api() -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut busy = true;
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let count = socket.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..count]).into_owned();
            let page: usize = request.split_once("page=").map_or(1, |(_, rest)| rest[..1].parse().unwrap());
            let next = match page {
                1 | 2 => format!(r#"{{"rel": "next", "href": "items?page={}", "method": "GET"}}"#, page + 1),
                _ => r#"{"rel": "next", "href": "items?page=1"}"#.to_owned(),
            };
            let item = format!(
                r#"{{"type": "Feature", "id": "{page}", "properties": {{}}, "assets": {{"data": {{"href": "../f{page}.nc"}}}}}}"#
            );
            let body = format!(r#"{{"type": "FeatureCollection", "features": [{item}], "links": [{next}]}}"#);
            let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
            let answer = match std::mem::take(&mut busy) {
                true => "HTTP/1.1 503 x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_owned(),
                false => format!(
                    "HTTP/1.1 200 x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}"
                ),
            };
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    url
}

#[tokio::test]
async fn pages_of_a_stac_api() {
    let url = api().await;
    let options = ListOptions::default();
    let (items, _) =
        listed(vec![Input::Stac(format!("{url}/c/items?page=1"))], Filter::default(), &options).await;
    let urls: Vec<_> = items.unwrap().into_iter().map(|item| item.url).collect();
    assert_eq!(urls, [1, 2, 3].map(|n| format!("{url}/f{n}.nc")));
}

/// Serves a search that is paged with POST (STAC API 1.0, item search, paging), and records the body of each request.
async fn search(links: &'static [&'static str]) -> (String, Arc<Mutex<Vec<String>>>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (noted, own) = (seen.clone(), url.clone());
    tokio::spawn(async move {
        let mut page = 0;
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.windows(4).any(|end| end == b"\r\n\r\n") || !is_whole(&request) {
                if socket.read_buf(&mut request).await.unwrap() == 0 {
                    break;
                }
            }
            let text = String::from_utf8(request).unwrap();
            let method = text.split(' ').next().unwrap();
            noted.lock().unwrap().push(format!("{method} {}", text.split_once("\r\n\r\n").unwrap().1));
            let link = links.get(page).copied().unwrap_or_default();
            page += 1;
            let other = r#""alternate": {"s3": {"href": "s3://b/f.nc"}}"#;
            let own = format!(r#"{{"rel": "self", "href": "{own}/items/{page}/item.json"}}"#);
            let item = format!(
                r#"{{"type": "Feature", "id": "{page}", "links": [{own}], "assets": {{"data": {{"href": "./f.nc", {other}}}}}}}"#
            );
            let body = format!(r#"{{"type": "FeatureCollection", "features": [{item}], "links": [{link}]}}"#);
            let head =
                format!("HTTP/1.1 200 x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            socket.write_all((head + &body).as_bytes()).await.unwrap();
        }
    });
    (url, seen)
}

/// Returns whether the request's body is complete, judging by its head.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

#[tokio::test]
async fn pages_of_a_search_by_post() {
    let (url, seen) = search(&[
        r#"{"rel": "next", "method": "POST", "href": "search", "body": {"token": "2", "limit": 1}}"#,
        r#"{"rel": "next", "method": "post", "href": "search", "body": {"token": "3"}, "merge": true}"#,
        r#"{"rel": "next", "method": "POST", "href": "search", "body": {"token": "4"}, "merge": false}"#,
        // The same request as before: a cycle.
        r#"{"rel": "next", "method": "POST", "href": "search", "body": {"token": "4"}}"#,
    ])
    .await;
    let input = Input::Stac(format!("{url}/search?limit=1"));
    let (items, _) = listed(vec![input], Filter::default(), &ListOptions::default()).await;
    let urls: Vec<_> = items.unwrap().into_iter().map(|item| item.url).collect();
    assert_eq!(urls, [1, 2, 3, 4].map(|n| format!("{url}/items/{n}/f.nc")), "relative to each item");
    let expected = [
        "GET ",
        r#"POST {"limit":1,"token":"2"}"#,
        r#"POST {"limit":1,"token":"3"}"#,
        r#"POST {"token":"4"}"#,
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test]
async fn alternate_places_of_assets() {
    let (url, _) = search(&[]).await;
    let at = |name: &str| {
        let assets = Assets { alternate: Some(name.to_owned()), ..Assets::default() };
        ListOptions { assets, ..ListOptions::default() }
    };
    let (items, _) = listed(vec![Input::Stac(url.clone())], Filter::default(), &at("s3")).await;
    assert_eq!(items.unwrap()[0].url, "s3://b/f.nc");
    let text = error(Input::Stac(url), &at("gs")).await;
    assert!(text.contains("asset data: no alternate \"gs\"; existing alternates: s3"), "{text}");
}

#[tokio::test]
async fn an_item_of_a_remote_search_names_no_local_file() {
    let (url, _) =
        search(&[r#"{"rel": "next", "method": "POST", "href": "file:///etc/x.json", "body": {}}"#]).await;
    let text = error(Input::Stac(url), &ListOptions::default()).await;
    assert!(text.contains("is a local file"), "{text}");
}

#[tokio::test]
async fn other_documents_than_stac_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    for (text, expected) in [
        ("[]", "type is none"),
        ("{\"type\": \"Point\"}", "type is \"Point\""),
        ("{", "invalid JSON"),
        ("{\"type\": \"Feature\", \"id\": \"x\"}", "item x: no assets"),
        ("{\"type\": \"FeatureCollection\"}", "without features"),
        (
            "{\"type\": \"FeatureCollection\", \"features\": [], \"links\": [{\"rel\": \"next\", \"method\": \"POST\", \"href\": \"b\"}]}",
            "POST, which only web servers support",
        ),
        (
            "{\"type\": \"FeatureCollection\", \"features\": [], \"links\": [{\"rel\": \"next\", \"method\": \"PUT\", \"href\": \"b\"}]}",
            "method \"PUT\"",
        ),
        ("{\"type\": \"Catalog\", \"links\": []}", "lists no files"),
    ] {
        fs::write(&path, text).unwrap();
        let found = error(Input::Stac(path.display().to_string()), &ListOptions::default()).await;
        assert!(found.contains(expected), "{found}");
    }
}
