//! Idempotency keys (draft-ietf-httpapi-idempotency-key-header): a request that is repeated with its key gets the
//! answer of the first one. A job keeps its key; the keys of removed jobs are kept in a file of the folder for a day.

use std::{fs, io};

use axum::http::{HeaderMap, HeaderName, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use virtualize::Code;

use super::{
    folder::{Exclusive, Folder, Table},
    record::{self, Record},
};
use crate::Problem;

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// Name of the file with the keys of removed jobs.
const FILE: &str = "keys.json";
/// Maximum length of a key.
const LONGEST: usize = 255;
/// Time in milliseconds for which the key of a removed job is kept.
const DAY: u64 = 86_400_000;
/// Maximum number of keys of removed jobs, and of those of one client.
const KEPT: (usize, usize) = (10_000, 1000);

/// The key of a request, and the digest of its body.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Key {
    key: String,
    body: String,
}

/// The key of a removed job.
#[derive(Serialize, Deserialize)]
struct Removed {
    id: String,
    client: String,
    #[serde(flatten)]
    key: Key,
}

impl Key {
    /// Returns the key of a request: a string of RFC 8941, or plain text.
    pub(super) fn of(headers: &HeaderMap, body: &Value) -> Result<Option<Self>, Problem> {
        let mut values = headers.get_all(HEADER).iter();
        let Some(value) = values.next() else { return Ok(None) };
        let text = value.to_str().ok().map(str::trim).filter(|_| values.next().is_none());
        let unquoted = text.and_then(|text| match text.strip_prefix('"') {
            Some(rest) => rest.strip_suffix('"').filter(|inner| !inner.contains(['"', '\\'])),
            None => Some(text),
        });
        let fits = |key: &&str| (1..=LONGEST).contains(&key.len()) && !key.contains(|c: char| c.is_control());
        let key = unquoted.filter(fits).ok_or_else(|| {
            Problem::parameter("Idempotency-Key", format!("expected one key of 1 to {LONGEST} characters"))
        })?;
        let body = hex::encode(Sha256::digest(body.to_string()));
        Ok(Some(Self { key: key.to_owned(), body }))
    }
}

impl Folder {
    /// Returns the id of the job that a client submitted with a key. Fails with 422 if the request was another one.
    pub(super) fn submitted(
        &self,
        _: &Exclusive<'_>,
        table: &Table,
        client: &str,
        key: &Key,
    ) -> Result<Option<String>, Problem> {
        let is_same = |owner: &str, other: &Key| owner == client && other.key == key.key;
        let kept = table.values().map(|entry| &entry.record).find_map(|record| {
            let other = record.key.as_ref().filter(|other| is_same(&record.client, other))?;
            Some((record.id.clone(), other.clone()))
        });
        let found = match kept {
            Some(kept) => Some(kept),
            None => {
                let removed = self.removed().map_err(|error| super::failed(&error))?;
                let same = removed.into_iter().find(|one| is_same(&one.client, &one.key));
                same.map(|one| (one.id, one.key))
            }
        };
        match found {
            Some((_, other)) if other.body != key.body => {
                let detail = "the key was used for a request with another body";
                Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, Code::IdempotencyKey, detail)
                    .hint("use a new Idempotency-Key for each job"))
            }
            found => Ok(found.map(|(id, _)| id)),
        }
    }

    /// Keeps the key of a job that is about to be removed.
    pub(super) fn keep_key(&self, _: &Exclusive<'_>, record: &Record) -> io::Result<()> {
        let Some(key) = record.key.clone() else { return Ok(()) };
        let earliest = record::millis().saturating_sub(DAY);
        let mut all = self.removed()?;
        all.push(Removed { id: record.id.clone(), client: record.client.clone(), key });
        all.retain(|one| record::created(&one.id) >= earliest);
        let (most, of_client) = KEPT;
        let own = all.iter().filter(|one| one.client == record.client).count();
        if own > of_client
            && let Some(at) = all.iter().position(|one| one.client == record.client)
        {
            all.remove(at);
        }
        all.drain(..all.len().saturating_sub(most));
        record::write_whole(&self.path().join(FILE), |file| Ok(serde_json::to_writer(file, &all)?))
    }

    /// Returns the keys of removed jobs, oldest removal first.
    fn removed(&self) -> io::Result<Vec<Removed>> {
        match fs::read(self.path().join(FILE)) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn keys_are_quoted_or_plain() {
        let key = |text: &str| {
            let headers = HeaderMap::from_iter([(HEADER, HeaderValue::from_str(text).unwrap())]);
            Key::of(&headers, &Value::Null).map(|key| key.unwrap().key)
        };
        // The examples of the draft, section 2.1, and of Stripe's API.
        for text in ["\"8e03978e-40d5-43e8-bc93-6894a57f9324\"", "8e03978e-40d5-43e8-bc93-6894a57f9324"] {
            assert_eq!(key(text).as_deref(), Ok("8e03978e-40d5-43e8-bc93-6894a57f9324"));
        }
        for text in ["", "\"\"", "\"a", "\"a\\\"b\"", &"x".repeat(256)] {
            assert_eq!(key(text).unwrap_err().status, StatusCode::BAD_REQUEST, "{text}");
        }
        assert_eq!(Key::of(&HeaderMap::new(), &Value::Null), Ok(None));
    }
}
