//! Parser for pages of bucket listings. `object_store` fails on a page in which one key is not a valid path, and trims
//! keys.
//!
//! - S3 and Google (the same document): <https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html>
//! - Azure: <https://learn.microsoft.com/rest/api/storageservices/list-blobs>

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use chrono::DateTime;
use object_store::path::Path;
use percent_encoding::percent_decode_str;
use quick_xml::{
    Reader,
    escape::unescape,
    events::{BytesStart, Event},
};

use crate::{Listed, StoreError};

/// Maximum size of a page in bytes: a thousand keys of 1,024 bytes, each byte escaped, with their metadata.
const LARGEST: usize = 32 << 20;

/// Copy of a listing's response body, attached to the request as an extension.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken(Arc<Mutex<Bytes>>);

impl Taken {
    /// Stores the body.
    pub(crate) fn put(&self, body: Bytes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = body;
    }

    /// Returns the body; empty before a successful response.
    pub(crate) fn get(&self) -> Bytes {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A page of a listing, with unmodified keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Keys {
    /// Objects; `url` holds the key.
    pub(crate) objects: Vec<Listed>,
    /// Common prefixes, each with its trailing `/`.
    pub(crate) prefixes: Vec<String>,
    /// Continuation token of the next page.
    pub(crate) next: Option<String>,
}

/// Returns the path of a key. Rejects keys that cannot be requested unmodified: `Path` drops a `/` at either end, and
/// HTTP clients resolve steps such as `..` in URLs.
pub(crate) fn path(name: &str, key: &str) -> Result<Path, StoreError> {
    let reason = if key.is_empty() || key.ends_with('/') {
        "a key that ends in a slash names a folder, expected the key of an object"
    } else if key.split('/').any(str::is_empty) {
        "the key has an empty name beside a slash, which is not read here: copy the object to another key"
    } else if key.split('/').any(|part| matches!(part, "." | "..")) {
        "the key has a step such as `..`, which is not read here: copy the object to another key"
    } else if key.contains(|c: char| c.is_ascii_control()) {
        "the key has a control character, which is not read here: copy the object to another key"
    } else {
        let path = Path::parse(key).map_err(|error| StoreError::remote(name, &error.into()))?;
        if path.as_ref() == key {
            return Ok(path);
        }
        "the key cannot be asked for: copy the object to another key"
    };
    let name = name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    Err(StoreError::Location { name, reason: reason.to_owned() })
}

/// Why a document is not a page of a listing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum PageError {
    #[error("a page of {0} bytes, expected at most {LARGEST}")]
    Size(usize),
    #[error(transparent)]
    Text(#[from] std::str::Utf8Error),
    #[error("{0}")]
    Xml(String),
    #[error("&{0}; is not a character")]
    Reference(String),
    #[error("a document type declaration, expected none")]
    DocumentType,
    #[error("an object without a key")]
    NoKey,
    #[error("a prefix without a name")]
    NoPrefix,
    #[error("size {0:?} is not a number of bytes")]
    Length(String),
    #[error("time {0:?} is in neither the format of RFC 3339 nor that of RFC 1123")]
    Time(String),
    #[error("the key {0:?} is not UTF-8")]
    Escape(String),
    #[error("the response is not a listing, or is truncated")]
    Incomplete,
}

impl PageError {
    fn xml(error: impl ToString) -> Self {
        Self::Xml(error.to_string())
    }
}

/// Parses a page of a listing.
pub(crate) fn parse(document: &[u8]) -> Result<Keys, PageError> {
    if document.len() > LARGEST {
        return Err(PageError::Size(document.len()));
    }
    let text = std::str::from_utf8(document)?;
    let mut reader = Reader::from_str(text);
    let mut page = Page::default();
    loop {
        match reader.read_event().map_err(PageError::xml)? {
            Event::Start(start) => page.open(&start),
            Event::Empty(start) => {
                page.open(&start);
                page.close()?;
            }
            Event::End(_) => page.close()?,
            Event::Text(text) => page.text.push_str(&text),
            Event::CData(text) => page.text.push_str(&text),
            Event::GeneralRef(reference) => page.text.push_str(&resolved(&reference)?),
            Event::DocType(_) => return Err(PageError::DocumentType),
            Event::Eof => return page.end(),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
    }
}

/// Resolves `&amp;` and `&#38;`. Stores also escape control characters this way, which XML does not allow.
fn resolved(reference: &str) -> Result<String, PageError> {
    let number = match reference.strip_prefix('#') {
        Some(number) => match number.strip_prefix('x') {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => number.parse().ok(),
        },
        None => return Ok(unescape(&format!("&{reference};")).map_err(PageError::xml)?.into()),
    };
    number
        .and_then(char::from_u32)
        .map(String::from)
        .ok_or_else(|| PageError::Reference(reference.to_owned()))
}

/// State of the parser.
#[derive(Default)]
struct Page {
    /// Names of the open elements.
    open: Vec<String>,
    /// Text of the innermost open element.
    text: String,
    /// Whether Azure percent-encoded the name, because XML cannot represent it.
    is_escaped: bool,
    /// Whether the root element of a listing was read.
    is_listing: bool,
    /// Object or prefix being read.
    entry: Entry,
    /// Entries read so far.
    keys: Keys,
}

/// An object or common prefix.
#[derive(Default)]
struct Entry {
    key: Option<String>,
    listed: Listed,
    is_directory: bool,
}

impl Page {
    /// Handles a start tag.
    fn open(&mut self, start: &BytesStart<'_>) {
        self.open.push(start.local_name().as_ref().to_owned());
        self.text.clear();
        self.is_escaped =
            matches!(start.try_get_attribute("Encoded"), Ok(Some(value)) if &*value.value == "true");
    }

    /// Handles an end tag: stores the element's text in the field of its path.
    fn close(&mut self) -> Result<(), PageError> {
        let text = std::mem::take(&mut self.text);
        let open: Vec<_> = self.open.iter().map(String::as_str).collect();
        let entry = &mut self.entry;
        match open.as_slice() {
            ["ListBucketResult" | "EnumerationResults"] => self.is_listing = true,
            ["ListBucketResult", "Contents" | "CommonPrefixes", "Key" | "Prefix"]
            | ["EnumerationResults", "Blobs", "Blob" | "BlobPrefix", "Name"] => {
                entry.key = Some(if self.is_escaped { unescaped(&text)? } else { text });
            }
            ["ListBucketResult", "Contents", field]
            | ["EnumerationResults", "Blobs", "Blob", "Properties", field] => entry.take(field, text)?,
            ["ListBucketResult", "Contents"] | ["EnumerationResults", "Blobs", "Blob"] => {
                let Entry { key, listed, is_directory } = std::mem::take(entry);
                let url = key.ok_or(PageError::NoKey)?;
                if !is_directory {
                    self.keys.objects.push(Listed { url, ..listed });
                }
            }
            ["ListBucketResult", "CommonPrefixes"] | ["EnumerationResults", "Blobs", "BlobPrefix"] => {
                self.keys.prefixes.push(std::mem::take(entry).key.ok_or(PageError::NoPrefix)?);
            }
            ["ListBucketResult", "NextContinuationToken"] | ["EnumerationResults", "NextMarker"] => {
                self.keys.next = Some(text).filter(|token| !token.is_empty());
            }
            _ => {}
        }
        self.open.pop();
        Ok(())
    }

    /// Returns the page if the document is a complete listing.
    fn end(self) -> Result<Keys, PageError> {
        match self.open.is_empty() && self.is_listing {
            true => Ok(self.keys),
            false => Err(PageError::Incomplete),
        }
    }
}

impl Entry {
    /// Stores a field of S3, Google or Azure.
    fn take(&mut self, field: &str, text: String) -> Result<(), PageError> {
        match field {
            "Size" | "Content-Length" => {
                let size = text.trim().parse();
                self.listed.size = Some(size.map_err(|_| PageError::Length(text))?);
            }
            "LastModified" | "Last-Modified" => {
                let time = DateTime::parse_from_rfc3339(text.trim())
                    .or_else(|_| DateTime::parse_from_rfc2822(text.trim()))
                    .map_err(|_| PageError::Time(text))?;
                self.listed.modified = Some(time.timestamp_millis()).filter(|time| *time > 0);
            }
            "ETag" | "Etag" => self.listed.etag = Some(text).filter(|tag| !tag.is_empty()),
            "ResourceType" => self.is_directory = text == "directory",
            _ => {}
        }
        Ok(())
    }
}

/// Percent-decodes a name.
fn unescaped(text: &str) -> Result<String, PageError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| PageError::Escape(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_s3() {
        let keys = parse(
            br#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix> a</Prefix><IsTruncated>true</IsTruncated>
 <Contents><Key> a//b &amp;&#38;%2F+ </Key><LastModified>2026-11-21T10:00:00.500Z</LastModified><ETag>&quot;e&quot;</ETag>
  <Owner><ID>x</ID><DisplayName>Key</DisplayName></Owner><Size>7</Size><StorageClass>STANDARD</StorageClass></Contents>
 <Contents><Key>a&#x1;/</Key><Size>0</Size></Contents>
 <CommonPrefixes><Prefix>c//</Prefix></CommonPrefixes><NextContinuationToken>t/1=</NextContinuationToken></ListBucketResult>"#,
        )
        .unwrap();
        let first = Listed {
            size: Some(7),
            etag: Some("\"e\"".to_owned()),
            modified: Some(1_795_255_200_500),
            ..Listed::of(" a//b &&%2F+ ")
        };
        assert_eq!(keys.objects, [first, Listed { size: Some(0), ..Listed::of("a\u{1}/") }]);
        assert_eq!((keys.prefixes, keys.next.as_deref()), (vec!["c//".to_owned()], Some("t/1=")));
    }

    #[test]
    fn a_page_of_azure() {
        let keys = parse(
            br#"<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://h/" ContainerName="c"><Prefix>a</Prefix>
<Blobs><Blob><Name>a b</Name><Properties><Last-Modified>Sat, 21 Nov 2026 10:00:00 GMT</Last-Modified><Etag>0x8D</Etag>
<ResourceType>file</ResourceType><Content-Length>7</Content-Length></Properties><OrMetadata /></Blob>
<Blob><Name>d</Name><Properties><ResourceType>directory</ResourceType><Content-Length>0</Content-Length></Properties></Blob>
<Blob><Name Encoded="true">x%EF%BF%BF%2525</Name><Properties/></Blob>
<BlobPrefix><Name>p/</Name></BlobPrefix></Blobs><NextMarker /></EnumerationResults>"#,
        )
        .unwrap();
        let first = Listed {
            size: Some(7),
            etag: Some("0x8D".to_owned()),
            modified: Some(1_795_255_200_000),
            ..Listed::of("a b")
        };
        assert_eq!(keys.objects, [first, Listed::of("x\u{ffff}%25")]);
        assert_eq!((keys.prefixes, keys.next), (vec!["p/".to_owned()], None));
    }

    #[test]
    fn what_is_no_whole_listing_is_refused() {
        for document in [
            "",
            "<html><body/></html>",
            "<ListBucketResult><Contents><Key>a</Key></Contents>",
            "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
            "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
            "<!DOCTYPE x [<!ENTITY a \"b\">]><ListBucketResult/>",
            "<ListBucketResult><Contents><Key>&a;</Key></Contents></ListBucketResult>",
        ] {
            assert!(parse(document.as_bytes()).is_err(), "{document}");
        }
        assert_eq!(parse(b"<ListBucketResult/>"), Ok(Keys::default()));
    }

    #[test]
    fn keys_are_asked_for_as_they_are_or_not_at_all() {
        for key in ["a/b c.nc", "a%2Fb", "a+b#c?d", "\u{fc}/\u{65e5}", " a ", "a/...", ".a", "a\\b", "~a*"] {
            assert_eq!(path("", key).unwrap().as_ref(), key);
        }
        for key in ["", "/a", "a/", "a//b", "//a", "a/./b", "a/../b", "..", "a\nb", "a\u{7f}"] {
            assert!(matches!(path("s3://b/k", key), Err(StoreError::Location { .. })), "{key:?}");
        }
    }
}
