//! Random uses of a jobs folder by two instances that crash, against a model (`PROPTEST_CASES=10000`, faster with `TMPDIR` in
//! memory):
//!
//! - both instances see the same jobs, in the states that were saved, and versions never go back
//! - a job is claimed by one instance at a time, and is free after a crash of that instance
//! - a key stands for one job, also after the job was removed
//! - what a crash leaves of a creation, a removal or a write changes nothing, and is removed

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, fs, fs::File, path::Path};

use proptest::{collection::vec, prelude::*};
use serde_json::json;

use super::{
    folder::Folder,
    keys::Key,
    record::{self, Record, State},
};

const CLIENT: &str = "somebody";

#[derive(Clone, Debug)]
enum Step {
    /// Submits a job with a key.
    Submit(usize, u8),
    Claim(usize, usize),
    /// Saves a state, or progress, of a claimed job.
    Save(usize, State),
    Progress(usize),
    Remove(usize, usize, bool),
    /// Kills an instance, which then leaves parts of files and of a new job.
    Crash(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (instance, job) = (0..2_usize, any::<usize>());
    let state =
        prop_oneof![Just(State::Running), Just(State::Parked), Just(State::Done), Just(State::Failed)];
    let step = prop_oneof![
        4 => (instance.clone(), 0_u8..8).prop_map(|(instance, key)| Step::Submit(instance, key)),
        4 => (instance.clone(), job).prop_map(|(instance, job)| Step::Claim(instance, job)),
        4 => (job, state).prop_map(|(job, state)| Step::Save(job, state)),
        2 => job.prop_map(Step::Progress),
        2 => (instance.clone(), job, any::<bool>()).prop_map(|(instance, job, half)| Step::Remove(instance, job, half)),
        1 => (instance, 0..400_usize).prop_map(|(instance, cut)| Step::Crash(instance, cut)),
    ];
    vec(step, 1..40)
}

/// A job of the model: its state, and the instance that runs it, with its lock and its record.
struct Known {
    state: State,
    runner: Option<(usize, File, Record)>,
}

fn new_record(id: &str, key: &Key) -> Record {
    let record = json!({
        "id": id, "state": "queued", "client": CLIENT, "key": key, "created": record::now(), "started": null, "ended": null,
        "progress": {"listed": 0, "read": 0, "failed": 0, "total": null}, "error": null, "summary": null,
        "request": {"kind": "scan", "inputs": ["file:///data/a.nc"]},
    });
    serde_json::from_value(record).unwrap()
}

fn key(number: u8) -> Key {
    serde_json::from_value(json!({"key": number.to_string(), "body": "the same"})).unwrap()
}

/// Leaves what a process that is killed may leave: the start of a record that it wrote, and of a job that it created.
fn leave_parts(path: &Path, ids: &[&String], cut: usize) {
    let text = serde_json::to_vec(&new_record("0123456789abcdef", &key(0))).unwrap();
    let part = &text[..cut.min(text.len())];
    for id in ids {
        fs::write(path.join(id).join(".job.json.new"), part).unwrap();
        fs::write(path.join(id).join(".progress.json.new"), part).unwrap();
    }
    let half = path.join(".0123456789abcdef");
    fs::create_dir_all(&half).unwrap();
    fs::write(half.join(record::FILE), part).unwrap();
}

/// Few cases, unless the environment says how many: each record waits for the disk.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { usual.cases } else { 24 };
    ProptestConfig { cases, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn two_instances_see_the_jobs_of_the_model(steps in steps()) {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join(".snapshots")).unwrap();
        let mut instances = [(); 2].map(|()| Folder::open(place.path()).unwrap());
        let mut jobs: BTreeMap<String, Known> = BTreeMap::new();
        let (mut keys, mut seen) = (BTreeMap::new(), [BTreeMap::new(), BTreeMap::new()]);
        for step in steps {
            let any = |at: usize| jobs.keys().nth(at % jobs.len().max(1)).cloned();
            match step {
                Step::Submit(at, number) => {
                    let folder = &instances[at];
                    let exclusive = folder.lock().unwrap();
                    let table = folder.refresh().unwrap();
                    let found = folder.submitted(&exclusive, &table, CLIENT, &key(number)).unwrap();
                    prop_assert_eq!(found.as_ref(), keys.get(&number));
                    if found.is_none() {
                        let id = record::new_id();
                        folder.create(&exclusive, &new_record(&id, &key(number))).unwrap();
                        keys.insert(number, id.clone());
                        jobs.insert(id, Known { state: State::Queued, runner: None });
                    }
                }
                Step::Claim(at, job) => {
                    let Some(id) = any(job) else { continue };
                    let known = jobs.get_mut(&id).unwrap();
                    let claimed = instances[at].claim(&id).unwrap();
                    prop_assert_eq!(claimed.is_some(), known.runner.is_none(), "the claim of {}", id);
                    let record = instances[at].get(&id).unwrap().unwrap().record.clone();
                    if let (Some(claim), false) = (claimed, known.state.is_over()) {
                        known.runner = Some((at, claim, record));
                    }
                }
                Step::Save(job, state) => {
                    let Some(id) = any(job) else { continue };
                    let known = jobs.get_mut(&id).unwrap();
                    let Some((at, _, record)) = &mut known.runner else { continue };
                    record.state = state;
                    let exclusive = instances[*at].lock().unwrap();
                    instances[*at].save(&exclusive, record).unwrap();
                    known.state = state;
                    if state != State::Running {
                        known.runner = None;
                    }
                }
                Step::Progress(job) => {
                    let Some(id) = any(job) else { continue };
                    let Some((at, _, record)) = &mut jobs.get_mut(&id).unwrap().runner else { continue };
                    record.progress.read += 1;
                    record.touch();
                    record.save_progress(&instances[*at].place(&id)).unwrap();
                }
                Step::Remove(at, job, half) => {
                    let Some(id) = any(job) else { continue };
                    let exclusive = instances[at].lock().unwrap();
                    let entry = instances[at].get(&id).unwrap().unwrap();
                    if entry.record.state.is_over() {
                        let aside = instances[at].set_aside(&exclusive, &entry.record).unwrap();
                        if !half {
                            fs::remove_dir_all(aside).unwrap();
                        }
                        jobs.remove(&id);
                    }
                }
                Step::Crash(at, cut) => {
                    let is_own = |known: &Known| known.runner.as_ref().is_some_and(|(runner, ..)| *runner == at);
                    let own: Vec<&String> = jobs.iter().filter(|(_, known)| is_own(known)).map(|(id, _)| id).collect();
                    leave_parts(place.path(), &own, cut);
                    jobs.values_mut().filter(|known| is_own(known)).for_each(|known| known.runner = None);
                    seen[at].clear();
                    instances[at] = Folder::open(place.path()).unwrap();
                    prop_assert!(!place.path().join(".0123456789abcdef").exists());
                }
            }
            prop_assert!(place.path().join(".snapshots").is_dir(), "a folder that is not ours was removed");
            for (folder, seen) in instances.iter().zip(&mut seen) {
                let table = folder.refresh().unwrap();
                let found: Vec<_> = table.iter().map(|(id, entry)| (id.clone(), entry.record.state)).collect();
                let expected: Vec<_> = jobs.iter().map(|(id, known)| (id.clone(), known.state)).collect();
                prop_assert_eq!(found, expected);
                for (id, entry) in table.iter() {
                    let before = seen.insert(id.clone(), entry.record.version).unwrap_or(0);
                    prop_assert!(before <= entry.record.version, "{}: {} after {}", id, entry.record.version, before);
                }
            }
        }
    }
}
