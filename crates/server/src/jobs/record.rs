//! What is known of a job, on disk and for clients.

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

/// The file of a job's folder that has the record.
const FILE: &str = "job.json";
/// Most bytes of it: a request has fewer.
const LARGEST: u64 = 64 << 20;

/// How far a job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// It waits for its turn.
    Queued,
    Running,
    /// The service stopped while it ran; it goes on where it was.
    Parked,
    Done,
    Failed,
    Cancelled,
}

impl State {
    pub(crate) const ALL: [Self; 6] =
        [Self::Queued, Self::Running, Self::Parked, Self::Done, Self::Failed, Self::Cancelled];

    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

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

/// Numbers of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) listed: u64,
    pub(crate) read: u64,
    pub(crate) failed: u64,
    /// Once the listing is at its end.
    pub(crate) total: Option<u64>,
}

/// Why a job came to no good end, as problems say it.
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

/// All of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Sorts by the time of creation.
    pub(crate) id: String,
    /// Whose it is: the reach of the client who made it.
    pub(crate) reach: String,
    pub(crate) state: State,
    /// The client who made it.
    #[serde(default)]
    pub(crate) client: String,
    /// How often the service was killed while it ran.
    #[serde(default)]
    pub(crate) crashes: u32,
    /// RFC 3339.
    pub(crate) created: String,
    pub(crate) started: Option<String>,
    pub(crate) ended: Option<String>,
    pub(crate) progress: Progress,
    pub(crate) error: Option<Fault>,
    /// What came of it, in numbers and notes.
    pub(crate) summary: Option<Value>,
    #[serde(with = "shared")]
    pub(crate) request: Arc<Request>,
}

/// A request as itself.
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

    /// Bytes of the record of a folder.
    pub(crate) fn size(folder: &Path) -> u64 {
        std::fs::metadata(folder.join(FILE)).map_or(0, |about| about.len())
    }

    /// Reads the record of a folder.
    pub(crate) fn load(folder: &Path) -> io::Result<Self> {
        let file = File::open(folder.join(FILE))?;
        if file.metadata()?.len() > LARGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(serde_json::from_reader(io::BufReader::new(file))?)
    }

    /// Writes it aside, and puts it in its place.
    pub(crate) fn save(&self, folder: &Path) -> io::Result<()> {
        write_whole(&folder.join(FILE), |file| Ok(serde_json::to_writer(file, self)?))
    }

    /// What clients see of it; all but the request.
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

    pub(crate) fn links(&self) -> Value {
        let this = format!("/v1/jobs/{}", self.id);
        json!({"self": this, "events": format!("{this}/events"), "result": format!("{this}/result")})
    }
}

/// Writes a file aside and puts it in its place when it is whole.
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
    // Only then is it found after the machine failed.
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    Ok(())
}

/// Milliseconds since 1970.
pub(crate) fn millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn now() -> String {
    let time = DateTime::from_timestamp_millis(i64::try_from(millis()).unwrap_or(i64::MAX));
    time.unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
}
