//! Scheduling of jobs: the client with the fewest running jobs comes first, then the oldest job. Two jobs never write
//! to the same output concurrently. A job that was running when the service was killed runs alone.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// The scheduler: the queued and the running jobs.
#[derive(Debug)]
pub(super) struct Turns {
    most: usize,
    queue: Mutex<Queue>,
}

/// Jobs by id. Ids sort by time of creation.
#[derive(Debug, Default)]
struct Queue {
    waiting: BTreeMap<String, (Claim, oneshot::Sender<()>)>,
    running: BTreeMap<String, Claim>,
}

/// What the scheduler needs to know about a job.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Claim {
    /// Client that submitted the job.
    pub(super) client: String,
    /// Output URL, if the job does not write to its own folder.
    pub(super) output: Option<String>,
    /// Whether the job must run alone.
    pub(super) alone: bool,
}

/// The place of a job in the scheduler, from queueing until drop.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    id: String,
}

impl Turns {
    /// Creates a scheduler that runs at most `most` jobs concurrently.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, queue: Mutex::default() })
    }

    /// Queues a job, and waits for its turn.
    pub(super) async fn turn(self: &Arc<Self>, id: &str, claim: Claim) -> Turn {
        let (granted, is_granted) = oneshot::channel();
        let turn = Turn { turns: Arc::clone(self), id: id.to_owned() };
        {
            let mut queue = self.queue();
            queue.waiting.insert(id.to_owned(), (claim, granted));
            queue.grant(self.most);
        }
        let _ = is_granted.await;
        turn
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = self.turns.queue();
        queue.waiting.remove(&self.id);
        queue.running.remove(&self.id);
        queue.grant(self.turns.most);
    }
}

impl Queue {
    /// Starts queued jobs while there is capacity.
    fn grant(&mut self, most: usize) {
        while self.running.len() < most && !self.running.values().any(|claim| claim.alone) {
            let Some(id) = self.next() else { return };
            let Some((claim, granted)) = self.waiting.remove(&id) else { return };
            if claim.alone && !self.running.is_empty() {
                // It is the next job, and no other may overtake it.
                self.waiting.insert(id, (claim, granted));
                return;
            }
            if granted.send(()).is_ok() {
                self.running.insert(id, claim);
            }
        }
    }

    /// Returns the next job to run, if any queued job may.
    fn next(&self) -> Option<String> {
        let of_client = |client: &str| self.running.values().filter(|claim| claim.client == client).count();
        let may_run = |claim: &Claim| !self.running.values().any(|running| overlap(running, claim));
        let candidates = self.waiting.iter().filter(|(_, (claim, _))| may_run(claim));
        let next = candidates.min_by_key(|(id, (claim, _))| (of_client(&claim.client), id.as_str()));
        next.map(|(id, _)| id.clone())
    }
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
pub(super) fn place(output: &str) -> String {
    let Some(path) = output.strip_prefix("file://").map(Path::new) else { return output.to_owned() };
    let real = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (real, path.file_name()) {
        (Some(folder), Some(name)) => format!("file://{}", folder.join(name).display()),
        _ => output.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    fn claim(client: &str, output: Option<&str>) -> Claim {
        Claim { client: client.to_owned(), output: output.map(str::to_owned), alone: false }
    }

    /// Yields until all waiting tasks have been polled.
    async fn settle() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn clients_take_turns() {
        let turns = Turns::new(2);
        let first = turns.turn("00", claim("a", None)).await;
        let second = turns.turn("01", claim("a", None)).await;
        let mut waiting: Vec<_> = [("02", "a"), ("03", "a"), ("04", "b")]
            .map(|(id, client)| {
                let turns = Arc::clone(&turns);
                tokio::spawn(async move { turns.turn(id, claim(client, None)).await })
            })
            .into();
        settle().await;
        drop(first);
        let b = waiting.pop().unwrap().await.unwrap();
        assert!(waiting.iter().all(|each| !each.is_finished()));
        drop(second);
        let a = waiting.remove(0).await.unwrap();
        assert!(!waiting[0].is_finished());
        drop((a, b));
        waiting.remove(0).await.unwrap();
    }

    #[tokio::test]
    async fn one_writes_to_an_output_at_a_time() {
        let turns = Turns::new(10);
        let first = turns.turn("00", claim("a", Some("s3://b/x"))).await;
        for same in ["s3://b/x", "s3://b/x/y", "s3://b"] {
            assert!(turns.turn("01", claim("b", Some(same))).now_or_never().is_none(), "{same}");
        }
        for other in ["s3://b/xy", "s3://b/y/x", "s3://c/x"] {
            assert!(turns.turn("02", claim("b", Some(other))).now_or_never().is_some(), "{other}");
        }
        assert!(turns.turn("03", claim("b", None)).now_or_never().is_some());
        drop(first);
        assert!(turns.turn("04", claim("b", Some("s3://b/x"))).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_job_runs_alone_and_is_not_passed_over() {
        let turns = Turns::new(3);
        let first = turns.turn("00", claim("a", None)).await;
        let alone = Claim { alone: true, ..claim("b", None) };
        let (shared, own) = (Arc::clone(&turns), alone.clone());
        let waiting = tokio::spawn(async move { shared.turn("01", own).await });
        settle().await;
        assert!(turns.turn("02", claim("c", None)).now_or_never().is_none(), "it does not start before it");
        drop(first);
        let held = waiting.await.unwrap();
        assert!(turns.turn("03", claim("c", None)).now_or_never().is_none());
        drop(held);
        assert!(turns.turn("04", claim("c", None)).now_or_never().is_some());
    }

    /// Random claims: conflicting jobs never run concurrently, and every job gets its turn.
    #[tokio::test(flavor = "multi_thread")]
    async fn all_come_to_their_turn() {
        let (turns, mut state) = (Turns::new(3), 0x2545_f491_4f6c_dd1d_u64);
        let running: Arc<Mutex<Vec<Claim>>> = Arc::default();
        let mut tasks = Vec::new();
        for id in 0..200 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let outputs = ["s3://b/a", "s3://b/a/b", "s3://b/c"];
            let output = outputs.get(usize::try_from(state % 5).unwrap()).copied();
            let own = Claim { alone: state % 11 == 0, ..claim(&format!("{}", state % 4), output) };
            let (turns, running) = (Arc::clone(&turns), Arc::clone(&running));
            tasks.push(tokio::spawn(async move {
                let turn = turns.turn(&format!("{id:04}"), own.clone()).await;
                {
                    let mut running = running.lock().unwrap();
                    assert!(running.len() < 3 && !running.iter().any(|other| overlap(other, &own)));
                    assert!(!running.iter().any(|other| other.alone) && (!own.alone || running.is_empty()));
                    running.push(own.clone());
                }
                tokio::time::sleep(Duration::from_micros(state % 500)).await;
                let mut running = running.lock().unwrap();
                let at = running.iter().position(|other| *other == own).unwrap();
                running.remove(at);
                drop(running);
                drop(turn);
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    }
}
