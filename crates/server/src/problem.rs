//! Errors as problem documents (RFC 9457).

use std::io;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use virtualize::{Error, ErrorClass, Notation, Remedy, StoreError};

use crate::api::{MEMBERS, PARAMETERS};

/// An error response: status, stable code, one line of detail, and a hint for the client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// HTTP status.
    pub status: StatusCode,
    /// Stable name of the error.
    pub code: &'static str,
    /// What failed, in one line.
    pub detail: String,
    /// What the client can do, in one line.
    pub hint: Option<String>,
    /// Seconds after which to retry.
    pub retry_after: Option<u64>,
}

impl Problem {
    /// Creates a problem.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), hint: None, retry_after: None }
    }

    /// Reports an invalid parameter.
    pub(crate) fn parameter(name: &str, reason: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "parameter", format!("{name}: {reason}"))
    }

    /// Reports something that does not exist.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// Reports an internal error, whose cause goes to the log only.
    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "internal error; see the log of the service")
    }

    /// Reports that one of the service's own files could not be opened or written. The cause goes to the log only.
    pub(crate) fn of_io(doing: &str, error: &io::Error) -> Self {
        tracing::error!("{doing}: {error}");
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                let detail = "the service has no disk space left at the moment";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "disk", detail).retry_after(30)
            }
            _ if is_out_of_descriptors(&error.to_string()) => Self::no_descriptors(),
            _ => Self::internal(),
        }
    }

    fn no_descriptors() -> Self {
        let detail = "the service has too many files and connections open at the moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).retry_after(2)
    }

    /// Reports that a source is no longer the version that was served.
    pub(crate) fn changed(name: &str) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "source-changed",
            format!("{name}: the file changed since it was opened"),
        )
        .hint("open it again, under a URL with its version (from /v1/inspect)")
    }

    /// Adds a hint.
    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds the remedy as a hint, if there is one.
    #[must_use]
    pub(crate) fn remedy(self, remedy: Option<Remedy>) -> Self {
        Self { hint: remedy.and_then(|remedy| remedy.render(MEMBERS)), ..self }
    }

    /// Adds the time after which to retry.
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
    /// Converts an error of the library, with its remedy in the notation of the request. The text of a store may name
    /// machines and accounts, so it goes to the log only.
    pub(crate) fn of_error(error: &Error, notation: Notation) -> Self {
        tracing::debug!("{error}");
        let (status, code) = kind(error);
        if code == "source-unavailable" && is_out_of_descriptors(&error.to_string()) {
            tracing::error!("{error}");
            return Self::no_descriptors();
        }
        let detail = match error {
            Error::Store(StoreError::Denied { name, .. }) => {
                format!("{name}: the store denies access to the service")
            }
            Error::Store(StoreError::Unavailable { name, reason }) => {
                tracing::warn!("{name}: {reason}");
                format!("{name}: the store failed or cannot be reached")
            }
            other if matches!(code, "source-denied" | "source-unavailable") => {
                tracing::warn!("{other}");
                "the store failed or cannot be reached".to_owned()
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

/// Returns whether the process or the machine has run out of file descriptors: EMFILE (24) and ENFILE (23), which
/// clients of stores report as text.
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

/// Replaces control characters in text from a file or a client, and shortens it.
fn one_line(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c });
    shown.take(1000).collect()
}
