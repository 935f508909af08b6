//! Jobs of the service, without a socket.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use std::{fs, path::Path, time::Duration};

use axum::Router;
use common::{Answer, fixtures, get, metric, post, send, service, url};
use serde_json::{Value, json};
use tempfile::TempDir;
use virtualize_server::Settings;

/// A folder with copies of a file, and settings that allow reading it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new(copies: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("data")).unwrap();
        fs::create_dir_all(folder.path().join("out")).unwrap();
        for at in 0..copies {
            let copy = folder.path().join(format!("data/r{at}.nc"));
            fs::copy(fixtures().join("hdf5/netcdf4.nc"), copy).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn url(&self, name: &str) -> String {
        format!("file://{}", self.path(name).display())
    }

    fn settings(&self) -> Settings {
        Settings {
            allow: vec![self.url("data"), url("hdf5")],
            allow_write: vec![self.url("out")],
            jobs: Some(self.path("jobs")),
            ..Settings::default()
        }
    }

    fn batch(&self, more: &Value) -> Value {
        let mut body = json!({"kind": "batch", "inputs": [self.url("data/*.nc")], "stack_dim": ["member"]});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    }
}

/// Waits until the job has ended, and returns it.
async fn ended(service: &Router, id: &str) -> Value {
    for _ in 0..600 {
        let job = get(service, &format!("/v1/jobs/{id}")).await.json();
        if ["done", "failed", "cancelled"].contains(&job["state"].as_str().unwrap()) {
            return job;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the job does not end");
}

async fn submitted(service: &Router, body: &Value) -> String {
    let answer = post(service, "/v1/jobs", body).await;
    assert_eq!(answer.status, 202, "{}", String::from_utf8_lossy(&answer.body));
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("location"), format!("/v1/jobs/{id}"));
    id
}

fn events(answer: &Answer) -> Vec<(String, u64, Value)> {
    assert_eq!(answer.header("content-type"), "text/event-stream");
    let text = String::from_utf8(answer.body.clone()).unwrap();
    let blocks = text.split("\n\n").filter(|block| block.contains("data: "));
    let field = |block: &str, name: &str| {
        block.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
    };
    let event = |block: &str| {
        let data = serde_json::from_str(&field(block, "data:")).unwrap();
        (field(block, "event:"), field(block, "id:").parse().unwrap(), data)
    };
    blocks.map(event).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_gives_references() {
    let place = Place::new(3);
    let service = service(&place.settings());
    let id = submitted(&service, &place.batch(&json!({}))).await;
    let told = events(&get(&service, &format!("/v1/jobs/{id}/events")).await);
    let (name, last, job) = told.last().unwrap().clone();
    assert_eq!((name.as_str(), &job["state"]), ("done", &"done".into()), "{job}");
    assert_eq!(job["progress"], json!({"listed": 3, "read": 3, "failed": 0, "total": 3}));
    assert!(told.windows(2).all(|pair| pair[0].1 < pair[1].1));
    let target = format!("/v1/jobs/{id}/events");
    let again = events(&send(&service, "GET", &target, &[("last-event-id", &last.to_string())]).await);
    assert_eq!((again.len(), again[0].0.as_str()), (1, "done"), "what is over says so again, and ends");
    let result = get(&service, job["result"]["links"]["result"].as_str().unwrap()).await;
    let references = result.json();
    assert_eq!(references["version"], 1);
    let urls: std::collections::BTreeSet<_> = references["refs"]
        .as_object()
        .unwrap()
        .values()
        .filter_map(|reference| reference.get(0)?.as_str())
        .collect();
    assert_eq!(urls.len(), 3);
    let etag = result.header("etag").to_owned();
    let target = format!("/v1/jobs/{id}/result");
    assert_eq!(send(&service, "GET", &target, &[("if-none-match", &etag)]).await.status, 304);
    let part = send(&service, "GET", &target, &[("range", "bytes=1-9")]).await;
    assert_eq!((part.status.as_u16(), part.body.as_slice()), (206, &result.body[1..10]));
    assert_eq!(get(&service, &format!("/v1/jobs/{id}/result/zarr.json")).await.problem().0, 404);
    assert!(!get(&service, "/v1/jobs").await.body.is_empty());
    assert_eq!(metric(&service, "virtualize_jobs{state=\"done\"}").await, 1.0);
    assert_eq!(send(&service, "DELETE", &format!("/v1/jobs/{id}"), &[]).await.status, 204);
    assert_eq!(get(&service, &format!("/v1/jobs/{id}")).await.problem().0, 404);
    assert!(!place.path(&format!("jobs/{id}")).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_are_served_by_their_files() {
    let place = Place::new(2);
    let service = service(&place.settings());
    for (format, file) in [("zarr3", "zarr.json"), ("kerchunk-parquet", ".zmetadata")] {
        let id = submitted(&service, &place.batch(&json!({"format": format}))).await;
        let job = ended(&service, &id).await;
        assert_eq!(job["state"], "done", "{job}");
        let index = get(&service, &format!("/v1/jobs/{id}/result")).await.json();
        let names: Vec<_> =
            index["files"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
        assert!(names.contains(&file), "{names:?}");
        for name in &names {
            let answer = get(&service, &format!("/v1/jobs/{id}/result/{name}")).await;
            let kept = fs::read(place.path(&format!("jobs/{id}/result/{name}"))).unwrap();
            assert_eq!((answer.status.as_u16(), &answer.body), (200, &kept), "{name}");
        }
        for name in ["../job.json", "%2e%2e/job.json", "..%2fjob.json", "nothing", "%00", "%ff", "a//b"] {
            let answer = get(&service, &format!("/v1/jobs/{id}/result/{name}")).await;
            assert_eq!(answer.problem().0, 404, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_gives_its_report() {
    let place = Place::new(2);
    fs::write(place.path("data/broken.nc"), b"no file of ours, but long enough to be looked at").unwrap();
    let service = service(&place.settings());
    let body = json!({"kind": "scan", "inputs": [place.url("data/")], "stack_dim": ["member"]});
    let id = submitted(&service, &body).await;
    let job = ended(&service, &id).await;
    assert_eq!(job["progress"], json!({"listed": 3, "read": 2, "failed": 1, "total": 3}), "{job}");
    let report = get(&service, &format!("/v1/jobs/{id}/result")).await.json();
    assert_eq!((report["files"].as_u64(), report["eras"].as_array().unwrap().len()), (Some(2), 1));
    assert!(report["failed"][0]["url"].as_str().unwrap().ends_with("broken.nc"));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_allowed_is_read_and_written() {
    let place = Place::new(1);
    fs::write(place.path("secret.nc"), b"x").unwrap();
    fs::write(place.path("data/list.txt"), format!("{}\n", place.url("secret.nc"))).unwrap();
    std::os::unix::fs::symlink(place.path("."), place.path("data/link")).unwrap();
    std::os::unix::fs::symlink(place.path("."), place.path("out/link")).unwrap();
    std::os::unix::fs::symlink(place.path("elsewhere"), place.path("out/place.json")).unwrap();
    let service = service(&place.settings());
    let refused = |more: Value| {
        let (service, body) = (service.clone(), place.batch(&more));
        async move { post(&service, "/v1/jobs", &body).await.problem() }
    };
    for input in ["-", "/etc/passwd", "*", "../x.nc", "file:///etc/hosts/../../x", "https://me:x@h/a"] {
        let (status, code) = refused(json!({"inputs": [input]})).await;
        assert!(status == 400 && code == "url" || status == 403, "{input}: {status} {code}");
    }
    for input in
        ["file:///etc/", "file:///etc/*", "file:///etc/passwd", "s3://bucket/x", "http://127.0.0.1/x"]
    {
        assert_eq!(refused(json!({"inputs": [input]})).await.0, 403, "{input}");
        assert_eq!(refused(json!({"lists": [input]})).await.0 / 100, 4, "{input}");
        assert_eq!(refused(json!({"stac": [input]})).await.0 / 100, 4, "{input}");
    }
    for output in
        ["secret.json", "data/x.json", "out/link/x.json", "out/place.json", "out/../x.json", "outer/x"]
    {
        let (status, _) = refused(json!({"output": place.url(output)})).await;
        assert!(matches!(status, 400 | 403), "{output}: {status}");
    }
    assert_eq!(refused(json!({"output": "s3://bucket/x.json"})).await, (403, "not-allowed".to_owned()));
    assert!(!place.path("elsewhere").exists());
    // Errors that occur only while the job runs.
    for more in [
        json!({"inputs": [place.url("data/link/")]}),
        json!({"inputs": [place.url("data/link/secret.nc")]}),
        json!({"inputs": [], "lists": [place.url("data/list.txt")]}),
    ] {
        let id = submitted(&service, &place.batch(&more)).await;
        let job = ended(&service, &id).await;
        assert_eq!(job["state"], "failed", "{job}");
    }
    let target = place.url("out/all.json");
    let id = submitted(&service, &place.batch(&json!({"output": target}))).await;
    let job = ended(&service, &id).await;
    assert_eq!(job["result"]["links"]["output"], target, "{job}");
    assert!(place.path("out/all.json").exists());
    assert_eq!(get(&service, &format!("/v1/jobs/{id}/result")).await.problem().0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_make_no_sense_are_refused() {
    let place = Place::new(1);
    let service = service(&place.settings());
    let input = place.url("data/r0.nc");
    for body in [
        json!(null),
        json!([]),
        json!({}),
        json!({"kind": "delete", "inputs": [input], "concat_dim": ["time"]}),
        json!({"kind": "batch", "inputs": [], "concat_dim": ["time"]}),
        json!({"kind": "batch", "inputs": {"url": input}, "concat_dim": ["time"]}),
        json!({"kind": "batch", "inputs": [input]}),
        json!({"kind": "batch", "inputs": [input], "concat_dim": ["time"], "each": true}),
        json!({"kind": "batch", "inputs": [input], "concat_dim": ["time"], "format": "netcdf"}),
        json!({"kind": "batch", "inputs": [input], "concat_dim": ["time"], "url": "x"}),
        json!({"kind": "batch", "inputs": [input], "concat_dim": ["time"], "strict": "maybe"}),
        json!({"kind": "batch", "inputs": [input], "concat_dim": ["time"], "unpack": true}),
        json!({"kind": "batch", "inputs": [input], "concat_dim": ["time"], "on_mismatch": "merge"}),
        json!({"kind": "batch", "inputs": [input], "concat_dim": [""]}),
        json!({"kind": "batch", "inputs": [input], "stack_dim": ["a"], "coord_from_name": "((("}),
        json!({"kind": "batch", "inputs": [input], "stack_dim": ["a"], "copy_limit": -1}),
        json!({"kind": "scan", "inputs": [input], "output": place.url("out/x.json")}),
        json!({"kind": "scan", "inputs": ["x".repeat(9000)]}),
    ] {
        assert_eq!(post(&service, "/v1/jobs", &body).await.problem().0, 400, "{body}");
    }
    let plain = send(&service, "POST", "/v1/jobs", &[("content-type", "text/plain")]).await;
    assert_eq!(plain.problem(), (415, "content-type".to_owned()));
    let long = json!({"kind": "scan", "inputs": ["x".repeat(2 << 20)]});
    assert_eq!(post(&service, "/v1/jobs", &long).await.problem(), (413, "size".to_owned()));
    for target in ["/v1/jobs?limit=0", "/v1/jobs?limit=x", "/v1/jobs?x=1"] {
        assert_eq!(get(&service, target).await.problem().0, 400, "{target}");
    }
    for target in
        ["/v1/jobs/x", "/v1/jobs/%ff", "/v1/jobs/../events", "/v1/jobs/x/events", "/v1/jobs/x/result"]
    {
        assert_eq!(get(&service, target).await.problem().0, 404, "{target}");
    }
    assert_eq!(send(&service, "DELETE", "/v1/jobs/x", &[]).await.problem().0, 404);
    assert_eq!(get(&service, "/v1/jobs").await.json(), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_cancelled_limited_and_listed_by_page() {
    let place = Place::new(5);
    let settings =
        Settings { jobs_running: Some(1), jobs_queued: Some(2), client_jobs: Some(2), ..place.settings() };
    let held = service(&settings);
    let mut accepted = Vec::new();
    let mut refused = 0;
    for _ in 0..30 {
        let answer = post(&held, "/v1/jobs", &place.batch(&json!({"format": "zarr3"}))).await;
        match answer.status.as_u16() {
            202 => accepted.push(answer.json()["id"].as_str().unwrap().to_owned()),
            _ => {
                assert_eq!(answer.problem(), (429, "jobs".to_owned()));
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
    let last = accepted.last().unwrap();
    let answer = send(&held, "DELETE", &format!("/v1/jobs/{last}"), &[]).await;
    assert!(matches!(answer.status.as_u16(), 202 | 204));
    for id in &accepted {
        if get(&held, &format!("/v1/jobs/{id}")).await.status == 200 {
            let state = ended(&held, id).await["state"].clone();
            assert!(state == "done" || state == "cancelled", "{state}");
        }
    }
    let all = get(&held, "/v1/jobs").await.json();
    let page = get(&held, "/v1/jobs?limit=1").await;
    assert_eq!(page.json()[0], all[0]);
    let next = page.header("link").split(['<', '>']).nth(1).unwrap().to_owned();
    assert_eq!(get(&held, &next).await.json()[0], all[1]);
    drop(held);
    let few = Settings { jobs_files: Some(3), jobs: Some(place.path("few")), ..place.settings() };
    let few = service(&few);
    for kind in ["batch", "scan"] {
        let id = submitted(&few, &place.batch(&json!({"kind": kind}))).await;
        assert_eq!(ended(&few, &id).await["error"]["code"], "limit");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_see_their_own_jobs() {
    let place = Place::new(1);
    let tokens = place.path("tokens");
    let text = format!(
        "aaaaaaaaaaaaaaaaaaaa jobs,read {0}\nbbbbbbbbbbbbbbbbbbbb jobs {0}\ncccccccccccccccccccc jobs\ndddddddddddddddddddd read\neeeeeeeeeeeeeeeeeeee admin\n",
        place.url("data")
    );
    fs::write(&tokens, text).unwrap();
    let service = service(&Settings { token_file: Some(tokens), ..place.settings() });
    let list = async |letter: &str| {
        let token = format!("Bearer {}", letter.repeat(20));
        send(&service, "GET", "/v1/jobs", &[("authorization", &token)]).await
    };
    assert_eq!(list("d").await.problem(), (403, "scope".to_owned()));
    assert_eq!(get(&service, "/v1/jobs").await.problem().0, 401);
    let request = axum::http::Request::builder().method("POST").uri("/v1/jobs").header("host", "localhost");
    let request = request
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {}", "a".repeat(20)))
        .body(axum::body::Body::from(place.batch(&json!({})).to_string()))
        .unwrap();
    let answer = tower::ServiceExt::oneshot(service.clone(), request).await.unwrap();
    assert_eq!(answer.status(), 202);
    let count = async |letter| list(letter).await.json().as_array().unwrap().len();
    let counts = [count("a").await, count("b").await, count("c").await, count("e").await];
    assert_eq!(counts, [1, 0, 0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_go_on_after_a_restart() {
    let place = Place::new(3);
    let id = {
        let service = service(&place.settings());
        let id = submitted(&service, &place.batch(&json!({}))).await;
        ended(&service, &id).await;
        id
    };
    let record = place.path(&format!("jobs/{id}/job.json"));
    let undisturbed = fs::read(place.path(&format!("jobs/{id}/result.json"))).unwrap();
    // The state that a killed process leaves behind.
    let text = fs::read_to_string(&record).unwrap();
    let text = text.replace("\"state\":\"done\"", "\"state\":\"running\"");
    assert!(text.contains("running"));
    fs::write(&record, text).unwrap();
    fs::remove_file(place.path(&format!("jobs/{id}/result.json"))).unwrap();
    fs::create_dir(place.path("jobs/.0123456789abcdef")).unwrap();
    fs::create_dir(place.path("jobs/.snapshots")).unwrap();
    fs::create_dir(place.path("jobs/no-job")).unwrap();
    let service = service(&place.settings());
    let job = ended(&service, &id).await;
    assert_eq!(job["state"], "done", "{job}");
    assert_eq!(fs::read(place.path(&format!("jobs/{id}/result.json"))).unwrap(), undisturbed);
    assert!(!Path::new(&place.path("jobs/.0123456789abcdef")).exists(), "a job that was half removed");
    assert!(Path::new(&place.path("jobs/.snapshots")).exists(), "a folder of others");
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_share_their_jobs() {
    let place = Place::new(3);
    let held = Settings { jobs_running: Some(1), client_jobs: Some(3), ..place.settings() };
    let (one, other) = (service(&held), service(&held));
    let output = json!({"output": place.url("out/same.json"), "overwrite": true});
    let mut ids = Vec::new();
    for service in [&one, &other, &one] {
        ids.push(submitted(service, &place.batch(&output)).await);
    }
    for (id, service) in ids.iter().zip([&other, &one, &other]) {
        let told = events(&get(service, &format!("/v1/jobs/{id}/events")).await);
        assert_eq!(told.last().unwrap().2["state"], "done");
        assert!(told.windows(2).all(|pair| pair[0].1 < pair[1].1));
    }
    let list = async |service| get(service, "/v1/jobs").await.json();
    assert_eq!(list(&one).await, list(&other).await);
    assert_eq!(list(&one).await.as_array().unwrap().len(), 3);
    let target = format!("/v1/jobs/{}", ids[0]);
    assert_eq!(send(&other, "DELETE", &target, &[]).await.status, 204);
    assert_eq!(get(&one, &target).await.problem().0, 404);
    assert_eq!(list(&one).await.as_array().unwrap().len(), 2);
}

/// Submits a job with an idempotency key, and returns status and body.
async fn keyed(service: &Router, key: &str, body: &Value) -> (u16, Value) {
    let request = axum::http::Request::builder().method("POST").uri("/v1/jobs").header("host", "localhost");
    let request = request.header("content-type", "application/json").header("idempotency-key", key);
    let request = request.body(axum::body::Body::from(body.to_string())).unwrap();
    let answer = tower::ServiceExt::oneshot(service.clone(), request).await.unwrap();
    let status = answer.status().as_u16();
    let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_makes_one_job() {
    let place = Place::new(2);
    let (one, other) = (service(&place.settings()), service(&place.settings()));
    let body = place.batch(&json!({}));
    let first = keyed(&one, "\"k-1\"", &body).await;
    assert_eq!(first.0, 202);
    let id = first.1["id"].as_str().unwrap().to_owned();
    assert_eq!(keyed(&other, "k-1", &body).await, first);
    ended(&one, &id).await;
    let restarted = service(&place.settings());
    assert_eq!(keyed(&restarted, "\"k-1\"", &body).await, first);
    let changed = keyed(&other, "k-1", &place.batch(&json!({"format": "zarr3"}))).await;
    assert_eq!((changed.0, &changed.1["code"]), (422, &"idempotency-key".into()));
    assert_ne!(keyed(&other, "k-2", &body).await.1["id"], first.1["id"]);
    // The key outlives the job.
    assert_eq!(send(&other, "DELETE", &format!("/v1/jobs/{id}"), &[]).await.status, 204);
    assert_eq!(keyed(&one, "k-1", &body).await, first);
    assert_eq!(keyed(&one, "", &body).await.0, 400);
    assert_eq!(get(&one, "/v1/jobs").await.json().as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_filtered_by_page() {
    let place = Place::new(1);
    let service = service(&Settings { client_jobs: Some(50), ..place.settings() });
    let mut ids = Vec::new();
    for at in 0..6 {
        let labels = json!({"project": if at % 2 == 0 { "a" } else { "b c:d+e" }, "at": at.to_string()});
        let kind = if at < 3 { "scan" } else { "batch" };
        ids.push(submitted(&service, &place.batch(&json!({"labels": labels, "kind": kind}))).await);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    for id in &ids {
        ended(&service, id).await;
    }
    let jobs = get(&service, "/v1/jobs").await.json();
    assert_eq!(jobs[0]["labels"], json!({"project": "b c:d+e", "at": "5"}));
    let created = jobs[3]["created"].as_str().unwrap();
    for (query, expected) in [
        ("state=done", vec![5, 4, 3, 2, 1, 0]),
        ("state=failed", vec![]),
        ("kind=scan", vec![2, 1, 0]),
        ("label=project:a", vec![4, 2, 0]),
        ("label=project:b%20c:d%2Be", vec![5, 3, 1]),
        ("label=project:a&label=at:2", vec![2]),
        ("label=project:a&kind=batch", vec![4]),
        (&format!("created-after={created}"), vec![5, 4, 3, 2]),
        (&format!("created-before={created}"), vec![1, 0]),
    ] {
        // One job per page, by the links.
        let (mut target, mut found) = (format!("/v1/jobs?limit=1&{query}"), Vec::new());
        while !target.is_empty() {
            let page = get(&service, &target).await;
            assert_eq!(page.status, 200, "{target}");
            for job in page.json().as_array().unwrap() {
                found.push(ids.iter().position(|id| *id == job["id"]).unwrap());
            }
            target = page.header("link").split(['<', '>']).nth(1).unwrap_or_default().to_owned();
        }
        assert_eq!(found, expected, "{query}");
    }
    for wrong in ["state=over", "kind=x", "label=x", "created-after=yesterday", "state=done&state=done"] {
        assert_eq!(get(&service, &format!("/v1/jobs?{wrong}")).await.problem().0, 400, "{wrong}");
    }
    for labels in
        [json!("a"), json!({"": "a"}), json!({"a b": "c"}), json!({"a": 1}), json!({"a": "x".repeat(256)})]
    {
        let body = place.batch(&json!({"labels": labels}));
        assert_eq!(post(&service, "/v1/jobs", &body).await.problem().0, 400, "{body}");
    }
    let webhook = place.batch(&json!({"webhook": {"url": "https://example.org/"}}));
    assert_eq!(post(&service, "/v1/jobs", &webhook).await.problem(), (403, "not-allowed".to_owned()));
}

/// Makes a job that was not completed, and cannot be locked, out of one that has ended.
fn spoiled(place: &Place, ended: &str, id: &str, state: &str) {
    let (from, to) = (place.path("jobs").join(ended), place.path("jobs").join(id));
    fs::create_dir_all(to.join("lock")).unwrap();
    let mut record: Value = serde_json::from_slice(&fs::read(from.join("job.json")).unwrap()).unwrap();
    (record["id"], record["state"], record["ended"]) = (id.into(), state.into(), Value::Null);
    fs::write(to.join("job.json"), record.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_cannot_be_locked_do_not_hold_up_others() {
    let place = Place::new(1);
    let first = service(&place.settings());
    let id = submitted(&first, &place.batch(&json!({}))).await;
    assert_eq!(ended(&first, &id).await["state"], "done");
    drop(first);
    spoiled(&place, &id, "000000000000aaaaaaaa", "queued");
    spoiled(&place, &id, "000000000000bbbbbbbb", "running");
    spoiled(&place, &id, "000000000000cccccccc", "parked");
    let service = service(&place.settings());
    let id = submitted(&service, &place.batch(&json!({}))).await;
    assert_eq!(ended(&service, &id).await["state"], "done");
}
