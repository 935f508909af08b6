//! Batches that several machines share: whatever the shards, the output is that of one machine.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use hyper_util::rt::TokioIo;
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use virtualize::{Format, StoreOptions};
use virtualize_archive::{
    Along, Batch, BatchBuilder, Error, Event, Layout, OnFailure, PartsError, Receipt, RunOptions, Shard,
    Summary, Target, list::Input,
};

/// A random archive: copies of a NetCDF file with numbers in their names, in random order, and some damaged files.
struct Archive {
    folder: tempfile::TempDir,
    inputs: Vec<String>,
    damaged: u64,
}

impl Archive {
    fn new(files: usize, damaged: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hdf5/netcdf4.nc");
        let bytes = fs::read(original).unwrap();
        let mut inputs = Vec::new();
        for number in 0..files {
            let below = folder.path().join(["a", "b/c"][fastrand::usize(..2)]);
            fs::create_dir_all(&below).unwrap();
            let path = below.join(format!("f{number}.nc"));
            fs::write(&path, &bytes).unwrap();
            inputs.push(path.to_str().unwrap().to_owned());
        }
        fastrand::shuffle(&mut inputs);
        for input in inputs.iter().take(usize::try_from(damaged).unwrap()) {
            fs::write(input, b"no file of any format").unwrap();
        }
        fastrand::shuffle(&mut inputs);
        Self { folder, inputs, damaged }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn batch(&self, output: &str, target: &Target) -> BatchBuilder {
        let names = Some("f{member:d}.nc".parse().unwrap());
        let layout = Layout {
            names: names.into_iter().collect(),
            ..Layout::along(vec![Along::Stack("member".to_owned())])
        };
        let run = RunOptions { on_failure: OnFailure::Skip, ..RunOptions::default() };
        let output = Batch::builder(self.text(output)).target(target.clone()).layout(layout);
        output.inputs(self.inputs.clone()).run_options(run)
    }

    async fn read(&self, batch: &Batch, shard: (u64, u64), plan: Option<&str>, part: &str) -> Receipt {
        let shard = Shard {
            plan: plan.map(|plan| self.text(plan)),
            number: shard.0,
            of: shard.1,
            part: self.text(part),
        };
        batch.read_shard(&shard, |_| {}).await.unwrap()
    }

    /// Imports parts in random order, some of them twice.
    async fn import(
        &self,
        batch: BatchBuilder,
        parts: &[String],
        events: &Arc<Mutex<Vec<Event>>>,
    ) -> Result<Summary, Error> {
        let mut parts: Vec<String> = parts.iter().map(|part| self.text(part)).collect();
        for _ in 0..fastrand::usize(..3) {
            parts.push(parts[fastrand::usize(..parts.len())].clone());
        }
        fastrand::shuffle(&mut parts);
        if fastrand::bool() && parts.iter().all(|part| part.starts_with(&self.text("parts/"))) {
            // A worker that was killed left a temporary file.
            fs::write(self.path("parts/.virtualize-XXXXXX.part"), "PAR1").unwrap();
            parts = vec![self.text("parts/")];
        }
        let told = Arc::clone(events);
        batch.parts(parts).build().run(move |event| told.lock().unwrap().push(event)).await
    }
}

/// Returns all files of an output with their bytes.
fn content(path: &Path) -> BTreeMap<String, Vec<u8>> {
    if path.is_file() {
        return BTreeMap::from([(String::new(), fs::read(path).unwrap())]);
    }
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_str().unwrap().to_owned();
        all.extend(content(&entry.path()).into_iter().map(|(key, bytes)| (format!("{name}/{key}"), bytes)));
    }
    all
}

/// Returns random shards that together have all files: all of one division, or most of it and all of another.
fn random_shards(files: usize) -> Vec<(u64, u64)> {
    let of = fastrand::u64(1..=files as u64 + 2);
    let mut shards: Vec<(u64, u64)> = (1..=of).map(|number| (number, of)).collect();
    if fastrand::bool() {
        shards.remove(fastrand::usize(..shards.len()));
        let of = fastrand::u64(1..=5);
        shards.extend((1..=of).map(|number| (number, of)));
    }
    shards
}

/// Reads random shards of a random archive, imports their parts, and returns the names of both outputs.
async fn share(archive: &Archive, target: &Target) -> (PathBuf, PathBuf) {
    let single = archive.batch("single", target).build().run(|_| {}).await.unwrap();
    let plan = fastrand::bool().then_some("plan");
    if let Some(plan) = plan {
        let written = archive.batch("any", target).build().write_plan(&archive.text(plan), |_| {}).await;
        assert_eq!(written.unwrap(), archive.inputs.len() as u64);
    }
    let mut parts = Vec::new();
    for (at, shard) in random_shards(archive.inputs.len()).into_iter().enumerate() {
        let (batch, part) = (archive.batch("ignored", target).build(), format!("parts/{at}.part"));
        let receipt = archive.read(&batch, shard, plan, &part).await;
        assert!(!receipt.reused && serde_json::to_string(&receipt).unwrap().len() <= 1024);
        let again = archive.read(&batch, shard, plan, &part).await;
        assert_eq!(again, Receipt { reused: true, ..receipt });
        parts.push(part);
    }
    let mut shared = archive.batch("shared", target);
    if let Some(plan) = plan {
        shared = shared.plan_file(archive.text(plan));
    }
    let events = Arc::default();
    let summary = archive.import(shared.clone(), &parts, &events).await.unwrap();
    let (files, failed) = (archive.inputs.len() as u64, archive.damaged);
    assert_eq!((summary.files, summary.failed, summary.failures), (files, failed, single.failures));
    assert_eq!((summary.read, summary.imported), (0, files - failed));
    let imported = |event: &Event| match event {
        Event::Imported { imported, .. } => *imported,
        _ => 0,
    };
    assert_eq!(events.lock().unwrap().iter().map(imported).sum::<u64>(), files - failed);
    let again = archive.import(shared, &parts, &events).await.unwrap();
    assert_eq!((again.imported, again.known, again.failed), (0, files - failed, failed));
    (archive.path("single"), archive.path("shared"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_output_does_not_depend_on_the_shards() {
    let formats = [Format::KERCHUNK_JSON, Format::KERCHUNK_PARQUET, Format::ZARR3_JSON, Format::ZARR3];
    for format in formats {
        for _ in 0..3 {
            let files = fastrand::usize(1..20);
            let archive = Archive::new(files, fastrand::u64(..files as u64));
            let (single, shared) = share(&archive, &Target::References(format)).await;
            assert!(content(&single) == content(&shared), "{format}, {files} files");
        }
    }
}

#[cfg(feature = "icechunk")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commit_does_not_depend_on_the_shards() {
    let archive = Archive::new(9, 2);
    let (single, shared) = share(&archive, &Target::Icechunk(virtualize::CommitOptions::default())).await;
    let options = virtualize::ReadOptions::default();
    let mut trees = Vec::new();
    for path in [single, shared] {
        trees.push(virtualize::read_references(path.to_str().unwrap(), &options).await.unwrap().hierarchy);
    }
    assert_eq!(trees[0], trees[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_parts_are_named_and_nothing_changes() {
    let archive = Archive::new(10, 0);
    let target = Target::default();
    let batch = archive.batch("ignored", &target).build();
    for number in [1, 2, 5] {
        archive.read(&batch, (number, 5), None, &format!("{number}.part")).await;
    }
    let parts = ["1.part", "2.part", "5.part"].map(str::to_owned);
    let error = archive.import(archive.batch("shared", &target), &parts, &Arc::default()).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(text, "no part has 4 of 10 files: files 5 to 8; missing shards 3/5, 4/5");
    // Parts of the whole archive complete it.
    archive.read(&batch, (1, 1), None, "all.part").await;
    let parts = ["1.part", "all.part", "5.part"].map(str::to_owned);
    let summary = archive.import(archive.batch("shared", &target), &parts, &Arc::default()).await.unwrap();
    assert_eq!((summary.imported, summary.known), (10, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_another_run_are_refused() {
    let archive = Archive::new(6, 0);
    let target = Target::default();
    archive.read(&archive.batch("ignored", &target).build(), (1, 1), None, "part").await;
    let import = |batch: BatchBuilder| {
        let batch = batch.parts([archive.text("part")]).build();
        async move { batch.run(|_| {}).await.unwrap_err() }
    };
    let other = archive.batch("out1", &target).concat_dim("x");
    let error = import(other).await;
    assert!(matches!(error, Error::Parts(PartsError::OtherOptions { .. })), "{error}");
    let zarr3 = archive.batch("out2", &Target::References(Format::ZARR3));
    assert!(import(zarr3).await.to_string().contains("zarr-format was 2, is 3"));
    fs::write(&archive.inputs[3], b"replaced").unwrap();
    let error = import(archive.batch("out3", &target)).await;
    assert!(matches!(error, Error::Parts(PartsError::OtherListing { .. })), "{error}");
    // A file that is no part is not replaced.
    let own = Shard { plan: None, number: 1, of: 1, part: archive.inputs[3].clone() };
    let batch = archive.batch("ignored", &target);
    let error = batch.clone().build().read_shard(&own, |_| {}).await.unwrap_err();
    assert!(matches!(error, Error::Parts(PartsError::Damaged { .. })), "{error}");
    let mut damaged = fs::read(archive.path("part")).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(archive.path("part"), damaged).unwrap();
    let error = import(archive.batch("out4", &target)).await;
    assert!(matches!(error, Error::Parts(PartsError::Damaged { .. })), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_replaced_after_its_part_was_read_is_read_again() {
    let mut archive = Archive::new(4, 0);
    let target = Target::default();
    let list = archive.text("list");
    let urls: Vec<String> = archive.inputs.iter().map(|input| format!("{{\"url\": \"{input}\"}}")).collect();
    fs::write(&list, urls.join("\n")).unwrap();
    let inputs = std::mem::take(&mut archive.inputs);
    let batch = |output: &str| archive.batch(output, &target).inputs([Input::List(list.clone())]);
    batch("shared").build().run(|_| {}).await.unwrap();
    archive.read(&batch("ignored").build(), (1, 1), None, "part").await;
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hdf5/netcdf4.nc");
    let longer = [fs::read(other).unwrap(), vec![0; 8]].concat();
    fs::write(&inputs[2], longer).unwrap();
    let summary = batch("shared").parts([archive.text("part")]).build().run(|_| {}).await.unwrap();
    assert_eq!((summary.known, summary.imported, summary.read), (3, 0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_import_is_continued() {
    let archive = Archive::new(12, 1);
    let target = Target::default();
    archive.batch("single", &target).build().run(|_| {}).await.unwrap();
    for number in 1..=4 {
        let batch = archive.batch("ignored", &target).build();
        archive.read(&batch, (number, 4), None, &format!("parts/{number}")).await;
    }
    let cancel = tokio_util::sync::CancellationToken::new();
    let parts = [archive.text("parts/")];
    let stopped = archive.batch("shared", &target).parts(parts.clone()).cancel(cancel.clone()).build();
    let result = stopped.run(move |event| {
        if matches!(event, Event::Imported { .. }) {
            cancel.cancel();
        }
    });
    assert!(matches!(result.await.unwrap_err(), Error::Stopped { .. }));
    assert!(!archive.path("shared").exists());
    let summary = archive.batch("shared", &target).parts(parts).build().run(|_| {}).await.unwrap();
    assert!(summary.imported < 11 && summary.known > 0, "{summary:?}");
    assert!(content(&archive.path("single")) == content(&archive.path("shared")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_files_of_parts_are_read_again_on_request() {
    let archive = Archive::new(5, 1);
    let target = Target::default();
    archive.read(&archive.batch("ignored", &target).build(), (1, 1), None, "part").await;
    let strict = |run: RunOptions| {
        let batch = archive.batch("shared", &target).run_options(run).parts([archive.text("part")]).build();
        async move { batch.run(|_| {}).await }
    };
    let error = strict(RunOptions::default()).await.unwrap_err();
    assert!(matches!(error, Error::Failures { count: 1, .. }), "{error}");
    let retry = RunOptions { on_failure: OnFailure::Retry, max_failures: 1, ..RunOptions::default() };
    let summary = strict(retry).await.unwrap();
    assert_eq!((summary.known, summary.imported, summary.failed), (4, 0, 1));
}

/// Serves the folders under `root` as buckets, with signed requests only.
async fn serve(root: &Path) -> StoreOptions {
    let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root).unwrap());
    builder.set_auth(SimpleAuth::from_single("AKEXAMPLE", "verysecretkey"));
    let service = builder.build();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Some(format!("http://{}", listener.local_addr().unwrap()));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let service = service.clone();
            tokio::spawn(async move {
                let server = hyper::server::conn::http1::Builder::new();
                server.serve_connection(TokioIo::new(socket), service).await.map_err(drop)
            });
        }
    });
    let values = [
        ("aws_access_key_id", "AKEXAMPLE"),
        ("aws_secret_access_key", "verysecretkey"),
        ("AWS_REGION", "us-east-1"),
    ];
    let values = values.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    let bearer_token = Some("verysecrettoken".to_owned());
    StoreOptions { values, endpoint, bearer_token, ..StoreOptions::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_and_parts_in_a_bucket_work_and_contain_no_credentials() {
    let archive = Archive::new(7, 2);
    fs::create_dir(archive.path("bucket")).unwrap();
    let options = virtualize::Options { store: serve(archive.folder.path()).await, ..Default::default() };
    let batch = |output: &str| archive.batch(output, &Target::default()).options(options.clone());
    batch("single").build().run(|_| {}).await.unwrap();
    let plan = "s3://bucket/plan";
    assert_eq!(batch("any").build().write_plan(plan, |_| {}).await.unwrap(), 7);
    let mut receipts = String::new();
    for number in 1..=3 {
        let part = format!("s3://bucket/parts/{number}");
        let shard = Shard { plan: Some(plan.to_owned()), number, of: 3, part };
        let receipt = batch("any").build().read_shard(&shard, |_| {}).await.unwrap();
        let again = batch("any").build().read_shard(&shard, |_| {}).await.unwrap();
        assert_eq!(again, Receipt { reused: true, ..receipt.clone() });
        receipts += &serde_json::to_string(&receipt).unwrap();
    }
    let shared = batch("shared").plan_file(plan).parts(["s3://bucket/parts/".to_owned()]).build();
    assert_eq!(shared.run(|_| {}).await.unwrap().imported, 5);
    assert!(content(&archive.path("single")) == content(&archive.path("shared")));
    let mut written = content(&archive.path("bucket"));
    assert_eq!(written.keys().filter(|key| !key.starts_with('.')).count(), 4);
    written.insert("receipts".to_owned(), receipts.into_bytes());
    for (name, bytes) in written {
        let text = String::from_utf8_lossy(&bytes);
        let has = |secret| text.contains(secret);
        assert!(!has("verysecret") && !has("AKEXAMPLE") && !has("127.0.0.1"), "{name}");
    }
}
