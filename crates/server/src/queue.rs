//! The queue of requests: each waits for a place in its client's line, and the lines take turns. A client with many
//! requests therefore delays another client's first one by a single turn.
//!
//! A request holds a place of the service until its response is ready, and one of its client until the response has
//! been sent, so that clients that read slowly keep nobody else from being served.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::Config;
use tokio::{sync::oneshot, time::timeout};

/// Number of the last departures from which the time until the next one is estimated.
const DEPARTURES: usize = 32;
/// Longest estimate of a time to wait.
const LONGEST: Duration = Duration::from_secs(60);

/// Limits of the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests that are worked on.
    pub(crate) places: usize,
    /// Requests of one client until their responses have been sent.
    pub(crate) own_places: usize,
    /// Requests that wait, of all clients and of one.
    pub(crate) waiting: usize,
    pub(crate) own_waiting: usize,
    /// Time that a request waits.
    pub(crate) patience: Duration,
}

impl Limits {
    pub(crate) fn of(config: &Config) -> Self {
        let traffic = &config.traffic;
        Self {
            places: traffic.concurrent,
            own_places: traffic.client_requests,
            waiting: traffic.queue,
            own_waiting: traffic.queue.div_ceil(2),
            patience: traffic.queue_time,
        }
    }
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Queue {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    waiting: usize,
    lines: HashMap<Arc<str>, Line>,
    /// Clients whose first waiting request may have the next free place.
    turns: VecDeque<Arc<str>>,
    departures: Departures,
}

/// The requests of a client.
#[derive(Debug, Default)]
struct Line {
    /// Requests with a place of the client.
    held: usize,
    waiting: VecDeque<oneshot::Sender<()>>,
    has_turn: bool,
    departures: Departures,
}

/// Why a request gets no place, with the time after which the next one may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Full {
    /// All places of the client are taken.
    Client(Duration),
    /// All places of the service are taken.
    Service(Duration),
}

/// The times of the last departures.
#[derive(Debug, Default)]
pub(crate) struct Departures(VecDeque<Instant>);

impl Departures {
    pub(crate) fn add(&mut self, now: Instant) {
        if self.0.len() == DEPARTURES {
            self.0.pop_front();
        }
        self.0.push_back(now);
    }

    /// Estimates the time until `count` more departures from the pace of the last ones. The longer there is none, the
    /// longer the estimate.
    pub(crate) fn until(&self, count: usize, now: Instant) -> Option<Duration> {
        let since = now.saturating_duration_since(*self.0.front()?);
        let seconds = since.as_secs_f64() / self.0.len() as f64 * count as f64;
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST))
    }
}

impl Queue {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        let state = State {
            free: limits.places,
            waiting: 0,
            lines: HashMap::new(),
            turns: VecDeque::new(),
            departures: Departures::default(),
        };
        Arc::new(Self { limits, state: Mutex::new(state) })
    }

    /// Returns a place for a request of a client, once it is the client's turn.
    pub(crate) async fn place(self: &Arc<Self>, client: &Arc<str>) -> Result<Place, Full> {
        let waiting = match self.enter(client)? {
            Ok(place) => return Ok(place),
            Err(receiver) => Waiting { receiver, queue: self, client },
        };
        waiting.granted().await
    }

    /// Takes a place, or a place in the line.
    fn enter(self: &Arc<Self>, client: &Arc<str>) -> Result<Result<Place, oneshot::Receiver<()>>, Full> {
        let mut locked = self.lock();
        let state = &mut *locked;
        let is_long = state.waiting >= self.limits.waiting;
        let line = state.lines.entry(Arc::clone(client)).or_default();
        if state.free > 0 && line.held < self.limits.own_places && line.waiting.is_empty() {
            line.held += 1;
            state.free -= 1;
            return Ok(Ok(Place { queue: Arc::clone(self), client: Arc::clone(client), is_working: true }));
        }
        if is_long || line.waiting.len() >= self.limits.own_waiting {
            let full = state.full(self.limits, client);
            state.forget(client);
            return Err(full);
        }
        let (sender, receiver) = oneshot::channel();
        line.waiting.push_back(sender);
        state.waiting += 1;
        state.take_turn(self.limits, client);
        Ok(Err(receiver))
    }

    /// Returns a place of the service, and with `is_own` the client's too.
    fn leave(&self, client: &Arc<str>, is_working: bool, is_own: bool) {
        let mut state = self.lock();
        let now = Instant::now();
        if is_working {
            state.free += 1;
            state.departures.add(now);
        }
        if is_own && let Some(line) = state.lines.get_mut(client) {
            line.held -= 1;
            line.departures.add(now);
        }
        state.take_turn(self.limits, client);
        state.grant(self.limits);
        state.forget(client);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Appends a client to those whose turn comes, if it has a waiting request and a free place of its own.
    fn take_turn(&mut self, limits: Limits, client: &Arc<str>) {
        let Some(line) = self.lines.get_mut(client) else { return };
        if !line.has_turn && !line.waiting.is_empty() && line.held < limits.own_places {
            line.has_turn = true;
            self.turns.push_back(Arc::clone(client));
        }
    }

    /// Gives the free places to the clients in turn.
    fn grant(&mut self, limits: Limits) {
        while self.free > 0 {
            let Some(client) = self.turns.pop_front() else { return };
            let Some(line) = self.lines.get_mut(&client) else { continue };
            line.has_turn = false;
            while let Some(next) = line.waiting.pop_front() {
                self.waiting -= 1;
                if next.send(()).is_ok() {
                    line.held += 1;
                    self.free -= 1;
                    break;
                }
            }
            self.take_turn(limits, &client);
            self.forget(&client);
        }
    }

    /// Removes the waiting requests of a client that were given up.
    fn give_up(&mut self, client: &Arc<str>) {
        if let Some(line) = self.lines.get_mut(client) {
            let before = line.waiting.len();
            line.waiting.retain(|waiting| !waiting.is_closed());
            self.waiting -= before - line.waiting.len();
            if line.waiting.is_empty() && std::mem::take(&mut line.has_turn) {
                self.turns.retain(|other| other != client);
            }
        }
        self.forget(client);
    }

    /// Forgets a client without requests.
    fn forget(&mut self, client: &Arc<str>) {
        if self
            .lines
            .get(client)
            .is_some_and(|line| line.held == 0 && line.waiting.is_empty() && !line.has_turn)
        {
            self.lines.remove(client);
        }
    }

    /// Describes why a client's next request gets no place.
    fn full(&self, limits: Limits, client: &Arc<str>) -> Full {
        let now = Instant::now();
        let line = self.lines.get(client);
        let own =
            line.filter(|line| line.held >= limits.own_places || line.waiting.len() >= limits.own_waiting);
        let unknown = limits.patience.min(LONGEST);
        match own {
            Some(line) => {
                let until = line.departures.until(line.waiting.len() + 1, now);
                Full::Client(until.unwrap_or(unknown))
            }
            None => Full::Service(self.departures.until(self.waiting + 1, now).unwrap_or(unknown)),
        }
    }
}

/// A request that waits.
struct Waiting<'a> {
    receiver: oneshot::Receiver<()>,
    queue: &'a Arc<Queue>,
    client: &'a Arc<str>,
}

impl Waiting<'_> {
    async fn granted(mut self) -> Result<Place, Full> {
        let granted = timeout(self.queue.limits.patience, &mut self.receiver).await;
        match granted {
            Ok(Ok(())) => {
                Ok(Place { queue: Arc::clone(self.queue), client: Arc::clone(self.client), is_working: true })
            }
            _ => Err(self.queue.lock().full(self.queue.limits, self.client)),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.receiver.close();
        match self.receiver.try_recv() {
            // The place was granted, but nobody waits for it.
            Ok(()) => self.queue.leave(self.client, true, true),
            Err(_) => self.queue.lock().give_up(self.client),
        }
    }
}

/// The places of a request.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<Queue>,
    client: Arc<str>,
    is_working: bool,
}

impl Place {
    /// Returns the place of the service once the response is ready. That of the client is held until it has been sent.
    pub(crate) fn is_ready(&mut self) {
        if std::mem::take(&mut self.is_working) {
            self.queue.leave(&self.client, true, false);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.queue.leave(&self.client, self.is_working, true);
    }
}

#[cfg(test)]
mod tests;
