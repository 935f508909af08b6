//! Files beside the one that is open, to which chunks refer: they must lie in its folder or below, exist, and be long
//! enough. An array of which one chunk fails this is left out.

use std::collections::BTreeMap;

use futures::StreamExt;
use virtualize_bytes::ReadError;
use virtualize_map::Mapped;
use virtualize_zarr::{Array, Source, SourceId};

use crate::inline::leave_out;
use crate::sources::{PARALLEL, Sources, Unopened};

/// Checks every source but the first, and notes its size, entity tag and time.
pub(crate) async fn check(mapped: &mut Mapped, sources: &Sources<'_>) -> Result<(), ReadError> {
    let urls: Vec<_> = mapped.hierarchy.sources.iter().skip(1).map(|source| source.url.clone()).collect();
    let versions = urls.into_iter().map(|url| async move { sources.version(&url).await });
    let versions: Vec<_> = futures::stream::iter(versions).buffered(PARALLEL).collect().await;
    let mut refused = BTreeMap::new();
    for ((at, source), version) in mapped.hierarchy.sources.iter_mut().enumerate().skip(1).zip(versions) {
        match version {
            Ok(version) => *source = version,
            Err(Unopened::Changed(error)) => return Err(error),
            Err(unopened) => drop(refused.insert(at, unopened.why())),
        }
    }
    let sizes: Vec<u64> = mapped.hierarchy.sources.iter().map(|source| source.size).collect();
    let arrays = mapped.hierarchy.arrays();
    let of_arrays =
        arrays.into_iter().filter_map(|(path, array)| Some((path, why_not(array, &sizes, &refused)?)));
    let of_tasks = mapped.tasks.iter().filter_map(|task| {
        let why = task.content.sources().find_map(|source| refused.get(&source.index()))?;
        Some((task.array.clone(), in_another(why)))
    });
    let failed: BTreeMap<String, String> = of_tasks.chain(of_arrays).collect();
    mapped.tasks.retain(|task| !failed.contains_key(&task.array));
    for (path, why) in failed {
        leave_out(mapped, &path, "array-left-out", format!("the array is left out: {why}"), why);
    }
    Ok(())
}

/// Whether a file is still what it was.
pub(crate) fn same(one: &Source, other: &Source) -> bool {
    one.size == other.size && one.etag == other.etag && one.modified == other.modified
}

fn in_another(why: &str) -> String {
    format!("its data lie in another file: {why}")
}

/// Whether a file may be referred to: it lies in the folder of the file that names it, or below.
pub(crate) fn is_allowed(own: &str, url: &str) -> Result<(), String> {
    let folder = own.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_http = own.starts_with("http://") || own.starts_with("https://");
    let below = url.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
    let plain = |rest: &str| {
        rest.split('/').all(|step| !matches!(step, "" | "." | ".."))
            && !rest.contains('\\')
            && !(is_http && rest.contains(['%', '?', '#']))
    };
    match below {
        _ if is_http && own.contains('?') => {
            Err("files beside one whose url has a query cannot be named".to_owned())
        }
        Some(rest) if plain(rest) => Ok(()),
        _ => Err(format!("{url} lies outside the folder of the file")),
    }
}

/// Why an array cannot stand.
fn why_not(array: &Array, sizes: &[u64], refused: &BTreeMap<usize, String>) -> Option<String> {
    array.chunks.references.iter().filter(|column| column.source != SourceId(0)).find_map(|column| {
        let id = column.source.index();
        if let Some(why) = refused.get(&id) {
            return Some(in_another(why));
        }
        let size = sizes.get(id).copied().unwrap_or(0);
        let end = column.iter().map(|(_, part)| part.offset.saturating_add(part.length)).max().unwrap_or(0);
        (end > size).then(|| format!("its data end at {end:#x} of another file, which has {size:#x} bytes"))
    })
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn files_beside_and_below_are_allowed() {
        for (own, url) in [
            ("file:///d/a.h5", "file:///d/b.raw"),
            ("file:///d/a.h5", "file:///d/x/b.raw"),
            ("s3://bucket/a.h5", "s3://bucket/100%.raw"),
            ("https://host/d/a.h5", "https://host/d/b.raw"),
        ] {
            assert_eq!(is_allowed(own, url), Ok(()), "{url}");
        }
    }

    #[test]
    fn all_others_are_not() {
        for (own, url) in [
            ("file:///d/a.h5", "file:///d/../etc/passwd"),
            ("file:///d/a.h5", "file:////etc/passwd"),
            ("file:///d/a.h5", "file:///dd/b.raw"),
            ("https://host/a.h5", "file:////etc/passwd"),
            ("https://host/d/a.h5", "https://host/d/%2e%2e/b.raw"),
            ("https://host/d/a.h5?sig=1", "https://host/d/b.raw"),
            ("s3://bucket/d/a.h5", "s3://bucket/d/../b.raw"),
        ] {
            assert!(is_allowed(own, url).is_err(), "{url}");
        }
    }
}
