//! Files beside the one that is open, to which chunks refer: they must lie in its folder or below, exist, and be long
//! enough. An array of which one chunk fails this is left out.

use virtualize_map::{Diagnostic, Mapped, Severity};
use virtualize_store::StoreOptions;
use virtualize_zarr::{Array, SourceId};

use crate::inline::remove;

/// Checks every source but the first, and notes its size, entity tag and time.
pub(crate) async fn check(mapped: &mut Mapped, options: &StoreOptions) {
    let Some(own) = mapped.hierarchy.sources.first().map(|source| source.url.clone()) else { return };
    let mut refused = Vec::new();
    for (at, source) in mapped.hierarchy.sources.iter_mut().enumerate().skip(1) {
        let opened = match is_allowed(&own, &source.url) {
            Ok(()) => virtualize_store::open(&source.url, options).await.map_err(|error| error.to_string()),
            Err(why) => Err(why),
        };
        match opened {
            Ok(object) => *source = crate::open::source_of(&object),
            Err(why) => refused.push((at, why)),
        }
    }
    let sizes: Vec<u64> = mapped.hierarchy.sources.iter().map(|source| source.size).collect();
    let arrays = mapped.hierarchy.arrays();
    let failed: Vec<(String, String)> = arrays
        .into_iter()
        .filter_map(|(path, array)| Some((path, why_not(array, &sizes, &refused)?)))
        .collect();
    for (path, why) in failed {
        leave_out(mapped, path, why);
    }
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
fn why_not(array: &Array, sizes: &[u64], refused: &[(usize, String)]) -> Option<String> {
    array.chunks.references.iter().filter(|column| column.source != SourceId(0)).find_map(|column| {
        let id = column.source.index();
        if let Some((_, why)) = refused.iter().find(|(at, _)| *at == id) {
            return Some(format!("its data lie in another file: {why}"));
        }
        let size = sizes.get(id).copied().unwrap_or(0);
        let end = column.iter().map(|(_, part)| part.offset.saturating_add(part.length)).max().unwrap_or(0);
        (end > size).then(|| format!("its data end at {end:#x} of another file, which has {size:#x} bytes"))
    })
}

fn leave_out(mapped: &mut Mapped, path: String, why: String) {
    remove(&mut mapped.hierarchy, &path);
    mapped.report.diagnostics.push(Diagnostic {
        severity: Severity::Warning,
        code: "array-left-out",
        path: format!("/{path}"),
        message: format!("the array is left out: {why}"),
        hint: None,
    });
    mapped.tasks.retain(|task| task.array != path);
    mapped.report.arrays.entry(path).or_default().left_out = Some(why);
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
