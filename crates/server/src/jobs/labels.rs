//! Labels of jobs, and the filters of the list.

use std::collections::BTreeMap;

use chrono::DateTime;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::record::{self, Record, State};
use super::request::Kind;
use crate::{Problem, query::Parameters};

/// Maximum number of labels.
const MOST: usize = 16;
/// Maximum length of a key and of a value, in bytes.
const LONGEST: (usize, usize) = (63, 255);

/// Returns the labels of a request.
pub(super) fn read(members: &Map<String, Value>) -> Result<BTreeMap<String, String>, Problem> {
    let Some(labels) = members.get("labels") else { return Ok(BTreeMap::new()) };
    let labels = BTreeMap::<String, String>::deserialize(labels)
        .map_err(|_| Problem::parameter("labels", "expected an object of texts"))?;
    if labels.len() > MOST {
        return Err(Problem::parameter("labels", format!("expected at most {MOST}")));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | '-');
    let (key, value) = LONGEST;
    if !labels.keys().all(|name| (1..=key).contains(&name.len()) && name.chars().all(is_plain)) {
        let reason = format!("expected keys of 1 to {key} letters, digits and . _ / -");
        return Err(Problem::parameter("labels", reason));
    }
    if labels.values().any(|text| text.len() > value || text.contains(char::is_control)) {
        let reason = format!("expected values of at most {value} bytes without control characters");
        return Err(Problem::parameter("labels", reason));
    }
    Ok(labels)
}

/// What a list of jobs contains.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// Id before which the list starts.
    before: Option<String>,
    state: Option<State>,
    kind: Option<Kind>,
    labels: Vec<(String, String)>,
    /// Earliest time of creation, and the time before which a job was created, in milliseconds.
    created: (Option<u64>, Option<u64>),
}

impl Filter {
    /// Names of the parameters.
    pub(super) const PARAMETERS: [&str; 6] =
        ["before", "created-after", "created-before", "kind", "label", "state"];

    /// Reads the parameters of a list.
    pub(super) fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let label = |text: &str| {
            let pair = text.split_once(':').map(|(name, value)| (name.to_owned(), value.to_owned()));
            pair.ok_or_else(|| Problem::parameter("label", "expected KEY:VALUE"))
        };
        Ok(Self {
            before: parameters.get("before").map(str::to_owned),
            state: one_of(parameters, "state")?,
            kind: one_of(parameters, "kind")?,
            labels: parameters.all("label").map(label).collect::<Result<_, _>>()?,
            created: (time(parameters, "created-after")?, time(parameters, "created-before")?),
        })
    }

    /// Returns whether the list contains a job.
    pub(super) fn holds(&self, record: &Record) -> bool {
        let created = record::created(&record.id);
        self.before.as_ref().is_none_or(|before| record.id < *before)
            && self.state.is_none_or(|state| record.state == state)
            && self.kind.is_none_or(|kind| record.request.kind == kind)
            && self.labels.iter().all(|(name, value)| record.request.labels.get(name) == Some(value))
            && self.created.0.is_none_or(|from| created >= from)
            && self.created.1.is_none_or(|to| created < to)
    }
}

/// Returns a parameter that is one of the names of a type.
fn one_of<T: for<'de> Deserialize<'de>>(parameters: &Parameters, name: &str) -> Result<Option<T>, Problem> {
    let value = parameters.get(name).map(Value::from);
    let parsed = value.map(T::deserialize).transpose();
    parsed.map_err(|error| {
        let expected = error.to_string();
        let expected = expected.rsplit_once("expected ").map_or("another value", |(_, names)| names);
        Problem::parameter(name, format!("expected {expected}"))
    })
}

/// Returns a parameter that is a time of RFC 3339, in milliseconds since 1970.
fn time(parameters: &Parameters, name: &str) -> Result<Option<u64>, Problem> {
    let Some(text) = parameters.get(name) else { return Ok(None) };
    // The offset's unescaped `+` arrives as a space.
    let time = DateTime::parse_from_rfc3339(&text.replace(' ', "+"));
    let time = time
        .map_err(|_| Problem::parameter(name, "expected a time of RFC 3339, such as 2026-01-31T12:00:00Z"))?;
    Ok(Some(u64::try_from(time.timestamp_millis()).unwrap_or(0)))
}
