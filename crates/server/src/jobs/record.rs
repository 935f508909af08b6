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

use super::request::Request;
use crate::Problem;

/// Name of the record in a job's folder.
const FILE: &str = "job.json";
/// Maximum size of a record in bytes; larger than any request.
const LARGEST: u64 = 64 << 20;

/// The state of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Waiting for its turn.
    Queued,
    Running,
    /// Interrupted by the service stopping; it resumes at the next start.
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
        Self { code: code.to_owned(), detail, hint }
    }
}

/// The complete record of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Identifier, which sorts by time of creation.
    pub(crate) id: String,
    /// Reach of the client that submitted the job; clients of the same reach may see it.
    pub(crate) reach: String,
    pub(crate) state: State,
    /// Name of the client that submitted the job.
    #[serde(default)]
    pub(crate) client: String,
    /// Number of times that the service was killed while the job ran.
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
    pub(crate) fn new(id: String, reach: String, client: String, request: Request) -> Self {
        Self {
            id,
            reach,
            client,
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

    /// Returns the size in bytes of the record in a folder.
    pub(crate) fn size(folder: &Path) -> u64 {
        std::fs::metadata(folder.join(FILE)).map_or(0, |about| about.len())
    }

    /// Reads the record in a folder.
    pub(crate) fn load(folder: &Path) -> io::Result<Self> {
        let file = File::open(folder.join(FILE))?;
        if file.metadata()?.len() > LARGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(serde_json::from_reader(io::BufReader::new(file))?)
    }

    /// Writes the record atomically and durably.
    pub(crate) fn save(&self, folder: &Path) -> io::Result<()> {
        write_whole(&folder.join(FILE), |file| Ok(serde_json::to_writer(file, self)?))
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
            "links": self.links(),
        });
        let Some(members) = shown.as_object_mut() else { return shown };
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

    /// Returns the paths of the job's endpoints.
    pub(crate) fn links(&self) -> Value {
        let this = format!("/v1/jobs/{}", self.id);
        json!({"self": this, "events": format!("{this}/events"), "result": format!("{this}/result")})
    }
}

/// Writes a file atomically: writes and syncs a temporary file, then renames it.
pub(crate) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let mut out = io::BufWriter::new(&mut file);
    write(&mut out)?;
    out.flush()?;
    drop(out);
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    // Without this, the rename may be lost if the machine fails.
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    Ok(())
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
