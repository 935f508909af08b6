//! Random runs on a journal, with crashes, against a model (`PROPTEST_CASES=10000`, which takes minutes; faster with `TMPDIR`
//! in memory):
//!
//! - a run sees the files of the model: their order, versions, and whether they were read or failed
//! - after a crash of the process, nothing is lost that was recorded
//! - after a loss of power, at any byte of the write-ahead log, the journal is as it was at some earlier moment, and the run
//!   continues from there
//! - a file is in an output if its current version was published, and only then

use proptest::{collection::vec, prelude::*};

use super::*;

/// A file of the model: URL, version, state, version that was published last.
#[derive(Clone, PartialEq, Eq, Debug)]
struct File {
    url: String,
    version: u8,
    state: State,
    published: Option<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Pending,
    Done,
    Failed,
}

/// What a journal holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Model {
    files: Vec<File>,
    /// Plan that was published, and plan that a run began to publish.
    output: (Option<String>, Option<String>),
}

#[derive(Clone, Debug)]
enum Step {
    /// Lists files (numbers and versions), and accepts the listing.
    List { files: Vec<(u8, u8)>, append: bool, retry: bool },
    /// Reads files; those whose bit is set fail.
    Read { most: usize, failures: u8 },
    /// Publishes all files that were read, or is interrupted before it has.
    Publish { finish: bool },
    /// The process is killed, or the power fails: then the log ends somewhere.
    Crash { cut: Option<u16> },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let files = vec((0_u8..6, 0_u8..3), 0..6);
    let step = prop_oneof![
        3 => (files, any::<bool>(), any::<bool>()).prop_map(|(files, append, retry)| Step::List { files, append, retry }),
        3 => (1_usize..6, any::<u8>(), any::<u8>()).prop_map(|(most, one, other)| Step::Read { most, failures: one & other }),
        2 => any::<bool>().prop_map(|finish| Step::Publish { finish }),
        3 => proptest::option::weighted(0.7, any::<u16>()).prop_map(|cut| Step::Crash { cut }),
    ];
    vec(step, 1..20)
}

impl Model {
    fn list(&mut self, listed: &[(u8, u8)], append: bool, retry: bool) {
        let mut files: Vec<File> = if append { self.files.clone() } else { Vec::new() };
        let mut seen = std::collections::BTreeSet::new();
        for (number, version) in listed.iter().filter(|(number, _)| seen.insert(*number)) {
            let url = number.to_string();
            let before = self.files.iter().find(|file| file.url == url);
            let new = File { url: url.clone(), version: *version, state: State::Pending, published: None };
            let file = match before {
                None => new,
                Some(file) if file.version == *version => file.clone(),
                Some(file) => File { published: file.published, ..new },
            };
            match files.iter_mut().find(|file| file.url == url) {
                Some(there) => *there = file,
                None => files.push(file),
            }
        }
        if retry {
            files
                .iter_mut()
                .filter(|file| file.state == State::Failed)
                .for_each(|file| file.state = State::Pending);
        }
        self.files = files;
    }

    fn is_in_output(file: &File) -> bool {
        file.state == State::Done && file.published == Some(file.version)
    }

    fn publish(&mut self) {
        for file in &mut self.files {
            file.published = (file.state == State::Done).then_some(file.version);
        }
    }
}

/// Compares what a journal holds with the model.
fn is_like(journal: &Journal, model: &Model) -> bool {
    let sql = format!("SELECT url, etag, state, NOT ({}) FROM files ORDER BY position, id", OPEN);
    let mut statement = journal.connection.prepare(&sql).unwrap();
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let found = statement.query_map([], row).unwrap();
    let found: Vec<(String, String, i64, bool)> = found.map(Result::unwrap).collect();
    let number = |state| match state {
        State::Pending => 0,
        State::Done => 1,
        State::Failed => 2,
    };
    let expected = model.files.iter().map(|file| {
        (file.url.clone(), file.version.to_string(), number(file.state), Model::is_in_output(file))
    });
    let known = journal.output("o").unwrap().unwrap_or_default();
    found.into_iter().eq(expected) && (known.plan, known.begun_plan) == model.output
}

/// Leaves what is on the disk after a crash: with `cut`, only so much of the log.
fn crash(path: &Path, journal: Journal, cut: Option<u16>) {
    let log = PathBuf::from(format!("{}-wal", path.display()));
    let (main, mut tail) = (std::fs::read(path).unwrap(), std::fs::read(&log).unwrap_or_default());
    drop(journal);
    if let Some(cut) = cut {
        tail.truncate(tail.len() * usize::from(cut) / usize::from(u16::MAX));
    }
    std::fs::write(path, main).unwrap();
    std::fs::write(log, tail).unwrap();
}

/// Reads up to `most` files, and adds a moment to the history for each.
fn read(journal: &mut Journal, history: &mut Vec<Model>, most: usize, failures: u8) {
    journal.set_durable(false).unwrap();
    for work in journal.works(journal.pending().unwrap().into_iter().take(most)).unwrap() {
        let number: u32 = work.item.url.parse().unwrap();
        let fails = (failures >> number) & 1 == 1;
        let row = FileRecord { storage: "kind".to_owned(), extent: "{}".to_owned(), ..FileRecord::default() };
        let outcome = if fails { failed("fails") } else { done(Record::Member(Box::new(row))) };
        let mut next = history.last().unwrap().clone();
        let file = next.files.iter_mut().find(|file| file.url == work.item.url).unwrap();
        file.state = if fails { State::Failed } else { State::Done };
        journal.finish(vec![(work, outcome)]).unwrap();
        history.push(next);
    }
    journal.set_durable(true).unwrap();
}

/// Publishes the files that were read, and adds the two moments to the history.
fn publish(journal: &mut Journal, history: &mut Vec<Model>, number: usize, finish: bool) {
    let plan = number.to_string();
    let rows: Vec<i64> = journal.rows_after(0).unwrap().iter().map(|row| row.id).collect();
    journal.begin_output("o", (&plan, "content"), rows, false).unwrap();
    let mut next = history.last().unwrap().clone();
    next.output.1 = Some(plan.clone());
    history.push(next.clone());
    if finish {
        journal.finish_output("o", "receipt").unwrap();
        next.output = (Some(plan), None);
        next.publish();
        history.push(next);
    }
}

/// Few cases, unless the environment says how many: a run waits for the disk.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { usual.cases } else { 12 };
    ProptestConfig { cases, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn runs_and_crashes_follow_the_model(steps in steps()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.journal");
        let mut journal = Journal::open(&path).unwrap();
        let mut history = vec![Model::default()];
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::List { files, append, retry } => {
                    let items: Vec<Item> =
                        files.iter().map(|(url, etag)| item(&url.to_string(), &etag.to_string())).collect();
                    // Each run opens the journal again.
                    drop(journal);
                    journal = Journal::open(&path).unwrap();
                    stage(&mut journal, &items);
                    accept(&mut journal, Accept { append, retry_failed: retry, ..Accept::default() });
                    let mut next = history.last().unwrap().clone();
                    next.list(&files, append, retry);
                    history.push(next);
                }
                Step::Read { most, failures } => read(&mut journal, &mut history, most, failures),
                Step::Publish { finish } => publish(&mut journal, &mut history, number, finish),
                Step::Crash { cut } => {
                    crash(&path, journal, cut);
                    journal = match Journal::open(&path) {
                        Ok(journal) => journal,
                        // The power failed before the tables were on the disk.
                        Err(error) => {
                            prop_assert!(history.len() == 1, "{error}");
                            return Ok(());
                        }
                    };
                    let at = history.iter().rposition(|moment| is_like(&journal, moment));
                    prop_assert!(at.is_some(), "another state than any before");
                    // What a killed process has written is not lost.
                    prop_assert!(cut.is_some() || is_like(&journal, history.last().unwrap()));
                    history.truncate(at.unwrap() + 1);
                }
            }
            prop_assert!(is_like(&journal, history.last().unwrap()), "{:?}", history.last());
        }
    }
}
