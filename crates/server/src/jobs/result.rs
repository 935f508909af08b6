//! The result of a job: one file, or the files of a folder.

use std::{
    fs::{self, File, Metadata},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::UNIX_EPOCH,
};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{
    Problem,
    conditional::{Wanted, none_match, range, tag},
    encode::{Content, Kept, answer, not_modified, pieces},
};
use virtualize::Code;

/// Maximum number of files in the index of a folder.
const NAMED: usize = 10_000;

/// An open file of a result.
pub(super) struct Found {
    file: Arc<Kept>,
    length: u64,
    etag: String,
    kind: &'static str,
}

/// Opens a file below a job's folder. A name with special segments, or a link that leads out of the folder, is not
/// found.
pub(super) fn open(id: &str, folder: &Path, name: &str) -> Result<Found, Problem> {
    let missing = || Problem::not_found("the result contains no such file").hint("…/result lists them");
    let bad = |part: &str| matches!(part, "" | "." | "..") || part.contains(['\\', '\0', ':']);
    if name.len() > 4096 || name.split('/').any(bad) {
        return Err(missing());
    }
    let path: PathBuf = name.split('/').fold(folder.to_owned(), |path, part| path.join(part));
    let inside = path
        .canonicalize()
        .is_ok_and(|real| folder.canonicalize().is_ok_and(|folder| real.starts_with(folder)));
    let file = File::open(&path).ok().filter(|_| inside).ok_or_else(missing)?;
    let about = file.metadata().ok().filter(Metadata::is_file).ok_or_else(missing)?;
    let time = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let nanos = time.unwrap_or_default().as_nanos().to_string();
    let etag = tag(&["job", id, name, &about.len().to_string(), &nanos]);
    let json = [".json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"];
    let kind = match json.iter().any(|end| name.ends_with(end)) {
        true => "application/json",
        false => "application/octet-stream",
    };
    Ok(Found { file: Kept::new(file, None), length: about.len(), etag, kind })
}

/// Builds the response: the whole file, a range of it, or 304 if the client has the file.
pub(super) fn respond(headers: &HeaderMap, found: Found) -> Result<Response, Problem> {
    let Found { file, length, etag, kind } = found;
    if none_match(headers, &etag) {
        return Ok(not_modified(&etag));
    }
    let part = match range(headers, length, &etag) {
        Wanted::All => {
            let mut response = answer(headers, Content::File(file, length), kind, &etag);
            response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
            return Ok(response);
        }
        Wanted::Part(part) => part,
        Wanted::Nothing => {
            let detail = format!("the file has {length} bytes");
            return Err(Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, Code::Range, detail));
        }
    };
    let bytes = part.end.saturating_sub(part.start);
    let body = Body::from_stream(pieces(file, part.clone()));
    let mut response = (StatusCode::PARTIAL_CONTENT, body).into_response();
    let all = response.headers_mut();
    let place = format!("bytes {}-{}/{length}", part.start, part.end.saturating_sub(1));
    for (name, value) in [
        (header::CONTENT_RANGE, place.as_str()),
        (header::ETAG, &etag),
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-cache"),
    ] {
        if let Ok(value) = HeaderValue::from_str(value) {
            all.insert(name, value);
        }
    }
    all.insert(header::CONTENT_LENGTH, bytes.into());
    Ok(response)
}

/// Lists the files of a folder, sorted by name.
pub(super) fn index(folder: &Path) -> io::Result<Value> {
    let mut files = Vec::new();
    let more = walk(folder, "", &mut files)?;
    files.sort();
    let files: Vec<_> = files.iter().map(|(path, size)| json!({"path": path, "size": size})).collect();
    Ok(json!({"files": files, "more": more}))
}

/// Collects the files below a folder; returns whether there are more than the index may list.
fn walk(folder: &Path, prefix: &str, files: &mut Vec<(String, u64)>) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let about = entry.metadata()?;
        if about.is_dir() && walk(&entry.path(), &format!("{name}/"), files)? {
            return Ok(true);
        }
        if about.is_file() && !is_staged(&name) {
            if files.len() >= NAMED {
                return Ok(true);
            }
            files.push((name, about.len()));
        }
    }
    Ok(false)
}

/// Whether a file is one that object_store had not finished when the process was killed: `NAME#1`.
fn is_staged(name: &str) -> bool {
    name.rsplit_once('#')
        .is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the total size in bytes of the files below a folder.
pub(super) fn bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let each = entries.flatten().map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    });
    each.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_files_are_not_part_of_a_result() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["refs.json", "chunk#1", "a#1.json", "b#"] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        let paths = |index: Value| -> Vec<String> {
            let files = index["files"].as_array().unwrap().clone();
            files.iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(paths(index(folder.path()).unwrap()), ["a#1.json", "b#", "refs.json"]);
    }
}
