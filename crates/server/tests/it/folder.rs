//! Listings of folders.

use std::fs;

use crate::common::{get, service, settings, url};
use serde_json::{Value, json};
use virtualize_server::Settings;

/// Returns the sorted names that a listing of a folder must contain, by kind.
fn expected(folder: &std::path::Path) -> (Vec<String>, Vec<String>) {
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let url = format!("file://{}/{name}", folder.display());
        match entry.file_type().unwrap().is_dir() {
            _ if name.starts_with('.') => {}
            true => folders.push(format!("{url}/")),
            false => files.push(url),
        }
    }
    folders.sort();
    files.sort();
    (folders, files)
}

fn texts(array: &Value) -> Vec<String> {
    array.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_together_are_the_folder() {
    let service = service(&settings());
    let (folder, prefix) = (crate::common::fixtures().join("hdf5"), url("hdf5"));
    let (folders, files) = expected(&folder);
    assert!(files.len() > 10);
    let (mut found, mut after) = ((Vec::new(), Vec::new()), String::new());
    for page in 0.. {
        let target = format!("/v1/folder?url={prefix}/&limit=7&after={after}");
        let answer = get(&service, &target).await.json();
        assert_eq!(answer["url"], format!("{prefix}/"));
        found.0.extend(texts(&answer["folders"]));
        for file in answer["files"].as_array().unwrap() {
            let url = file["url"].as_str().unwrap();
            let about = fs::metadata(url.trim_start_matches("file://")).unwrap();
            assert_eq!(file["size"], about.len());
            chrono::DateTime::parse_from_rfc3339(file["modified"].as_str().unwrap()).unwrap();
            found.1.push(url.to_owned());
        }
        assert!(page <= files.len() + folders.len());
        let Some(next) = answer["next"].as_str() else { break };
        after = next.to_owned();
    }
    assert_eq!(found, (folders, files));
    let whole = get(&service, &format!("/v1/folder?url={prefix}")).await;
    assert_eq!((whole.status.as_u16(), &whole.json()["next"]), (200, &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_allowed_folders_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("a/b")).unwrap();
    fs::create_dir(folder.path().join("aside")).unwrap();
    fs::write(folder.path().join("a/.virtualize-x.nc.lock"), "").unwrap();
    let root = format!("file://{}", folder.path().canonicalize().unwrap().display());
    let settings = Settings { allow: vec![format!("{root}/a/")], ..Settings::default() };
    let service = service(&settings);
    let ask = async |url: &str| get(&service, &format!("/v1/folder?url={url}")).await;
    let listed = ask(&format!("{root}/a/")).await.json();
    let expected = json!({ "url": format!("{root}/a/"), "folders": [format!("{root}/a/b/")], "files": [], "next": null });
    assert_eq!(listed, expected);
    for outside in ["", "/", "/aside/", "/a/../aside/", "/a/b/../../aside/"] {
        let status = ask(&format!("{root}{outside}")).await.status.as_u16();
        assert!(matches!(status, 400 | 403), "{outside}: {status}");
    }
    assert_eq!(ask("s3://bucket/a/").await.problem(), (403, "not-allowed".to_owned()));
    assert_eq!(ask(&format!("{root}/a/none/")).await.problem(), (404, "source-not-found".to_owned()));
    fs::write(folder.path().join("a/file.nc"), "").unwrap();
    assert_eq!(ask(&format!("{root}/a/file.nc")).await.problem(), (400, "url".to_owned()));
    assert_eq!(ask("https://host/a/").await.problem(), (404, "not-found".to_owned()));
    assert_eq!(ask("").await.problem(), (400, "parameter".to_owned()));
}
