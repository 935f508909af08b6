//! The identifier of a request in logs and responses.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

use axum::http::{HeaderMap, HeaderName};

/// Header of the identifier, in requests and responses.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of an identifier that a client provides.
const LONGEST: usize = 128;

/// Returns the identifier that the client provides if it is a plain word, otherwise a new one.
pub(crate) fn of(headers: &HeaderMap) -> String {
    let given = headers.get(HEADER).and_then(|value| value.to_str().ok());
    let plain = |id: &&str| {
        (1..=LONGEST).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    given.filter(plain).map_or_else(new, str::to_owned)
}

/// Returns sixteen unpredictable hexadecimal digits.
pub(crate) fn new() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{:016x}", RandomState::new().hash_one(COUNT.fetch_add(1, Ordering::Relaxed)))
}
