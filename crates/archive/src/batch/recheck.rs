//! Checks whether files read by earlier runs have changed, where the listing does not show it.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};
use virtualize::{StoreError, StoreOptions};
use virtualize_store::{Listed, list_page, look};

use crate::{Item, journal::Found};

/// Number of files of a folder in a bucket from which listing the folder is cheaper than a request per file.
const FEW: usize = 16;
/// Number of files that justify fetching another page of a listing.
const A_PAGE: usize = 100;

/// Returns the files, with their rows, that have changed since they were read. The input must be ordered by URL.
pub(super) async fn changed(
    files: Vec<(i64, Item)>,
    at_once: usize,
    options: &StoreOptions,
) -> Result<Vec<(i64, Found)>, StoreError> {
    let mut changed = Vec::new();
    let mut single = Vec::new();
    for folder in files.chunk_by(|(_, one), (_, other)| folder_of(&one.url) == folder_of(&other.url)) {
        single.extend(match is_bucket(folder) && folder.len() >= FEW {
            true => listed(folder, options, &mut changed).await?,
            false => folder.iter().collect(),
        });
    }
    let looks = single.into_iter().map(|(id, item)| async move {
        let now = look(&item.url, options).await?;
        Ok::<_, StoreError>(difference(item, now.as_ref()).map(|found| (*id, found)))
    });
    let found: Vec<_> = stream::iter(looks).buffer_unordered(at_once.max(1)).try_collect().await?;
    changed.extend(found.into_iter().flatten());
    Ok(changed)
}

/// Returns whether the files are in a bucket, whose folders can be listed in pages.
fn is_bucket(files: &[(i64, Item)]) -> bool {
    let scheme = files.first().and_then(|(_, item)| item.url.split_once("://")).map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| !matches!(scheme, "file" | "http" | "https"))
}

fn folder_of(url: &str) -> &str {
    url.rsplit_once('/').map_or(url, |(folder, _)| folder)
}

/// Looks up files of one folder in its listing. Returns the files that need a request each, because the folder may not
/// be listed or has far more files than these.
async fn listed<'a>(
    files: &'a [(i64, Item)],
    options: &StoreOptions,
    changed: &mut Vec<(i64, Found)>,
) -> Result<Vec<&'a (i64, Item)>, StoreError> {
    let prefix = common_start(files);
    let mut left: HashMap<&str, &(i64, Item)> =
        files.iter().map(|file| (file.1.url.as_str(), file)).collect();
    let mut after = None;
    for _ in 0..2 + files.len() / A_PAGE {
        let page = match list_page(prefix, false, after.as_deref(), options).await {
            Err(StoreError::Denied { .. }) => break,
            page => page?,
        };
        for now in &page.files {
            if let Some((id, item)) = left.remove(now.url.as_str()) {
                changed.extend(difference(item, Some(now)).map(|found| (*id, found)));
            }
        }
        after = page.next;
        if after.is_none() {
            changed.extend(left.values().map(|(id, _)| (*id, Found::Gone)));
            return Ok(Vec::new());
        }
    }
    Ok(left.into_values().collect())
}

/// Returns the longest common prefix of URLs in sorted order. It includes at least the folder.
fn common_start(files: &[(i64, Item)]) -> &str {
    let (Some((_, first)), Some((_, last))) = (files.first(), files.last()) else { return "" };
    let same = first.url.bytes().zip(last.url.bytes()).take_while(|(one, other)| one == other).count();
    // Not within a character.
    let start = (0..=same).rev().find_map(|end| first.url.get(..end)).unwrap_or_default();
    start.get(..folder_of(&first.url).len() + 1).filter(|folder| folder.len() > start.len()).unwrap_or(start)
}

/// Returns the change between a file as it was read and as it is now.
fn difference(known: &Item, now: Option<&Listed>) -> Option<Found> {
    let Some(now) = now else { return Some(Found::Gone) };
    let another = || Found::Another(Item { properties: known.properties.clone(), ..now.clone().into() });
    (!known.listed().agrees(now)).then(another)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_that_urls_have_in_common() {
        let files = |urls: &[&str]| urls.iter().map(|url| (0, Item::of(*url))).collect::<Vec<_>>();
        assert_eq!(common_start(&files(&["s3://b/a/x1", "s3://b/a/x2"])), "s3://b/a/x");
        assert_eq!(common_start(&files(&["s3://b/a/x", "s3://b/a/y"])), "s3://b/a/");
        assert_eq!(common_start(&files(&["s3://b/a/\u{e4}", "s3://b/a/\u{e5}"])), "s3://b/a/");
    }
}
