//! Webhooks: when a job ends, its record is posted to the URL of its request, signed as the Standard Webhooks
//! specification requires (<https://www.standardwebhooks.com>). The state of the delivery is a file in the job's folder
//! (`webhook.json`), so that another instance continues after a crash. A message may be delivered more than once, always
//! with the same `webhook-id`.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use chrono::{DateTime, SecondsFormat};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::Sha256;
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};

use super::{
    Inner, POLL,
    folder::{Table, is_gone},
    record::{self, Record, State},
};
use crate::{Config, Problem, tokens::lines};

/// Name of the file with the state of a delivery.
const FILE: &str = "webhook.json";
/// Time for one attempt.
const TIME: Duration = Duration::from_secs(15);
/// Number of attempts. The pause after the first one is `PAUSE`, and each further pause is three times as long: the
/// last attempt is 13 hours after the first.
const ATTEMPTS: u32 = 10;
const PAUSE: u64 = 5_000;
/// Minimum length of a secret in bytes, as the specification recommends.
const SHORTEST: usize = 24;
/// Number of concurrent deliveries of an instance.
pub(super) const CONCURRENT: usize = 8;

/// The webhook of a request.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Webhook {
    url: String,
    #[serde(default = "all")]
    events: Vec<Ending>,
}

/// How a job can end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Ending {
    Done,
    Failed,
    Cancelled,
}

fn all() -> Vec<Ending> {
    vec![Ending::Done, Ending::Failed, Ending::Cancelled]
}

impl Webhook {
    /// Returns the webhook of a request.
    pub(super) fn read(members: &Map<String, Value>) -> Result<Option<Self>, Problem> {
        let webhook = members.get("webhook").map(Self::deserialize).transpose();
        webhook.map_err(|_| {
            let reason = "expected an object with url, and optionally events of done, failed, cancelled";
            Problem::parameter("webhook", reason)
        })
    }

    /// Checks that the service may send to the URL, and returns its canonical form.
    pub(super) fn check(&self, config: &Config) -> Result<String, Problem> {
        let refused = |detail: &str| {
            Problem::new(axum::http::StatusCode::FORBIDDEN, virtualize::Code::NotAllowed, detail)
        };
        let Some(webhooks) = &config.webhooks else {
            let detail = "webhook: sending there is not allowed";
            return Err(refused(detail).hint("the service was started without --allow-webhook"));
        };
        match webhooks.allowed.check_post(&self.url) {
            Ok(url) => Ok(url),
            Err(virtualize::StoreError::NotAllowed { .. }) => {
                Err(refused("webhook: sending there is not allowed"))
            }
            Err(_) => Err(Problem::parameter("webhook", "expected an http or https URL without a query")),
        }
    }

    /// Returns whether the end of a job is an event to send.
    fn wants(&self, state: State) -> bool {
        self.events.iter().any(|event| {
            matches!(
                (event, state),
                (Ending::Done, State::Done)
                    | (Ending::Failed, State::Failed)
                    | (Ending::Cancelled, State::Cancelled)
            )
        })
    }
}

/// The state of a delivery.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Delivery {
    attempts: u32,
    /// Time of the next attempt in milliseconds; `None` after the last one.
    next: Option<u64>,
    delivered: bool,
    /// Why the last attempt failed.
    error: Option<String>,
}

impl Delivery {
    /// Reads the state of a delivery. Without a file, no attempt was made.
    fn load(folder: &Path) -> io::Result<Self> {
        match fs::read(folder.join(FILE)) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Self { next: Some(0), ..Self::default() })
            }
            Err(error) => Err(error),
        }
    }

    /// Records an attempt, and decides when to try again.
    fn tried(&mut self, outcome: Result<(), Refusal>) {
        self.attempts += 1;
        self.delivered = outcome.is_ok();
        let (error, is_final) = match outcome {
            Ok(()) => (None, true),
            Err(Refusal { reason, is_final }) => (Some(reason), is_final || self.attempts >= ATTEMPTS),
        };
        self.error = error;
        let pause = PAUSE.saturating_mul(3_u64.saturating_pow(self.attempts.saturating_sub(1)));
        self.next = (!is_final).then(|| record::millis().saturating_add(pause));
    }

    /// Returns the state of the delivery as clients see it.
    fn shown(&self) -> Value {
        let state = match (self.delivered, self.next) {
            (true, _) => "delivered",
            (false, Some(_)) => "pending",
            (false, None) => "failed",
        };
        let next = self.next.filter(|next| *next > 0).and_then(|next| i64::try_from(next).ok());
        let next = next.and_then(DateTime::from_timestamp_millis);
        json!({
            "state": state,
            "attempts": self.attempts,
            "next": next.map(|next| next.to_rfc3339_opts(SecondsFormat::Millis, true)),
            "error": self.error,
        })
    }
}

/// Why an attempt failed.
struct Refusal {
    reason: String,
    /// Whether the receiver wants no further attempts.
    is_final: bool,
}

impl Refusal {
    fn of(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_final: false }
    }
}

impl Inner {
    /// Returns the state of the delivery of an ended job as clients see it; `None` if there is nothing to deliver.
    pub(super) fn delivery(&self, record: &Record) -> Option<Value> {
        let webhook = record.request.webhook.as_ref()?;
        if !webhook.wants(record.state) {
            return None;
        }
        Delivery::load(&self.folder.place(&record.id)).ok().map(|delivery| delivery.shown())
    }

    /// Starts the deliveries that are due, unless another instance makes them.
    pub(super) fn deliver(self: &Arc<Self>, table: &Table, runtime: &Handle) -> io::Result<()> {
        self.settled().retain(|id| table.contains_key(id));
        for record in table.values().map(|entry| &entry.record) {
            let Some(webhook) = record.request.webhook.as_ref().filter(|one| one.wants(record.state)) else {
                continue;
            };
            if self.settled().contains(&record.id) {
                continue;
            }
            let Ok(delivery) = Delivery::load(&self.folder.place(&record.id)) else { continue };
            match delivery.next {
                None => drop(self.settled().insert(record.id.clone())),
                Some(next) if next > record::millis() => {}
                Some(_) => {
                    let Ok(place) = Arc::clone(&self.deliveries).try_acquire_owned() else { return Ok(()) };
                    // Nobody runs an ended job, so that its lock is free for the delivery.
                    let Ok(Some(claim)) = self.folder.claim(&record.id) else { continue };
                    let (this, record, webhook) = (Arc::clone(self), record.clone(), webhook.clone());
                    let sending = async move {
                        tokio::select! {
                            () = this.send(&record, &webhook) => {}
                            () = this.stopping.cancelled() => {}
                        }
                        drop((place, claim));
                    };
                    self.tracker.spawn_on(sending, runtime);
                }
            }
        }
        Ok(())
    }

    /// Makes an attempt to deliver the record of a job, and saves the outcome.
    async fn send(&self, record: &Record, webhook: &Webhook) {
        let folder = self.folder.place(&record.id);
        // Another instance may have made the attempt since.
        let Ok(mut delivery) = Delivery::load(&folder) else { return };
        if delivery.next.is_none_or(|next| next > record::millis()) {
            return;
        }
        let outcome = self.attempt(record, webhook).await;
        delivery.tried(outcome);
        match (&delivery.error, delivery.next) {
            (None, _) => tracing::info!(job = %record.id, "a webhook was delivered"),
            (Some(error), None) => tracing::error!(job = %record.id, "a webhook was not delivered: {error}"),
            (Some(error), Some(_)) => tracing::warn!(job = %record.id, "a webhook will be retried: {error}"),
        }
        self.save_delivery(&folder, Arc::new(delivery)).await;
    }

    /// Saves the outcome of an attempt. Repeats this until it succeeds: without it, the message would be sent again at
    /// once.
    async fn save_delivery(&self, folder: &Path, delivery: Arc<Delivery>) {
        loop {
            let (path, delivery) = (folder.join(FILE), Arc::clone(&delivery));
            let save =
                move || record::write_whole(&path, |file| Ok(serde_json::to_writer(file, &*delivery)?));
            match tokio::task::spawn_blocking(save).await {
                Ok(Err(error)) if !is_gone(&error) => {
                    tracing::warn!("the state of a webhook was not written: {error}");
                    sleep(POLL).await;
                }
                _ => return,
            }
        }
    }

    /// Posts the record of a job once.
    async fn attempt(&self, record: &Record, webhook: &Webhook) -> Result<(), Refusal> {
        let Some(webhooks) = &self.config.webhooks else {
            return Err(Refusal::of("the service was started without --allow-webhook"));
        };
        let url = webhook.check(&self.config).map_err(|problem| Refusal::of(problem.detail))?;
        let secrets = secrets(&webhooks.secrets).map_err(|error| {
            tracing::error!("{}: {error}", webhooks.secrets.display());
            Refusal::of("the service cannot sign")
        })?;
        let (id, body) = (format!("msg_{}", record.id), record.shown().to_string());
        let time = (record::millis() / 1000).to_string();
        let signature = sign(&secrets, &id, &time, &body);
        let headers = [
            ("content-type", "application/json"),
            ("webhook-id", &id),
            ("webhook-timestamp", &time),
            ("webhook-signature", &signature),
        ];
        match timeout(TIME, webhooks.allowed.post(&url, &headers, Bytes::from(body))).await {
            Ok(Ok(200..300)) => Ok(()),
            Ok(Ok(status)) => {
                Err(Refusal { reason: format!("the receiver answered {status}"), is_final: status == 410 })
            }
            Ok(Err(_)) => Err(Refusal::of("the receiver cannot be reached")),
            Err(_) => Err(Refusal::of("the receiver did not answer in time")),
        }
    }
}

/// Reads a file of secrets: on each line `whsec_` and at least 24 bytes in Base64. Messages contain no part of a secret.
pub(crate) fn secrets(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let text = fs::read_to_string(path)?;
    let decode = |(number, line): (usize, &str)| {
        let secret = STANDARD.decode(line.strip_prefix("whsec_").unwrap_or(line)).ok();
        secret.filter(|secret| secret.len() >= SHORTEST).ok_or_else(|| {
            invalid(format!("line {number}: expected whsec_ and at least {SHORTEST} bytes in Base64"))
        })
    };
    let secrets: Vec<_> = lines(&text).map(decode).collect::<io::Result<_>>()?;
    if secrets.is_empty() { Err(invalid("the file contains no secret".to_owned())) } else { Ok(secrets) }
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Returns the signatures of a message, one of each secret.
fn sign(secrets: &[Vec<u8>], id: &str, time: &str, body: &str) -> String {
    let one = |secret: &Vec<u8>| {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
        mac.update(format!("{id}.{time}.{body}").as_bytes());
        Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
    };
    secrets.iter().filter_map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's own test suite.
    #[test]
    fn signatures_are_those_of_the_specification() {
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature =
            sign(&[secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", "{\"test\": 2432232314}");
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn attempts_end_after_half_a_day() {
        let mut delivery = Delivery { next: Some(0), ..Delivery::default() };
        let mut pauses = 0;
        while let Some(_next) = delivery.next {
            delivery.tried(Err(Refusal::of("500")));
            pauses += delivery.next.map_or(0, |next| next.saturating_sub(record::millis()));
        }
        assert_eq!((delivery.attempts, delivery.shown()["state"].as_str()), (ATTEMPTS, Some("failed")));
        assert!((12 * 3_600_000..15 * 3_600_000).contains(&pauses), "{pauses}");
    }
}
