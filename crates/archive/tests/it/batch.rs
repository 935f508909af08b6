//! Runs over several files: their outputs, and the work of a second run.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use virtualize::{Code, ErrorClass, Options};
use virtualize_archive::{Along, Batch, Event, Layout, Summary, Target};

/// Copies a NetCDF file to each of these names.
fn files(folder: &Path, names: &[&str]) -> Vec<String> {
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hdf5/netcdf4.nc");
    let copy = |name: &&str| {
        let path = folder.join(name);
        fs::copy(&original, &path).unwrap();
        path.to_str().unwrap().to_owned()
    };
    names.iter().map(copy).collect()
}

fn batch(output: &Path, inputs: &[String]) -> Batch {
    let mut batch = Batch::new(output.to_str().unwrap(), Target::default(), Options::default());
    batch.inputs.extend(inputs.iter().map(|input| input.as_str().into()));
    batch
}

async fn run(batch: Batch) -> Summary {
    batch.run(|_| {}).await.unwrap()
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_run_reads_what_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let (output, inputs) = (folder.path().join("all.json"), files(folder.path(), &["a.nc", "b.nc", "c.nc"]));
    let stacked = |inputs: &[String]| {
        let mut batch = batch(&output, inputs);
        batch.layout = Layout::along(vec![Along::Stack("member".to_owned())]);
        batch
    };
    let first = run(stacked(&inputs[..2])).await;
    assert_eq!((first.files, first.read, first.known, first.failed), (2, 2, 0, 0));
    assert_eq!(first.journal, format!("{}.journal", output.display()));
    let written = fs::read(&output).unwrap();
    let again = run(stacked(&inputs[..2])).await;
    assert_eq!((again.read, again.known), (0, 2));
    assert_eq!(again.notes, ["up to date; nothing written"]);
    assert_eq!(fs::read(&output).unwrap(), written);
    let mut appending = stacked(&inputs[2..]);
    appending.run.append = true;
    let appended = run(appending).await;
    assert_eq!((appended.files, appended.read, appended.known), (3, 1, 2));
    let references = json(&output);
    let keys = references["refs"].as_object().unwrap().iter();
    let shapes: Vec<_> = keys
        .filter(|(key, _)| key.ends_with(".zarray"))
        .map(|(_, array)| serde_json::from_str::<serde_json::Value>(array.as_str().unwrap()).unwrap())
        .map(|array| array["shape"][0].as_u64())
        .collect();
    assert!(shapes.contains(&Some(3)), "{shapes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_file_gets_an_output_and_failures_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (output, mut inputs) = (folder.path().join("refs"), files(folder.path(), &["a.nc", "b.nc"]));
    let damaged: PathBuf = folder.path().join("damaged.nc");
    fs::write(&damaged, b"no file of any format").unwrap();
    inputs.push(damaged.to_str().unwrap().to_owned());
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let each = |inputs: &[String]| {
        let mut batch = batch(&output, inputs);
        batch.each = true;
        batch
    };
    let each_file = each(&inputs);
    let summary = each_file.run(move |event| sink.lock().unwrap().push(event)).await.unwrap();
    assert_eq!((summary.files, summary.read, summary.failed), (3, 2, 1));
    assert!(summary.failures[0].contains("damaged.nc"), "{:?}", summary.failures);
    assert!(output.join("a.nc.json").is_file() && output.join("b.nc.json").is_file());
    assert!(matches!(events.lock().unwrap().last(), Some(Event::Done { .. })));
    // A second run restores an output that was deleted.
    fs::remove_file(output.join("b.nc.json")).unwrap();
    assert_eq!(run(each(&inputs)).await.read, 1);
    assert!(output.join("b.nc.json").is_file());
}

#[tokio::test]
async fn a_run_infers_the_time_dimension_of_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = files(folder.path(), &["a.nc"]);
    let output = folder.path().join("all.json");
    let notes = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&notes);
    let note = move |event| {
        if let Event::Note { text } = event {
            sink.lock().unwrap().push(text);
        }
    };
    assert_eq!(batch(&output, &inputs).run(note).await.unwrap().read, 1);
    assert_eq!(*notes.lock().unwrap(), ["the files are combined along time, the time dimension"]);
    // Later runs take the dimension from the journal.
    fs::remove_file(&output).unwrap();
    let inputs = files(folder.path(), &["a.nc", "copy.h5"]);
    assert_eq!(batch(&output, &inputs).run(|_| {}).await.unwrap_err().code(), Code::Combine);
}

#[tokio::test]
async fn a_run_needs_a_dimension() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = ["../../fixtures/hdf5/chunked.h5".to_owned()];
    let error = batch(&folder.path().join("all.json"), &inputs).run(|_| {}).await.unwrap_err();
    assert_eq!((error.code(), error.class()), (Code::Usage, ErrorClass::Usage));
    assert_eq!(error.to_string(), "no dimension to combine files along");
}
