//! Runs the built binary: exit status, messages, outputs.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

fn virtualize(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_virtualize"))
        .args(arguments)
        .env_remove("RUST_LOG")
        .env_remove("VIRTUALIZE_BEARER_TOKEN")
        .output()
        .unwrap()
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Checks that a run failed with this status, wrote no output, and printed one line that contains these words.
fn fails(output: &Output, status: i32, words: &[&str]) {
    let messages = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{messages}");
    assert_eq!(messages.lines().count(), 1, "{messages}");
    assert!(messages.starts_with("error: "), "{messages}");
    for word in words {
        assert!(messages.contains(word), "{word} is not in {messages}");
    }
    assert!(output.stdout.is_empty());
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: &[u8]) -> String {
        fs::write(self.at(name), content).unwrap();
        self.path(name)
    }

    fn path(&self, name: &str) -> String {
        self.at(name).to_str().unwrap().to_owned()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn what_cannot_be_read_is_refused() {
    let folder = Folder::new();
    let none = folder.path("none.nc");
    fails(&virtualize(&[&none]), 1, &[&none, "not found", "check the path"]);
    fails(&virtualize(&[folder.0.path().to_str().unwrap()]), 1, &["a directory, expected a file"]);
    fails(&virtualize(&[&folder.file("empty.nc", b"")]), 1, &["neither HDF5, NetCDF nor TIFF", "empty"]);
    fails(&virtualize(&[&folder.file("a.grib", b"GRIB....")]), 1, &["GRIB"]);
    fails(&virtualize(&[&folder.file("page.nc", b"<!DOCTYPE html><html>")]), 1, &["HTML", "login"]);
    fails(&virtualize(&["ftp://host/a.nc"]), 1, &["ftp", "expected a path or"]);
    fails(&virtualize(&["inspect", &none]), 1, &["not found"]);
}

#[test]
fn a_truncated_file_is_refused_with_a_place() {
    let folder = Folder::new();
    for (name, keep) in [("hdf5/latest.h5", 40), ("tiff/tiles.tif", 6)] {
        let whole = fs::read(fixture(name)).unwrap();
        let cut = folder.file("cut", &whole[..keep]);
        fails(&virtualize(&[&cut, "-o", &folder.path("out.json")]), 1, &[&cut, "0x"]);
    }
    assert_eq!(folder.names(), ["cut"]);
}

#[cfg(unix)]
#[test]
fn no_permission() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let path = folder.file("secret.nc", b"x");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&path).is_ok() {
        return; // The superuser may read everything.
    }
    fails(&virtualize(&[&path]), 1, &["access denied", "permissions"]);
}

#[test]
fn wrong_usage_is_status_2() {
    assert_eq!(virtualize(&[]).status.code(), Some(2));
    assert_eq!(virtualize(&["--no-such-flag", "a"]).status.code(), Some(2));
    assert_eq!(virtualize(&["a", "--format", "csv"]).status.code(), Some(2));
    assert_eq!(virtualize(&["a", "--store-option", "novalue"]).status.code(), Some(2));
    assert_eq!(virtualize(&["inspect"]).status.code(), Some(2));
    fails(&virtualize(&["s3://b/k", "--store-option", "nonsense=1"]), 2, &["nonsense"]);
}

#[test]
fn references_go_to_standard_output_or_to_a_file_and_are_the_same() {
    let folder = Folder::new();
    let file = fixture("tiff/tiles.tif");
    for format in ["kerchunk-json", "zarr3-json"] {
        let printed = virtualize(&[&file, "--format", format]);
        assert!(printed.status.success());
        assert!(printed.stderr.is_empty(), "{}", text(&printed.stderr));
        let out = folder.path("out.json");
        let written = virtualize(&[&file, "--format", format, "-o", &out]);
        assert!(written.status.success() && written.stdout.is_empty() && written.stderr.is_empty());
        let references = fs::read(&out).unwrap();
        assert_eq!(text(&printed.stdout).trim_end(), text(&references).trim_end());
        let parsed: serde_json::Value = serde_json::from_slice(&references).unwrap();
        let key = if format == "zarr3-json" { "zarr.json" } else { ".zgroup" };
        assert!(parsed["refs"].get(key).is_some());
        assert!(text(&references).contains(&format!("file://{file}")));
        assert_eq!(virtualize(&[&file, "--format", format]).stdout, printed.stdout, "the same bytes again");
    }
    assert_eq!(folder.names(), ["out.json"]);
}

#[test]
fn an_existing_output_survives_failure() {
    let folder = Folder::new();
    let out = folder.file("out.json", b"{}");
    fails(&virtualize(&[&folder.file("a.nc", b"nothing"), "-o", &out]), 1, &["neither"]);
    assert_eq!(fs::read(&out).unwrap(), b"{}");
    assert_eq!(folder.names(), ["a.nc", "out.json"]);
    let file = fixture("tiff/tiles.tif");
    fails(&virtualize(&[&file, "-o", &folder.path("no/out.json")]), 1, &["no/out.json"]);
    fails(&virtualize(&[&file, "-o", folder.0.path().to_str().unwrap()]), 1, &["a directory"]);
    assert!(virtualize(&[&file, "-o", &out]).status.success());
    assert_ne!(fs::read(&out).unwrap(), b"{}");
    let other = folder.file("results.csv", b"a,b");
    fails(&virtualize(&[&file, "-o", &other]), 1, &["something other than JSON", "choose another output"]);
    assert_eq!(fs::read(&other).unwrap(), b"a,b");
}

#[test]
fn the_input_is_never_replaced() {
    let folder = Folder::new();
    let content = fs::read(fixture("tiff/tiles.tif")).unwrap();
    let file = folder.file("a.tif", &content);
    fails(&virtualize(&[&file, "-o", &file]), 2, &["would replace"]);
    assert_eq!(fs::read(&file).unwrap(), content);
}

#[test]
fn strict_turns_warnings_into_failure() {
    let folder = Folder::new();
    let (file, out) = (fixture("hdf5/fill_message_1.h5"), folder.path("out.json"));
    let lenient = virtualize(&[&file, "-o", &out]);
    assert!(lenient.status.success());
    let messages = text(&lenient.stderr);
    assert!(messages.lines().all(|line| line.starts_with(&format!("warning: {file}: /"))), "{messages}");
    assert!(messages.contains("[fill-value-dropped]"), "{messages}");
    fs::remove_file(&out).unwrap();
    let strict = virtualize(&[&file, "-o", &out, "--strict"]);
    assert_eq!(strict.status.code(), Some(1));
    assert!(text(&strict.stderr).lines().last().unwrap().starts_with("error: "));
    assert!(folder.names().is_empty());
}

#[test]
fn a_file_named_inspect_is_reached() {
    let folder = Folder::new();
    fs::copy(fixture("tiff/tiles.tif"), folder.at("inspect")).unwrap();
    let run = |argument| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_virtualize"));
        command.arg(argument).current_dir(folder.0.path()).output().unwrap()
    };
    assert!(run("./inspect").status.success());
    assert_eq!(run("inspect").status.code(), Some(2), "the command lacks its file");
}

#[test]
fn inspect_shows_what_was_decided() {
    let file = fixture("tiff/geo_utm.tif");
    let tree = text(&virtualize(&["inspect", &file]).stdout);
    for words in ["TIFF", "EPSG:32633", "├─ band_data    float32", "(band: 1, y: 10, x: 12)"] {
        assert!(tree.contains(words), "{words} is not in {tree}");
    }
    let array = text(&virtualize(&["inspect", &file, "--array", "band_data"]).stdout);
    for words in ["tag GDAL_NODATA (42113)", "first chunks", "codecs"] {
        assert!(array.contains(words), "{words} is not in {array}");
    }
    let json: serde_json::Value =
        serde_json::from_slice(&virtualize(&["inspect", "--json", &file]).stdout).unwrap();
    let array = &json["root"]["children"]["band_data"];
    assert_eq!(array["shape"], serde_json::json!([1, 10, 12]));
    assert_eq!(array["fill_decision"]["sources"][0]["outcome"], "used");
    assert_eq!(json["file"]["format"], "TIFF");
}

#[test]
fn statistics_go_to_standard_error() {
    let output = virtualize(&[&fixture("tiff/tiles.tif"), "--stats"]);
    assert!(output.status.success());
    let messages = text(&output.stderr);
    assert!(
        messages.starts_with("stats: ") && messages.contains(" requests, ") && messages.contains(" bytes, "),
        "{messages}"
    );
    serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_is_not_an_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_virtualize"))
        .arg(fixture("tiff/tiles.tif"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    assert!(output.status.success());
}

#[test]
fn arrays_that_a_wanted_reader_lacks_are_omitted() {
    let file = fixture("tiff/compression_webp.tif");
    let output = virtualize(&[&file, "--readable-by", "zarr-python+imagecodecs,zarrs"]);
    fails(&output, 1, &["/band_data", "zarrs: imagecodecs_webp", "[reader-lacks]"]);
    assert_eq!(virtualize(&[&file, "--readable-by", "zarr-python+imagecodecs"]).status.code(), Some(0));
    assert_eq!(virtualize(&[&file, "--readable-by", "zarrs,xarray"]).status.code(), Some(2));
}
