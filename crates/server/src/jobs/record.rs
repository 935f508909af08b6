//! The record of a job, as stored on disk and as shown to clients.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{keys::Key, request::Request};
use crate::{
    Problem,
    client::{Client, EVERYTHING},
    request_id,
};

/// Name of the record in a job's folder.
pub(super) const FILE: &str = "job.json";
/// Name of the file with the progress of a running job.
pub(super) const PROGRESS: &str = "progress.json";
/// Maximum size of a record in bytes; larger than any request.
const LARGEST: u64 = 64 << 20;

/// The state of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Waiting for its turn.
    Queued,
    Running,
    /// Interrupted because its instance stopped or was killed; another instance resumes it, or the next start.
    Parked,
    Done,
    Failed,
    Cancelled,
}

impl State {
    pub(crate) const ALL: [Self; 6] =
        [Self::Queued, Self::Running, Self::Parked, Self::Done, Self::Failed, Self::Cancelled];

    /// Returns whether the job has ended and cannot resume.
    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// Returns the name in JSON and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Parked => "parked",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Progress of a job, in numbers of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) listed: u64,
    pub(crate) read: u64,
    pub(crate) failed: u64,
    /// Number of all files, once the listing is complete.
    pub(crate) total: Option<u64>,
}

/// Progress that was made since the record was written.
#[derive(Serialize, Deserialize)]
struct Latest {
    version: u64,
    progress: Progress,
}

/// Why a job failed, with the members of a problem document.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) code: String,
    pub(crate) detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl From<Problem> for Fault {
    fn from(Problem { code, detail, hint, .. }: Problem) -> Self {
        Self { code: code.to_string(), detail, hint }
    }
}

/// The complete record of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Identifier, which sorts by time of creation.
    pub(crate) id: String,
    /// Grows with every change, also when another instance takes the job over: the time of the change in milliseconds,
    /// or the previous version plus one.
    #[serde(default)]
    pub(crate) version: u64,
    pub(crate) state: State,
    /// Name of the client that submitted the job, and owns it.
    #[serde(default)]
    pub(crate) client: String,
    /// Idempotency key of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<Key>,
    /// Prefixes that the client could read; `None` if it could read everything that the service allows.
    #[serde(default)]
    pub(crate) prefixes: Option<Vec<String>>,
    /// Number of times that an instance was killed while it ran the job.
    #[serde(default)]
    pub(crate) crashes: u32,
    /// Time of submission (RFC 3339).
    pub(crate) created: String,
    pub(crate) started: Option<String>,
    pub(crate) ended: Option<String>,
    pub(crate) progress: Progress,
    pub(crate) error: Option<Fault>,
    /// Summary of the result: counts and notes.
    pub(crate) summary: Option<Value>,
    #[serde(with = "shared")]
    pub(crate) request: Arc<Request>,
}

/// Serializes a shared request as the request itself.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Request;

    pub(super) fn serialize<S: Serializer>(request: &Arc<Request>, to: S) -> Result<S::Ok, S::Error> {
        request.as_ref().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Request>, D::Error> {
        Request::deserialize(from).map(Arc::new)
    }
}

impl Record {
    pub(crate) fn new(id: String, client: &Client, key: Option<Key>, request: Request) -> Self {
        Self {
            id,
            version: millis(),
            client: client.name.clone(),
            key,
            prefixes: (client.access_key != EVERYTHING)
                .then(|| client.allowed.prefixes().into_iter().map(str::to_owned).collect()),
            crashes: 0,
            state: State::Queued,
            created: now(),
            started: None,
            ended: None,
            progress: Progress::default(),
            error: None,
            summary: None,
            request: Arc::new(request),
        }
    }

    /// Returns whether a client may see the job.
    pub(crate) fn is_visible_to(&self, client: &Client) -> bool {
        client.scopes.admin || self.client == client.name
    }

    /// Reads the record in a folder, with the current progress of a running job.
    pub(crate) fn load(folder: &Path) -> io::Result<Self> {
        let file = File::open(folder.join(FILE))?;
        if file.metadata()?.len() > LARGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut record: Self = serde_json::from_reader(io::BufReader::new(file))?;
        // Progress is not synchronized: after a failure of the machine, the file may be empty.
        if record.state == State::Running
            && let Ok(text) = std::fs::read(folder.join(PROGRESS))
            && let Ok(latest) = serde_json::from_slice::<Latest>(&text)
            && latest.version > record.version
        {
            (record.version, record.progress) = (latest.version, latest.progress);
        }
        Ok(record)
    }

    /// Writes the record atomically and durably.
    pub(crate) fn save(&self, folder: &Path) -> io::Result<()> {
        write_whole(&folder.join(FILE), |file| Ok(serde_json::to_writer(file, self)?))
    }

    /// Writes the progress atomically.
    pub(crate) fn save_progress(&self, folder: &Path) -> io::Result<()> {
        let latest = Latest { version: self.version, progress: self.progress };
        let path = folder.join(PROGRESS);
        let mut file = temporary(&path)?;
        serde_json::to_writer(&mut file, &latest)?;
        file.persist(path).map(drop).map_err(|error| error.error)
    }

    /// Gives the record a new version.
    pub(crate) fn touch(&mut self) {
        self.version = millis().max(self.version.saturating_add(1));
    }

    /// Ends the job.
    pub(crate) fn end(&mut self, state: State, error: Option<Problem>) {
        self.state = state;
        self.error = error.map(Into::into);
        self.ended = state.is_over().then(now);
    }

    /// Returns the record as clients see it, without the request.
    pub(crate) fn shown(&self) -> Value {
        let mut shown = json!({
            "id": self.id,
            "kind": self.request.kind,
            "state": self.state,
            "created": self.created,
            "started": self.started,
            "ended": self.ended,
            "progress": self.progress,
            "links": links(&self.id),
        });
        let Some(members) = shown.as_object_mut() else { return shown };
        if !self.request.labels.is_empty() {
            members.insert("labels".to_owned(), json!(self.request.labels));
        }
        if let Some(error) = &self.error {
            members.insert("error".to_owned(), json!(error));
        }
        if self.state == State::Done {
            let at = self.request.output.clone().unwrap_or_else(|| format!("/v1/jobs/{}/result", self.id));
            let name = if self.request.output.is_some() { "output" } else { "result" };
            let result = json!({"links": {name: at}, "summary": self.summary});
            members.insert("result".to_owned(), result);
        }
        shown
    }
}

/// Returns the paths of a job's endpoints.
pub(crate) fn links(id: &str) -> Value {
    let this = format!("/v1/jobs/{id}");
    json!({"self": this, "events": format!("{this}/events"), "result": format!("{this}/result")})
}

/// Creates an id, which starts with the time in milliseconds.
pub(crate) fn new_id() -> String {
    let tail: String = request_id::new().chars().take(8).collect();
    format!("{:012x}{tail}", millis())
}

/// Returns the time of creation of a job in milliseconds, which its id starts with.
pub(crate) fn created(id: &str) -> u64 {
    id.get(..12).and_then(|time| u64::from_str_radix(time, 16).ok()).unwrap_or(0)
}

/// Writes a file atomically and durably: writes and synchronizes a temporary file, then renames it.
pub(crate) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = temporary(path)?;
    let mut out = io::BufWriter::new(&mut file);
    write(&mut out)?;
    out.flush()?;
    drop(out);
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    virtualize_store::sync_folder(folder_of(path))
}

/// Creates the temporary file of a path. It has a fixed name, as a path has one writer at a time, so that a killed
/// process leaves no more than one.
fn temporary(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let name = format!(".{}.new", path.file_name().unwrap_or_default().display());
    let folder = folder_of(path);
    let _ = std::fs::remove_file(folder.join(&name));
    tempfile::Builder::new().prefix(&name).rand_bytes(0).tempfile_in(folder)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| Path::new("."))
}

/// Returns the current time in milliseconds since 1970.
pub(crate) fn millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the current time (RFC 3339, UTC).
pub(crate) fn now() -> String {
    let time = DateTime::from_timestamp_millis(i64::try_from(millis()).unwrap_or(i64::MAX));
    time.unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
}
