//! Errors as problem documents (RFC 9457).

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;
use virtualize::{Code, Error, ErrorClass, Notation, StoreError};

/// Mapping options that every endpoint for a source accepts as parameters. The service itself sets the others, such as
/// the HDF5 reader and the total size of inline chunks.
pub(crate) const MAPPING: [&str; 18] = [
    "chunk-grid",
    "complex-integers",
    "dmrpp",
    "follow-external",
    "format",
    "ifd",
    "inline",
    "inline-limit",
    "missing-value-convention",
    "ome-zarr",
    "ragged",
    "readable-by",
    "sidecars",
    "spatial-conventions",
    "split-contiguous",
    "stack-pages",
    "strict",
    "unpack",
];

/// Names options in remedies as query parameters: `chunk-grid=rectilinear`.
pub(crate) const PARAMETERS: Notation = Notation(|option, value| {
    let name = option.as_str().replace('_', "-");
    let shown = value.map_or_else(|| name.clone(), |value| format!("{name}={value}"));
    MAPPING.contains(&name.as_str()).then_some(shown)
});

/// An error response: status, stable code, one line of detail, and a hint for the client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// HTTP status.
    pub status: StatusCode,
    /// Stable name of the error.
    pub code: Code,
    /// What failed, in one line.
    pub detail: String,
    /// What the client can do, in one line.
    pub hint: Option<String>,
    /// Seconds after which to retry.
    pub retry_after: Option<u64>,
}

impl Problem {
    /// Creates a problem.
    pub fn new(status: StatusCode, code: Code, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), hint: None, retry_after: None }
    }

    /// Reports an invalid parameter.
    pub(crate) fn parameter(name: &str, reason: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::Parameter, format!("{name}: {reason}"))
    }

    /// Reports something that does not exist.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, Code::NotFound, detail)
    }

    /// Reports an internal error, whose cause goes to the log only.
    pub(crate) fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            Code::Internal,
            "internal error; see the log of the service",
        )
    }

    /// Reports that the service lacks something at the moment.
    pub(crate) fn busy(detail: &str, retry_after: u64) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, Code::Busy, detail).retry_after(retry_after)
    }

    /// Reports that chunks or selections are too large to be decoded.
    pub(crate) fn chunk_size(detail: String) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, Code::ChunkSize, detail)
    }

    /// Reports that a source is no longer the version that was served.
    pub(crate) fn changed(name: &str) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            Code::SourceChanged,
            format!("{name}: the file changed since it was opened"),
        )
        .hint("open it again under a new URL: /v1/zarr/{source} redirects to the current version")
    }

    /// Reports that a response was not ready in time.
    pub(crate) fn late() -> Self {
        let detail = "the response was not ready in time";
        Self::new(StatusCode::GATEWAY_TIMEOUT, Code::Time, detail).retry_after(10)
    }

    /// Reports that too many requests are in progress.
    pub(crate) fn overloaded() -> Self {
        Self::busy("too many requests in progress", 1)
    }

    /// Adds a hint.
    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds the time after which to retry.
    #[must_use]
    pub(crate) fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds.max(1)), ..self }
    }
}

/// Converts an error of the library, with its remedy in the notation of query parameters. The text of a store may name
/// machines and accounts, so it goes to the log only.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        tracing::debug!("{error}");
        let (status, code) = kind(&error);
        let text = error.to_string();
        // EMFILE and ENFILE, which clients of stores report as text.
        let is_out_of_descriptors = text.contains("(os error 24)") || text.contains("(os error 23)");
        if code == Code::SourceUnavailable && is_out_of_descriptors {
            tracing::error!("{error}");
            return Self::busy("the service has too many files and connections open at the moment", 2);
        }
        let detail = match &error {
            Error::Store(StoreError::Denied { name, .. }) => {
                format!("{name}: the store denies access to the service")
            }
            Error::Store(StoreError::Unavailable { name, reason }) => {
                tracing::warn!("{name}: {reason}");
                format!("{name}: the store failed or cannot be reached")
            }
            _ if matches!(code, Code::SourceDenied | Code::SourceUnavailable) => {
                tracing::warn!("{text}");
                "the store failed or cannot be reached".to_owned()
            }
            _ => text,
        };
        let hint = match code {
            Code::SourceDenied | Code::NotAllowed | Code::Url => None,
            _ => error.remedy().and_then(|remedy| remedy.render(PARAMETERS)),
        };
        Self { status, code, detail, hint, retry_after: None }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Error::from(error).into()
    }
}

/// Returns the status and the code of an error: the code of the library, where the service has no word of its own.
fn kind(error: &Error) -> (StatusCode, Code) {
    let code = error.code();
    let is_timeout =
        matches!(error, Error::Store(StoreError::Unavailable { reason, .. }) if reason.contains("timed out"));
    match (error.class(), code) {
        (_, Code::Url) => (StatusCode::BAD_REQUEST, code),
        (_, Code::NoRanges | Code::OutputFailed) => (StatusCode::UNPROCESSABLE_ENTITY, code),
        _ if matches!(error, Error::Store(StoreError::Option { .. })) => {
            (StatusCode::BAD_GATEWAY, Code::SourceUnavailable)
        }
        (ErrorClass::Usage | ErrorClass::Conflict, _) => (StatusCode::BAD_REQUEST, Code::Parameter),
        (ErrorClass::NotFound, _) => (StatusCode::NOT_FOUND, code),
        (ErrorClass::Denied, _) => (StatusCode::FORBIDDEN, code),
        (ErrorClass::Changed, _) => (StatusCode::CONFLICT, code),
        (ErrorClass::Unavailable, _) if is_timeout => (StatusCode::GATEWAY_TIMEOUT, Code::SourceUnavailable),
        (ErrorClass::Unavailable, _) => (StatusCode::BAD_GATEWAY, Code::SourceUnavailable),
        (ErrorClass::File | ErrorClass::BrokenPipe, _) => (StatusCode::UNPROCESSABLE_ENTITY, code),
    }
}

/// A problem document (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Document {
    /// `urn:virtualize:` and the code.
    #[serde(rename = "type")]
    kind: String,
    /// Name of the status.
    title: &'static str,
    /// HTTP status.
    status: u16,
    /// Stable code of the problem. Each has a section on the troubleshooting page.
    code: &'static str,
    /// What failed and why, in one line.
    detail: String,
    /// What the client can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let document = Document {
            kind: format!("urn:virtualize:{}", self.code.as_str()),
            title: self.status.canonical_reason().unwrap_or("error"),
            status: self.status.as_u16(),
            code: self.code.as_str(),
            detail: one_line(&self.detail),
            hint: self.hint.as_deref().map(one_line),
        };
        let mut response =
            (self.status, serde_json::to_string(&document).unwrap_or_default()).into_response();
        // For the log.
        response.extensions_mut().insert(self.code);
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
