use std::{borrow::Cow, io};

use virtualize_bytes::{ReadError, ReadErrorKind};
use virtualize_remedy::{OptionName, Remedy};

use crate::Identity;

/// Error of opening, reading or writing a file. Each message is one line that names the file as the user did, without
/// the query of its URL, which may contain a signature.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreError {
    /// The file, object or bucket does not exist.
    #[error("{name}: not found")]
    NotFound {
        /// The file.
        name: String,
    },
    /// Credentials are missing or insufficient.
    #[error("{name}: access denied: {reason}{}", identity.as_ref().map(|it| format!("; {it}")).unwrap_or_default())]
    Denied {
        /// The file.
        name: String,
        /// Reason given by the store.
        reason: String,
        /// Whose identity the request had; `None` for a local file, and for a store of the caller.
        identity: Option<Identity>,
    },
    /// The file is outside the allowed prefixes.
    #[error("{name}: not allowed here")]
    NotAllowed {
        /// The file.
        name: String,
    },
    /// The bucket is in another region than the configured one.
    #[error("{name}: the bucket is in region {region}, not in the configured one")]
    Region {
        /// The file.
        name: String,
        /// Region of the bucket.
        region: String,
    },
    /// The file changed after it was opened.
    #[error("{name}: the file changed while it was read: {reason}")]
    Changed {
        /// The file.
        name: String,
        /// What differs.
        reason: String,
    },
    /// The path is a directory, a pipe or a device.
    #[error("{name}: {what}, expected a file")]
    NotAFile {
        /// The path.
        name: String,
        /// Kind of the path.
        what: &'static str,
    },
    /// The folder or prefix to write to is not empty.
    #[error("{name}: {}", occupied(foreign.as_deref()))]
    Occupied {
        /// The folder or prefix.
        name: String,
        /// What it contains that is not part of an output, and therefore never replaced.
        foreign: Option<String>,
    },
    /// Another process, or another job of this one, is writing the output.
    #[error("{name}: another process is writing it")]
    Locked {
        /// The output.
        name: String,
    },
    /// The path or URL is not valid.
    #[error("{name}: {reason}")]
    Location {
        /// The location.
        name: String,
        /// Why.
        reason: String,
    },
    /// An option is not valid for this store.
    #[error("store option {key}: {reason}")]
    Option {
        /// Its key.
        key: String,
        /// Why.
        reason: String,
    },
    /// The server does not support range requests, and the file is too large to download whole.
    #[error("{name}: the server does not support range requests, and the file is larger than {limit} bytes")]
    NoRanges {
        /// The file.
        name: String,
        /// Maximum bytes that are downloaded whole.
        limit: u64,
    },
    /// Readers of references cannot read the file from its server.
    #[error("{name}: {reason}")]
    Unreadable {
        /// The file.
        name: String,
        /// What the server lacks.
        reason: &'static str,
    },
    /// A web server sent a page instead of the file, such as a login form.
    #[error("{name}: the server sent an HTML page instead of the file")]
    Page {
        /// The file.
        name: String,
    },
    /// The network, the disk or the store failed, after all retries.
    #[error("{name}: {reason}")]
    Unavailable {
        /// The file.
        name: String,
        /// What failed.
        reason: String,
    },
}

fn occupied(foreign: Option<&str>) -> String {
    match foreign {
        Some(foreign) => format!("contains {foreign}, which is not part of an output of virtualize"),
        None => "already exists and is not empty".to_owned(),
    }
}

impl StoreError {
    /// Returns the error's class, which determines exit status and retries.
    pub fn kind(&self) -> ReadErrorKind {
        match self {
            Self::NotFound { .. } => ReadErrorKind::NotFound,
            // The user may renew them at any time.
            Self::Denied { reason, .. } if reason.starts_with(EXPIRED) => ReadErrorKind::Unavailable,
            Self::Denied { .. } | Self::NotAllowed { .. } => ReadErrorKind::Denied,
            Self::Changed { .. } => ReadErrorKind::Changed,
            Self::NotAFile { .. }
            | Self::Occupied { .. }
            | Self::Location { .. }
            | Self::Option { .. }
            | Self::Region { .. }
            | Self::NoRanges { .. }
            | Self::Unreadable { .. } => ReadErrorKind::Invalid,
            Self::Page { .. } | Self::Locked { .. } | Self::Unavailable { .. } => ReadErrorKind::Unavailable,
        }
    }

    /// Returns what the user can do.
    pub fn remedy(&self) -> Option<Remedy> {
        let advice = match self {
            Self::Denied { reason, .. } if reason.starts_with(EXPIRED) => {
                "get new credentials, such as a new session token, and run again"
            }
            Self::Denied { name, identity, .. } => return Some(denied_remedy(name, identity.as_ref())),
            Self::Occupied { foreign: Some(_), .. } => "choose another output",
            Self::Occupied { foreign: None, .. } => {
                let overwrite = Remedy::turn_on(OptionName::Overwrite, "replace it");
                return Some(overwrite.or(Remedy::advice("choose another output")));
            }
            Self::NotFound { name } if name.contains('*') => "name one file; batch and scan take patterns",
            Self::NotFound { name } if !name.contains("://") => "check the path",
            Self::NotFound { .. } => "check the url; a private store may hide files without credentials",
            Self::Region { .. } => "set AWS_REGION to that region, or unset it to detect the region",
            Self::Changed { name, .. } if name.starts_with("http") => {
                "run again when the file is complete; if mirrors of different versions serve it, name one of them"
            }
            Self::Changed { .. } => "run again when the file is complete",
            Self::NoRanges { .. } => "download the file first",
            Self::Unreadable { .. } => {
                let inline = Remedy::set(OptionName::Inline, "256M", "inline the chunks of a small file");
                return Some(inline.or(Remedy::advice("put the file on a server that supports ranges")));
            }
            Self::Page { name } if name.ends_with('/') => {
                "a folder of a web server cannot be listed: give the URLs of files, a list of them, or a STAC catalogue"
            }
            Self::Page { .. } => "check the URL, whether it needs a login, and whether the service is down",
            Self::Option { key, .. } if key == "endpoint" || key.contains(['-', ' ']) => return None,
            Self::Option { .. } => "see the configuration keys of object_store for this kind of store",
            Self::Locked { .. } => "wait until that process ends, or choose another output",
            Self::Unavailable { reason, .. } if reason.contains("Connection refused") => {
                "check the endpoint, and whether its server is running"
            }
            Self::NotAFile { .. }
            | Self::NotAllowed { .. }
            | Self::Location { .. }
            | Self::Unavailable { .. } => return None,
        };
        Some(Remedy::advice(advice))
    }

    /// Returns the error for a path or URL that is not valid.
    pub fn location(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Location { name: name.into(), reason: reason.into() }
    }

    /// Returns the error for a failure of the network, the disk or the store.
    pub fn unavailable(name: impl Into<String>, reason: impl ToString) -> Self {
        Self::Unavailable { name: name.into(), reason: reason.to_string() }
    }

    /// Returns the error for a server that sends files only as a whole.
    pub fn without_ranges(name: String) -> Self {
        Self::Unreadable { name, reason: "the server ignores range requests, so references cannot be read" }
    }

    /// Returns a function that converts errors of the local file system about `name`.
    pub(crate) fn at(name: &str) -> impl Fn(io::Error) -> Self + use<> {
        let name = name.to_owned();
        move |error| Self::io(&name, &error)
    }

    /// Converts an error of the local file system.
    pub fn io(name: &str, error: &io::Error) -> Self {
        let name = name.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::NotFound { name },
            io::ErrorKind::PermissionDenied => {
                Self::Denied { name, reason: error.to_string(), identity: None }
            }
            io::ErrorKind::IsADirectory => Self::NotAFile { name, what: "a directory" },
            _ => Self::Unavailable { name, reason: error.to_string() },
        }
    }

    /// Converts an error of a store of the caller.
    pub(crate) fn foreign(name: &str, error: &ReadError) -> Self {
        let (name, reason) = (name.to_owned(), one_line(&error.message));
        match error.kind {
            ReadErrorKind::NotFound => Self::NotFound { name },
            ReadErrorKind::Denied => Self::Denied { name, reason, identity: None },
            ReadErrorKind::Changed => Self::Changed { name, reason },
            ReadErrorKind::Invalid => Self::Location { name, reason },
            _ => Self::Unavailable { name, reason },
        }
    }

    /// Converts an error of an object store.
    pub(crate) fn remote(name: &str, error: &object_store::Error) -> Self {
        use object_store::Error as E;
        if let Some(ours) = of_ours(error) {
            return ours.of_file(name);
        }
        let name = name.to_owned();
        let message = reason(error);
        if let Some(expired) = expired(&name, &message) {
            return expired;
        }
        match error {
            E::NotFound { .. } => Self::NotFound { name },
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
                Self::Denied { name, reason: message, identity: None }
            }
            E::Precondition { .. } => Self::Changed { name, reason: "its etag differs".to_owned() },
            E::InvalidPath { .. } => Self::Location { name, reason: message },
            E::UnknownConfigurationKey { key, .. } => {
                Self::Option { key: key.clone(), reason: "unknown".to_owned() }
            }
            // These have no class of their own.
            _ if NO_CREDENTIALS.iter().any(|word| message.contains(word)) => {
                Self::Denied { name, reason: format!("no credentials found: {message}"), identity: None }
            }
            _ if message.contains("configured region") => {
                Self::unavailable(name, "the bucket is in another region: set AWS_REGION")
            }
            _ => Self::Unavailable { name, reason: message },
        }
    }

    /// Returns the error for a file that cannot be read because of this one: of a provider of credentials, or of a login.
    pub(crate) fn of_file(self, file: &str) -> Self {
        let file = file.to_owned();
        let completed = |name: &str, reason: &str| {
            if name == file { reason.to_owned() } else { format!("{name}: {reason}") }
        };
        match self {
            Self::Denied { name, reason, identity } => {
                Self::Denied { reason: completed(&name, &reason), identity, name: file }
            }
            Self::NotFound { name } => {
                Self::location(file, format!("{name}: no credentials are issued there"))
            }
            Self::Unavailable { name, reason } => {
                Self::Unavailable { reason: completed(&name, &reason), name: file }
            }
            Self::Location { name, reason } => {
                Self::Location { reason: completed(&name, &reason), name: file }
            }
            other => other,
        }
    }

    /// Adds the identity of the request to an error about access, unless it has one.
    pub(crate) fn with_identity(self, of: impl FnOnce() -> Identity) -> Self {
        match self {
            Self::Denied { name, reason, identity: None } => {
                Self::Denied { name, reason, identity: Some(of()) }
            }
            other => other,
        }
    }

    /// Reports a response that ended early.
    pub(crate) fn broken(name: &str, error: &object_store::Error) -> Self {
        Self::unavailable(name, format!("the response ended early: {}", reason(error)))
    }
}

/// Words in the errors of object_store if there are no credentials.
const NO_CREDENTIALS: [&str; 5] = ["169.254.169.254", "credential", "metadata.google", "OAuth", "oauth"];
/// Start of the reason for credentials that are no longer valid.
const EXPIRED: &str = "the credentials expired";
/// The codes of S3 and of Google's token service for this.
const EXPIRED_CODES: [&str; 4] = ["ExpiredToken", "TokenRefreshRequired", "RequestExpired", "invalid_grant"];

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self { remedy: error.remedy().map(Box::new), ..Self::new(error.kind(), error.to_string()) }
    }
}

/// Returns what helps if a request with an identity is denied.
fn denied_remedy(name: &str, identity: Option<&Identity>) -> Remedy {
    let anonymous = Remedy::turn_on(OptionName::Anonymous, "read a public bucket");
    let scheme = name.split_once("://").map(|(scheme, _)| scheme);
    let advice = match (scheme, identity) {
        (Some("file") | None, _) => "check the permissions of the file and its folders".to_owned(),
        (_, Some(Identity::NoLogin(host))) => {
            format!("set EARTHDATA_TOKEN, or add `machine {host} login USER password PASSWORD` to ~/.netrc")
        }
        (_, Some(Identity::Earthdata(source))) if source == "EARTHDATA_TOKEN" => {
            "generate a new token at https://urs.earthdata.nasa.gov, and accept the licence of the data there".to_owned()
        }
        (_, Some(Identity::Earthdata(_))) => {
            "sign in at https://urs.earthdata.nasa.gov, and check the password and the approved applications".to_owned()
        }
        (_, Some(Identity::Issued(_))) if scheme == Some("s3") => {
            "NASA's buckets can be read directly only in the AWS region us-west-2: elsewhere, use the https URL of the file"
                .to_owned()
        }
        (Some("s3" | "s3a"), Some(Identity::Profile(profile))) => {
            format!("sign in with `aws sso login --profile {profile}`, or use another profile")
        }
        (Some("s3" | "s3a"), identity) => {
            let pays =
                Remedy::set(OptionName::StoreOption, "aws_request_payer=true", "pay for a requester-pays bucket");
            let keys = Remedy::advice("set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
            return match identity {
                Some(Identity::Anonymous) => keys.or(pays),
                _ => keys.or(anonymous).or(pays),
            };
        }
        (Some("gs"), _) => "set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`".to_owned(),
        (Some("http" | "https"), Some(Identity::Nobody)) if name.contains(".blob.core.windows.net/") => {
            "set `sas-tokens` for this container in the options file".to_owned()
        }
        (Some("http" | "https"), _) => {
            let token = Remedy::turn_on(OptionName::BearerToken, "send a token");
            return token.or(Remedy::advice("set VIRTUALIZE_BEARER_TOKEN"));
        }
        (Some(_), _) => "set AZURE_STORAGE_ACCOUNT_NAME and a key".to_owned(),
    };
    let is_public =
        matches!(scheme, Some("gs" | "az" | "abfs" | "abfss")) && identity != Some(&Identity::Anonymous);
    let remedy = Remedy::advice(advice);
    if is_public { remedy.or(anonymous) } else { remedy }
}

/// Wraps an error of this crate for `object_store`.
pub(crate) fn foreign(error: StoreError) -> object_store::Error {
    object_store::Error::Generic { store: "credentials", source: Box::new(error) }
}

/// Returns the error of this crate that caused another one.
pub(crate) fn of_ours(error: &(dyn std::error::Error + 'static)) -> Option<StoreError> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref()).cloned()
}

/// Returns the error for expired credentials, if that is what the text of a response says.
pub(crate) fn expired(name: &str, message: &str) -> Option<StoreError> {
    let code = EXPIRED_CODES.iter().find(|code| message.contains(*code))?;
    Some(StoreError::Denied { name: name.to_owned(), reason: format!("{EXPIRED} ({code})"), identity: None })
}

/// Returns the innermost causes of a store's error in one line, without URLs, whose queries may contain signatures.
fn reason(error: &object_store::Error) -> String {
    let text = innermost(error);
    let text = without_markup(&text);
    let after = text.strip_prefix("Error performing ").and_then(|rest| rest.split_once(" - "));
    let message = after.map_or(text.as_ref(), |(_, message)| message);
    let message = message.strip_prefix("Server returned non-2xx status code: ").unwrap_or(message);
    // The response's body follows the status, and may be empty.
    one_line(message.trim_end_matches([':', ' ']))
}

/// Returns the text of the innermost cause of an error, or of the one before if that ends in it.
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string);
    match causes.collect::<Vec<_>>().as_slice() {
        [_, .., before, last] if before.ends_with(last.as_str()) => before.clone(),
        [.., last] => last.clone(),
        [] => String::new(),
    }
}

/// Returns the status of a response in one line, with what its error document says.
pub(crate) fn with_document(status: &str, document: &str) -> String {
    let message = without_markup(document);
    match message.trim() {
        "" => status.to_owned(),
        message if message.starts_with('<') => status.to_owned(),
        message => one_line(&format!("{status}: {message}")),
    }
}

/// Reduces an error document of S3 or Azure to its code and message.
fn without_markup(text: &str) -> Cow<'_, str> {
    let Some(start) = text.find("<?xml").or_else(|| text.find("<Error>")) else { return text.into() };
    let (before, document) = text.split_at(start);
    let part = |name: &str| {
        let (_, rest) = document.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(part, _)| part)
    };
    match (part("Code"), part("Message")) {
        (Some(code), Some(message)) => format!("{before}{code}: {message}").into(),
        (Some(code), None) => format!("{before}{code}").into(),
        _ => text.into(),
    }
}

/// Removes line breaks, queries of URLs and the tail of long bodies from text.
pub(crate) fn one_line(text: &str) -> String {
    let words = text.split_whitespace().map(without_query);
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(300) {
        Some((cut, _)) => format!("{}…", line.get(..cut).unwrap_or_default()),
        None => line,
    }
}

/// Removes the query of a URL; returns other words unchanged.
pub(crate) fn without_query(word: &str) -> &str {
    match word.split_once("://") {
        Some(_) => word.split_once('?').map_or(word, |(start, _)| start),
        None => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedy(error: &StoreError) -> String {
        error
            .remedy()
            .and_then(|remedy| remedy.render(virtualize_remedy::Notation::default()))
            .unwrap_or_default()
    }

    #[test]
    fn an_endpoint_without_tls_or_without_a_server_is_named_as_the_cause() {
        let refused =
            StoreError::unavailable("s3://bucket/key", "Connection refused (os error 111) (tried 6 times)");
        assert!(remedy(&refused).contains("check the endpoint"));
    }

    #[test]
    fn a_pattern_as_the_name_of_one_file_is_explained() {
        assert!(remedy(&StoreError::NotFound { name: "/data/*.nc".to_owned() }).contains("batch"));
    }
}
