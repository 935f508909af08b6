//! The order of jobs: the client with the fewest running jobs comes first, then the oldest job. Two jobs never write to
//! the same output concurrently. A job during which an instance was killed runs alone in its instance.

use std::path::Path;

use super::record::Record;

/// What the order of jobs depends on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Claim {
    pub(super) id: String,
    /// Client that submitted the job.
    pub(super) client: String,
    /// Output URL, if the job does not write to its own folder.
    pub(super) output: Option<String>,
    /// Whether the job must run alone.
    pub(super) alone: bool,
}

impl Claim {
    /// Returns the claim of a job.
    pub(super) fn of(record: &Record) -> Self {
        Self {
            id: record.id.clone(),
            client: record.client.clone(),
            output: record.request.output.as_deref().map(place),
            alone: record.crashes > 0,
        }
    }
}

/// Returns the position of the waiting job that an instance may start next. `running` are the jobs of all instances,
/// `own` those of this instance, which runs at most `most`.
pub(super) fn next(waiting: &[Claim], running: &[Claim], own: &[Claim], most: usize) -> Option<usize> {
    if own.len() >= most || own.iter().any(|claim| claim.alone) {
        return None;
    }
    let of_client = |client: &str| running.iter().filter(|claim| claim.client == client).count();
    let may_run = |claim: &Claim| !running.iter().any(|running| overlap(running, claim));
    let candidates = waiting.iter().enumerate().filter(|(_, claim)| may_run(claim));
    let (at, next) = candidates.min_by_key(|(_, claim)| (of_client(&claim.client), claim.id.as_str()))?;
    // A job that must run alone is not overtaken.
    (!next.alone || own.is_empty()).then_some(at)
}

/// Returns whether two jobs write to the same output, or one to a path below the other's.
fn overlap(one: &Claim, other: &Claim) -> bool {
    let (Some(one), Some(other)) = (&one.output, &other.output) else { return false };
    let holds = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    holds(one, other) || holds(other, one)
}

/// Returns the canonical URL of an output, with symbolic links in its folder resolved.
fn place(output: &str) -> String {
    let Some(path) = output.strip_prefix("file://").map(Path::new) else { return output.to_owned() };
    let real = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (real, path.file_name()) {
        (Some(folder), Some(name)) => format!("file://{}", folder.join(name).display()),
        _ => output.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(id: &str, client: &str, output: Option<&str>) -> Claim {
        Claim {
            id: id.to_owned(),
            client: client.to_owned(),
            output: output.map(str::to_owned),
            alone: false,
        }
    }

    #[test]
    fn clients_take_turns() {
        let waiting = [claim("02", "a", None), claim("03", "a", None), claim("04", "b", None)];
        let (a, b) = (claim("00", "a", None), claim("01", "b", None));
        let turn = |running: &[Claim]| next(&waiting, running, &[], 1);
        assert_eq!(turn(&[]), Some(0));
        assert_eq!(turn(std::slice::from_ref(&a)), Some(2));
        assert_eq!(turn(&[a.clone(), b.clone()]), Some(0));
        assert_eq!(next(&waiting, &[a.clone(), b.clone()], &[a.clone(), b.clone()], 2), None);
        assert_eq!(next(&waiting, &[a.clone(), b], &[a], 2), Some(0), "other instances do not count");
    }

    #[test]
    fn one_writes_to_an_output_at_a_time() {
        let running = [claim("00", "a", Some("s3://b/x"))];
        let turn = |output| next(&[claim("01", "b", output)], &running, &[], 2);
        for same in ["s3://b/x", "s3://b/x/y", "s3://b"] {
            assert_eq!(turn(Some(same)), None, "{same}");
        }
        for other in [None, Some("s3://b/xy"), Some("s3://b/y/x"), Some("s3://c/x")] {
            assert_eq!(turn(other), Some(0), "{other:?}");
        }
    }

    #[test]
    fn a_job_runs_alone_and_is_not_passed_over() {
        let other = claim("00", "a", None);
        let alone = Claim { alone: true, ..claim("01", "b", None) };
        let waiting = [alone.clone(), claim("02", "c", None)];
        let running = std::slice::from_ref(&other);
        assert_eq!(next(&waiting, running, running, 3), None);
        assert_eq!(next(&waiting, running, &[], 3), Some(0), "it is alone in its instance");
        let both = [other, alone.clone()];
        assert_eq!(next(&waiting[1..], &both, &[alone], 3), None, "nothing starts beside it");
        assert_eq!(next(&waiting[1..], &both, &[], 3), Some(0), "other instances go on");
    }

    /// Random claims of three instances: conflicting jobs never run concurrently, and every job gets its turn.
    #[test]
    fn all_come_to_their_turn() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below).unwrap()
        };
        let outputs = ["s3://b/a", "s3://b/a/b", "s3://b/c"];
        let mut waiting: Vec<Claim> = (0..200)
            .map(|id| {
                let output = outputs.get(random(5)).copied();
                let client = random(4).to_string();
                Claim { alone: random(11) == 0, ..claim(&format!("{id:04}"), &client, output) }
            })
            .collect();
        let mut instances = vec![Vec::<Claim>::new(); 3];
        for _ in 0..100_000 {
            let one = random(3);
            let running: Vec<Claim> = instances.iter().flatten().cloned().collect();
            if random(2) == 0 && !instances[one].is_empty() {
                let at = random(instances[one].len() as u64);
                instances[one].remove(at);
            } else if let Some(at) = next(&waiting, &running, &instances[one], 3) {
                let started = waiting.remove(at);
                assert!(!running.iter().any(|other| overlap(other, &started)));
                let own = &mut instances[one];
                assert!(!own.iter().any(|other| other.alone) && (!started.alone || own.is_empty()));
                own.push(started);
                assert!(own.len() <= 3);
            }
        }
        assert!(waiting.is_empty());
    }
}
