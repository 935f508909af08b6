//! Errors as RFC 9457 has them.

use std::io;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use virtualize::{Error, ErrorClass, Notation, Remedy, StoreError};

use crate::api::{MEMBERS, PARAMETERS};

/// Why there is no answer: a status, a code that does not change, one line, and what can be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// HTTP status.
    pub status: StatusCode,
    /// Stable name.
    pub code: &'static str,
    /// One line.
    pub detail: String,
    /// What can be done, in one line.
    pub hint: Option<String>,
    /// Seconds after which to try again.
    pub retry_after: Option<u64>,
}

impl Problem {
    /// A problem.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), hint: None, retry_after: None }
    }

    /// A parameter that makes no sense.
    pub(crate) fn parameter(name: &str, reason: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "parameter", format!("{name}: {reason}"))
    }

    /// No such thing.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// Our own fault. What happened is in the log.
    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the service failed; the log says why")
    }

    /// A file of the service's own that could not be written or opened: that may pass. Nothing else of it is told.
    pub(crate) fn of_io(doing: &str, error: &io::Error) -> Self {
        tracing::error!("{doing}: {error}");
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                let detail = "the service has no disk space left for this now";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "disk", detail).retry_after(30)
            }
            _ if is_out_of_descriptors(&error.to_string()) => Self::no_descriptors(),
            _ => Self::internal(),
        }
    }

    fn no_descriptors() -> Self {
        let detail = "the service has too many files and connections open now";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).retry_after(2)
    }

    /// The source is another than before.
    pub(crate) fn changed(name: &str) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "source-changed",
            format!("{name}: the file changed since it was opened"),
        )
        .hint("open it again, under a url with its version (/v1/inspect says it)")
    }

    /// The same with advice.
    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same with what the client can do, if it can do anything.
    #[must_use]
    pub(crate) fn remedy(self, remedy: Option<Remedy>) -> Self {
        Self { hint: remedy.and_then(|remedy| remedy.render(MEMBERS)), ..self }
    }

    /// The same with a time.
    #[must_use]
    pub(crate) fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds.max(1)), ..self }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::of_error(&error, PARAMETERS)
    }
}

impl Problem {
    /// What the library refused, with its remedy in the notation of the request. The text of a store may name machines and
    /// accounts, so it goes to the log only.
    pub(crate) fn of_error(error: &Error, notation: Notation) -> Self {
        tracing::debug!("{error}");
        let (status, code) = kind(error);
        if code == "source-unavailable" && is_out_of_descriptors(&error.to_string()) {
            tracing::error!("{error}");
            return Self::no_descriptors();
        }
        let detail = match error {
            Error::Store(StoreError::Denied { name, .. }) => {
                format!("{name}: the store does not let the service read it")
            }
            Error::Store(StoreError::Unavailable { name, reason }) => {
                tracing::warn!("{name}: {reason}");
                format!("{name}: the store cannot be reached, or failed")
            }
            other if matches!(code, "source-denied" | "source-unavailable") => {
                tracing::warn!("{other}");
                "the store cannot be reached, or failed".to_owned()
            }
            other => other.to_string(),
        };
        let hint = match code {
            "source-denied" | "not-allowed" | "url" => None,
            _ => error.remedy().and_then(|remedy| remedy.render(notation)),
        };
        Self { status, code, detail, hint, retry_after: None }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Error::from(error).into()
    }
}

/// Whether the process, or the machine, has no file descriptors left: EMFILE (24) and ENFILE (23), which come as text
/// from within the clients of stores.
fn is_out_of_descriptors(text: &str) -> bool {
    text.contains("(os error 24)") || text.contains("(os error 23)")
}

fn kind(error: &Error) -> (StatusCode, &'static str) {
    match error {
        Error::Store(StoreError::NotAllowed { .. }) => return (StatusCode::FORBIDDEN, "not-allowed"),
        Error::Store(StoreError::Location { .. }) => return (StatusCode::BAD_REQUEST, "url"),
        Error::Store(StoreError::Unavailable { reason, .. }) if reason.contains("timed out") => {
            return (StatusCode::GATEWAY_TIMEOUT, "source-unavailable");
        }
        Error::Store(StoreError::NoRanges { .. }) => return (StatusCode::UNPROCESSABLE_ENTITY, "no-ranges"),
        Error::Store(StoreError::Option { .. }) => return (StatusCode::BAD_GATEWAY, "source-unavailable"),
        Error::Format { .. } => return (StatusCode::UNPROCESSABLE_ENTITY, "format"),
        _ => {}
    }
    match error.class() {
        ErrorClass::Usage => (StatusCode::BAD_REQUEST, "parameter"),
        ErrorClass::NotFound => (StatusCode::NOT_FOUND, "source-not-found"),
        ErrorClass::Denied => (StatusCode::FORBIDDEN, "source-denied"),
        ErrorClass::Changed => (StatusCode::CONFLICT, "source-changed"),
        ErrorClass::Unavailable if matches!(error, Error::Emit { .. }) => {
            (StatusCode::UNPROCESSABLE_ENTITY, "references")
        }
        ErrorClass::Unavailable => (StatusCode::BAD_GATEWAY, "source-unavailable"),
        ErrorClass::File | ErrorClass::BrokenPipe => (StatusCode::UNPROCESSABLE_ENTITY, "file"),
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut document = json!({
            "type": format!("urn:virtualize:problem:{}", self.code),
            "title": self.status.canonical_reason().unwrap_or("error"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": one_line(&self.detail),
        });
        if let (Some(hint), Some(members)) = (&self.hint, document.as_object_mut()) {
            members.insert("hint".to_owned(), one_line(hint).into());
        }
        let mut response = (self.status, document.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Text from a file or a client without control characters, and not too long.
fn one_line(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c });
    shown.take(1000).collect()
}
