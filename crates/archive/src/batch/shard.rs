//! A run on many machines: each reads a shard of the files into a journal of its own, and one merges these journals.

use std::{
    fmt, fs, io,
    ops::Range,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, TryStreamExt, stream};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use virtualize::{Remedy, StoreOptions};
use virtualize_store::{StoreError, create_folder, fetch, local_path, put, url_of};

use super::{Batch, OnFailure, Totals};
use crate::{
    Error, Event, Journal, Result, Summary,
    event::Events,
    journal::{JournalErrorKind, Listing, Sealed, shard_conflict, shard_damaged},
    list::{Filter, Input, ListOptions, line, list},
};

/// Maximum size of a shard's journal in a store, in bytes.
const MAX_JOURNAL: u64 = 2 << 30;
/// Number of journals that are downloaded and checked at once.
const AT_ONCE: usize = 4;
/// Maximum number of missing shards that an error names.
const NAMED: usize = 20;
/// Number of pauses for which a shard waits until another process has released its journal, and their duration.
const RELEASE: usize = 40;
const PAUSE: Duration = Duration::from_millis(250);

/// A shard of a list: one of `of` contiguous ranges of nearly equal length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Shard {
    /// Number of the shard, from 1.
    pub number: u64,
    /// Number of shards.
    pub of: u64,
}

impl Shard {
    /// Returns the positions of its files in a list of `files` files.
    pub fn range(self, files: u64) -> Range<u64> {
        let bound = |number: u64| {
            let at = u128::from(number.min(self.of)) * u128::from(files) / u128::from(self.of.max(1));
            u64::try_from(at).unwrap_or(files)
        };
        bound(self.number.saturating_sub(1))..bound(self.number)
    }

    /// Returns the shards of `of` that have files at any of the positions `unread`.
    fn with_files_in(unread: &[Range<u64>], of: u64, files: u64) -> Vec<Self> {
        let number = |position: u64| {
            let number = ((u128::from(position) + 1) * u128::from(of)).div_ceil(u128::from(files.max(1)));
            u64::try_from(number).unwrap_or(of)
        };
        let mut shards = Vec::new();
        for gap in unread {
            let mut position = gap.start;
            while position < gap.end {
                let shard = Self { number: number(position), of };
                shards.push(shard);
                position = shard.range(files).end;
            }
        }
        shards.dedup();
        shards
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers =
            text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        let shard = numbers.map(|(number, of)| Self { number, of });
        let shard = shard.filter(|shard| (1..=shard.of).contains(&shard.number));
        shard.ok_or_else(|| "expected K/N, with K from 1 to N, such as 3/10".to_owned())
    }
}

/// Returns the number of files of a shard that suits a list of `files` files: 1,000 to 10,000 if there are enough
/// files for 16 workers, else at least 250.
pub(crate) fn shard_size(files: u64) -> u64 {
    (files / 256).max((files / 16).min(1000)).clamp(250, 10_000)
}

/// A list that was written for shards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardPlan {
    /// Number of files.
    pub files: u64,
    /// Number of files that the journal does not have.
    pub pending: u64,
    /// Number of shards.
    pub of: u64,
    /// The shards that have such files.
    pub unread: Vec<Shard>,
}

/// The journal of a shard that was checked. An object of a store is in a temporary file.
pub(super) struct Part {
    name: String,
    file: PathBuf,
    sealed: Sealed,
}

/// The journals of a run's shards, in order, and the folder of those that were downloaded.
pub(super) struct Parts(Vec<Part>, TempDir);

impl Batch {
    /// Reads the files of a shard into its journal, which is uploaded once it is complete if it belongs into a store.
    pub(super) async fn run_shard(&self, shard: Shard, events: &Events, totals: &Totals) -> Result<Summary> {
        let name = self.journal_path().display().to_string();
        let url = local_path(&name).is_none().then_some(name);
        let folder = TempDir::new().map_err(Error::internal)?;
        let file = match &url {
            Some(_) => folder.path().join("shard.journal"),
            None => self.journal_path(),
        };
        if let Some(url) = url.as_ref().filter(|_| !self.run.restart) {
            download(url, &file, &self.options.store).await?;
        } else if let Some(folder) = file.parent() {
            create_folder(folder).map_err(virtualize::Error::from)?;
        }
        // A worker that was killed may not have released its journal yet.
        let mut pauses = 0;
        let (mut journal, restart) = loop {
            match self.open_journal(&file, events) {
                Err(Error::Journal(error)) if error.kind == JournalErrorKind::Locked && pauses < RELEASE => {
                    pauses += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                opened => break opened?,
            }
        };
        let before = journal.unseal()?;
        self.list_shard(shard, &mut journal, restart, events).await?;
        self.read(&mut journal, self.member_reader(), events).await?;
        let mut summary = self.summary(&journal, totals)?;
        let sealed = journal.seal()?;
        if let Some(url) = url {
            if before.as_ref() != Some(&sealed) {
                self.go_on()?;
                let bytes = fs::read(&file).map_err(|error| unwritable(&file, &error))?;
                let put = put(&url, &own(&self.options.store), bytes.into()).await;
                put.map_err(virtualize::Error::from)?;
            }
            summary.journal = url;
        }
        Ok(summary)
    }

    /// Lists the inputs, and makes the files of the shard those of the journal. Which these are is known only at the
    /// end.
    async fn list_shard(
        &self,
        shard: Shard,
        journal: &mut Journal,
        restart: bool,
        events: &Events,
    ) -> Result<()> {
        let (mut digest, mut all) = (Sha256::new(), Vec::new());
        self.for_each_listed(events, |items| {
            items.iter().for_each(|item| digest.update(line(item)));
            all.extend(items);
            Ok(())
        })
        .await?;
        let range = shard.range(all.len() as u64);
        let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        let mut listing = Listing::default();
        journal.stage(all.get(start..end).unwrap_or_default(), &mut listing)?;
        self.accept(journal, restart, &listing, events).await?;
        journal.set_shard(shard, &hex::encode(digest.finalize()))
    }

    /// Lists the inputs and writes the list that workers read their shards from, of `size` files each. Returns the
    /// shards of which files are unread. Checks first that the journal can be used.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn write_list(
        &self,
        to: &str,
        size: Option<u64>,
        events: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<ShardPlan> {
        self.check()?;
        self.check_combined()?;
        let events = Events::new(events);
        let path = self.journal_path();
        let (mut journal, restart) = if path.exists() {
            self.open_journal(&path, &Events::new(|_| ()))?
        } else {
            (Journal::temporary()?, true)
        };
        let (mut listing, mut text) = (Listing::default(), Vec::new());
        self.for_each_listed(&events, |items| {
            items.iter().for_each(|item| text.extend(line(item)));
            journal.stage(&items, &mut listing)?;
            events.tell(Event::Listed { files: listing.files, pending: listing.pending, complete: false });
            Ok(())
        })
        .await?;
        let files = listing.files;
        let of = files.div_ceil(size.unwrap_or_else(|| shard_size(files)).max(1));
        let unread = Shard::with_files_in(&listing.unread(restart), of, files);
        let pending =
            unread.iter().map(|shard| shard.range(files)).map(|range| range.end - range.start).sum();
        events.tell(Event::Listed { files, pending, complete: true });
        match local_path(to) {
            Some(path) => {
                path.parent().map_or(Ok(()), create_folder).map_err(virtualize::Error::from)?;
                fs::write(&path, text).map_err(|error| unwritable(&path, &error))?;
            }
            None => {
                let put = put(to, &own(&self.options.store), text.into()).await;
                put.map_err(virtualize::Error::from)?;
            }
        }
        Ok(ShardPlan { files, pending, of, unread })
    }

    /// Refuses runs that several machines cannot share.
    pub(super) fn check_combined(&self) -> Result<()> {
        if self.each {
            let remedy = Remedy::advice("run a batch on each machine, for some of the files");
            return Err(Error::usage("per-file outputs cannot be divided into shards", remedy));
        }
        Ok(())
    }

    /// Checks the journals of all shards before anything changes: together they must have the files at the positions
    /// `unread`, which this run's journal does not have.
    pub(super) async fn check_shards(
        &self,
        list: String,
        unread: &[Range<u64>],
        files: u64,
    ) -> Result<Parts> {
        let folder = TempDir::new().map_err(Error::internal)?;
        if self.run.merge.is_empty() {
            return Ok(Parts(Vec::new(), folder));
        }
        self.check_combined()?;
        let (options, list) = (Arc::new(self.row_options()), Arc::new(list));
        let own_journal = url_of(&self.journal_path().display().to_string()).ok();
        let locations = locate(&self.run.merge, &self.options.store).await?;
        let locations = locations.into_iter().filter(|url| Some(url) != own_journal.as_ref());
        let open = |(at, url): (usize, String)| {
            let copy = folder.path().join(format!("{at}.journal"));
            let (options, list) = (Arc::clone(&options), Arc::clone(&list));
            async move {
                self.go_on()?;
                let name = local_path(&url).map_or_else(|| url.clone(), |path| path.display().to_string());
                let file = match local_path(&url) {
                    Some(path) => path,
                    None if download(&url, &copy, &self.options.store).await? => copy,
                    None => {
                        return Err(virtualize::Error::from(StoreError::NotFound { name }).into());
                    }
                };
                let opened = tokio::task::spawn_blocking(move || {
                    let (_, sealed) = Journal::open_sealed(&file, &name)?;
                    sealed.check(&name, &options, &list)?;
                    Ok::<_, Error>(Part { name, file, sealed })
                });
                opened.await.map_err(Error::internal)?
            }
        };
        let parts: Vec<Part> =
            stream::iter(locations.enumerate()).map(open).buffered(AT_ONCE).try_collect().await?;
        Ok(Parts(complete(parts, unread, files)?, folder))
    }

    /// Adds the files of the shards to the journal.
    pub(super) async fn merge(
        &self,
        mut journal: Journal,
        Parts(parts, folder): Parts,
        events: &Events,
    ) -> Result<Journal> {
        let (skip_failures, events) = (self.run.on_failure == OnFailure::Retry, events.clone());
        let cancel = self.cancel.clone();
        let merged = tokio::task::spawn_blocking(move || {
            for Part { name, file, sealed } in parts {
                if cancel.is_cancelled() {
                    let counts = journal.counts()?;
                    return Err(Error::Stopped { done: counts.done + counts.failed, files: counts.all() });
                }
                let (shard, found) = Journal::open_sealed(&file, &name)?;
                if found != sealed {
                    return Err(shard_damaged(&name, "replaced while it was merged"));
                }
                let fail = |url: String, attempts, class: String, error: String| {
                    events.tell(Event::Failed { url, attempts, class, error });
                };
                let imported = journal.merge(&shard, skip_failures, fail)?;
                let Sealed { shard, files, failed, .. } = sealed;
                let shard = shard.to_string();
                events.tell(Event::Imported { journal: name, shard, files, imported, failed });
            }
            drop(folder);
            Ok(journal)
        });
        merged.await.map_err(Error::internal)?
    }
}

/// Returns the options for objects that this program writes, unlike the files, which a store of the caller may supply.
fn own(options: &StoreOptions) -> StoreOptions {
    StoreOptions { through: None, ..options.clone() }
}

/// Downloads an object to a file. Returns whether there is one.
async fn download(url: &str, to: &Path, options: &StoreOptions) -> Result<bool> {
    let bytes = match fetch(url, MAX_JOURNAL, &own(options)).await {
        Err(StoreError::NotFound { .. }) => return Ok(false),
        bytes => bytes.map_err(virtualize::Error::from)?,
    };
    fs::write(to, bytes).map_err(|error| unwritable(to, &error))?;
    Ok(true)
}

/// Returns the error of a file that cannot be read or written.
fn unwritable(path: &Path, error: &io::Error) -> Error {
    virtualize::Error::from(StoreError::unavailable(path.display().to_string(), error)).into()
}

/// Returns the locations of journals: files, objects, folders and patterns.
async fn locate(places: &[String], options: &StoreOptions) -> Result<Vec<String>> {
    let options = ListOptions { store: own(options), ..ListOptions::default() };
    let inputs = places.iter().map(|place| Input::Files(place.clone())).collect();
    let urls: Vec<String> =
        list(inputs, Filter::default(), options)?.map_ok(|item| item.url).try_collect().await?;
    // Workers that were killed may have left files of SQLite next to their journals.
    let is_side = |url: &String| ["-journal", "-shm", "-wal"].iter().any(|end| url.ends_with(end));
    Ok(urls.into_iter().filter(|url| !is_side(url)).collect())
}

/// Checks that shards are of one division, and have all unread files, given by their positions. Returns them in order.
fn complete(mut parts: Vec<Part>, unread: &[Range<u64>], files: u64) -> Result<Vec<Part>> {
    parts.sort_by_key(|part| part.sealed.shard);
    for pair in parts.windows(2) {
        let [first, second] = pair else { continue };
        let (one, other) = (first.sealed.shard, second.sealed.shard);
        let (first, second) = (&first.name, &second.name);
        let advice = "merge one journal of each shard";
        if one == other {
            return Err(shard_conflict(format!("{first} and {second} both have shard {one}"), advice));
        }
        if one.of != other.of {
            let message = format!("{first} has shard {one}, but {second} has shard {other}");
            return Err(shard_conflict(message, advice));
        }
    }
    let of = parts.first().map_or(1, |part| part.sealed.shard.of);
    let mut missing = Shard::with_files_in(unread, of, files);
    missing.retain(|shard| !parts.iter().any(|part| part.sealed.shard == *shard));
    if missing.is_empty() {
        return Ok(parts);
    }
    let named: Vec<String> = missing.iter().take(NAMED).map(ToString::to_string).collect();
    let (count, more) = (missing.len(), missing.len().saturating_sub(NAMED));
    let shards = if count == 1 { "shard" } else { "shards" };
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = format!("missing {shards} {}{more}", named.join(", "));
    Err(shard_conflict(message, "read the missing shards on any machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_divide_a_list() {
        for files in [0, 1, 2, 7, 100, 1001] {
            for of in [1, 2, 3, 7, 64, 200, u64::MAX] {
                let end = of.min(201);
                let shards: Vec<_> = (1..=end).map(|number| Shard { number, of }).collect();
                let ranges: Vec<_> = shards.iter().map(|shard| shard.range(files)).collect();
                assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
                assert_eq!(ranges[0].start, 0);
                assert_eq!((Shard { number: of, of }).range(files).end, files);
                for (shard, range) in shards.iter().zip(&ranges).filter(|(_, range)| !range.is_empty()) {
                    let found = Shard::with_files_in(std::slice::from_ref(range), of, files);
                    assert_eq!(found, [*shard]);
                }
            }
            let whole = Shard::with_files_in(std::slice::from_ref(&(0..files)), 3, files);
            assert_eq!(whole.len() as u64, files.min(3));
        }
    }

    #[test]
    fn sizes_of_shards() {
        let sizes = [1, 3_999, 8_000, 16_000, 300_000, 10_000_000].map(shard_size);
        assert_eq!(sizes, [250, 250, 500, 1_000, 1_171, 10_000]);
    }

    #[test]
    fn shards_are_written_as_fractions() {
        assert_eq!("3/10".parse(), Ok(Shard { number: 3, of: 10 }));
        for wrong in ["0/3", "4/3", "3", "1/0", "a/b", "-1/2", "1/2/3"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
