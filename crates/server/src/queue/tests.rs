use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
};

use futures::poll;

use super::*;

const LIMITS: Limits =
    Limits { places: 4, own_places: 3, waiting: 12, own_waiting: 6, patience: Duration::from_secs(3600) };

fn names() -> Vec<Arc<str>> {
    ["a", "b", "c", "d", "e"].map(Arc::from).to_vec()
}

/// A model of the queue: each client that waits and has a free place of its own has done so since some tick, and the one
/// with the earliest tick is next.
#[derive(Default)]
struct Model {
    tick: u64,
    /// Requests that wait, by client, in the order of their arrival.
    waiting: BTreeMap<usize, Vec<u64>>,
    since: BTreeMap<usize, u64>,
    /// Requests with a place: client, and whether they are worked on.
    placed: BTreeMap<u64, (usize, bool)>,
}

impl Model {
    fn held(&self, client: usize) -> usize {
        self.placed.values().filter(|(owner, _)| *owner == client).count()
    }

    fn waits(&self, client: usize) -> usize {
        self.waiting.get(&client).map_or(0, Vec::len)
    }

    /// Returns whether the request is placed, waits, or is refused.
    fn arrive(&mut self, request: u64, client: usize) -> Option<bool> {
        let working = self.placed.values().filter(|(_, working)| *working).count();
        if working < LIMITS.places && self.held(client) < LIMITS.own_places && self.waits(client) == 0 {
            self.placed.insert(request, (client, true));
            return Some(true);
        }
        let all: usize = self.waiting.values().map(Vec::len).sum();
        if all >= LIMITS.waiting || self.waits(client) >= LIMITS.own_waiting {
            return None;
        }
        self.waiting.entry(client).or_default().push(request);
        self.settle();
        Some(false)
    }

    fn settle(&mut self) {
        loop {
            for client in 0..5 {
                let is_eligible = self.waits(client) > 0 && self.held(client) < LIMITS.own_places;
                if is_eligible && !self.since.contains_key(&client) {
                    self.tick += 1;
                    self.since.insert(client, self.tick);
                }
            }
            let working = self.placed.values().filter(|(_, working)| *working).count();
            let next = self.since.iter().min_by_key(|(_, since)| **since).map(|(client, _)| *client);
            let Some(client) = next.filter(|_| working < LIMITS.places) else { return };
            self.since.remove(&client);
            if self.waits(client) > 0 {
                let request = self.waiting.get_mut(&client).unwrap().remove(0);
                self.placed.insert(request, (client, true));
            }
        }
    }
}

type Pending<'a> = Pin<Box<dyn Future<Output = Result<Place, Full>> + 'a>>;

/// Sends random requests, gives some up, and ends others, and compares each step with the model.
#[tokio::test]
async fn places_are_those_of_the_model() {
    let (queue, names) = (Queue::new(LIMITS), names());
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below.max(1) as u64).unwrap()
    };
    let mut model = Model::default();
    let mut waiting: BTreeMap<u64, Pending<'_>> = BTreeMap::new();
    let mut placed: BTreeMap<u64, Place> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for request in 0..20_000_u64 {
        // Otherwise tokio makes a task that never yields wait.
        tokio::task::yield_now().await;
        let working = model.placed.iter().filter(|(_, (_, working))| *working).map(|(request, _)| *request);
        let any = |requests: Vec<u64>, at: usize| requests.get(at % requests.len().max(1)).copied();
        let at = random(1000);
        match random(5) {
            0 | 1 => {
                let client = random(5);
                let mut place: Pending<'_> = Box::pin(queue.place(&names[client]));
                let expected = model.arrive(request, client);
                seen.insert(expected);
                match poll!(&mut place) {
                    std::task::Poll::Ready(Ok(place)) => {
                        assert_eq!(expected, Some(true));
                        placed.insert(request, place);
                    }
                    std::task::Poll::Ready(Err(_)) => assert_eq!(expected, None),
                    std::task::Poll::Pending => {
                        assert_eq!(expected, Some(false));
                        waiting.insert(request, place);
                    }
                }
            }
            2 => {
                let Some(request) = any(waiting.keys().copied().collect(), at) else { continue };
                waiting.remove(&request);
                model.waiting.values_mut().for_each(|line| line.retain(|other| *other != request));
                let left = |client: &usize| model.waiting.get(client).is_some_and(|line| !line.is_empty());
                model.since.retain(|client, _| left(client));
                model.settle();
            }
            3 => {
                let Some(request) = any(working.collect(), at) else { continue };
                placed.get_mut(&request).unwrap().is_ready();
                model.placed.get_mut(&request).unwrap().1 = false;
                model.settle();
            }
            _ => {
                let Some(request) = any(placed.keys().copied().collect(), at) else { continue };
                placed.remove(&request);
                model.placed.remove(&request);
                model.settle();
            }
        }
        for request in waiting.keys().copied().collect::<Vec<_>>() {
            if let std::task::Poll::Ready(place) = poll!(waiting.get_mut(&request).unwrap()) {
                waiting.remove(&request);
                placed.insert(request, place.unwrap());
            }
        }
        assert!(placed.keys().eq(model.placed.keys()), "after {request}");
    }
    assert_eq!(seen.len(), 3, "requests were placed, waited, and were refused");
    drop((waiting, placed));
    let state = queue.lock();
    assert_eq!((state.free, state.waiting, state.lines.len()), (LIMITS.places, 0, 0));
}

/// A place that is granted to a request that is given up before it notices goes to the next one.
#[tokio::test]
async fn a_granted_place_is_not_lost() {
    let (queue, names) = (Queue::new(Limits { places: 1, own_places: 1, ..LIMITS }), names());
    let held = queue.place(&names[0]).await.unwrap();
    let mut first = Box::pin(queue.place(&names[1]));
    let mut second = Box::pin(queue.place(&names[2]));
    assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
    drop(held);
    drop(first);
    assert!(second.await.is_ok());
    assert_eq!(queue.lock().free, 1);
}

#[tokio::test]
async fn a_client_that_reads_slowly_holds_its_own_places_only() {
    let (queue, names) = (Queue::new(LIMITS), names());
    let mut slow = Vec::new();
    for client in &names[..4] {
        for _ in 0..LIMITS.own_places {
            let mut place = queue.place(client).await.unwrap();
            place.is_ready();
            slow.push(place);
        }
    }
    assert!(poll!(Box::pin(queue.place(&names[0]))).is_pending());
    assert!(queue.place(&names[4]).await.is_ok());
}

#[tokio::test]
async fn requests_wait_for_a_limited_time_and_get_an_estimate() {
    let limits = Limits { places: 1, own_places: 1, patience: Duration::from_millis(50), ..LIMITS };
    let (queue, names) = (Queue::new(limits), names());
    let _held = queue.place(&names[0]).await.unwrap();
    assert!(matches!(queue.place(&names[0]).await, Err(Full::Client(_))));
    assert!(matches!(queue.place(&names[1]).await, Err(Full::Service(_))));
    let state = queue.lock();
    assert_eq!(
        (state.waiting, state.lines.len(), state.lines.values().all(|line| line.held == 1)),
        (0, 1, true)
    );
}

#[test]
fn estimates_follow_the_pace() {
    let (start, second) = (Instant::now(), Duration::from_secs(1));
    let mut departures = Departures::default();
    assert_eq!(departures.until(1, start), None);
    for at in 0..100 {
        departures.add(start + second * at / 10);
    }
    let now = start + second * 10;
    // 32 departures in the last 3.2 seconds.
    assert_eq!(departures.until(10, now), Some(second));
    assert!(departures.until(10, now + second * 10).unwrap() > second * 4, "nobody leaves any more");
    assert_eq!(departures.until(usize::MAX, now), Some(LONGEST));
}
