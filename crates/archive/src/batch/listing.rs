//! Lists the inputs and compares them with the journal. A listing takes effect only once it is accepted as a whole.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    path::Path,
};

use futures::{StreamExt as _, TryStreamExt, stream};
use sha2::{Digest as _, Sha256};
use virtualize::{
    Code, ErrorClass, OptionName, Options, Remedy, StoreError, StoreOptions, open,
    zarr::{Array, NodePath, Source, node},
};
use virtualize_store::{Listed, is_beside_output, list_page, look};

use super::{
    Batch, NAMED, OnChange, OnFailure, each::Each, options::dimensions_of, shard::Parts, write::output_name,
};
use crate::{
    Along, Error, Event, Item, Journal, JournalError, Layout, Result,
    compat::is_coordinate,
    error::{files, some},
    event::Events,
    file::Wanted,
    journal::{Accept, Listing, ToCheck},
    list::{Few, Input, ListOptions, each_page, line},
    values::{Grid, calendar::is_time},
};

/// Maximum number of files that are staged, or checked, at once.
const LISTED: usize = 1000;
/// Number of the newest files of earlier runs that a run checks if it appends.
const NEWEST: u64 = 1000;

impl Batch {
    /// Opens the journal. Also returns whether to discard its contents first.
    pub(super) fn open_journal(&self, path: &Path, events: &Events) -> Result<(Journal, bool)> {
        if self.run.restart {
            Journal::remove_unusable(path)?;
        }
        let journal = Journal::open(path)?;
        let differences = journal.other_options(&self.row_options())?;
        if differences.is_empty() || self.run.restart {
            return Ok((journal, self.run.restart));
        }
        if journal.is_used()? {
            return Err(JournalError::other_options(path, &differences).into());
        }
        let text = "the options changed, and nothing was written yet: all files are read again".to_owned();
        events.tell(Event::Note { text });
        Ok((journal, true))
    }

    /// Lists the inputs, and makes them the journal's files. Returns the journals of shards to merge, which are checked
    /// before that.
    pub(super) async fn list(&self, journal: &mut Journal, restart: bool, events: &Events) -> Result<Parts> {
        let (mut listing, mut digest) = (Listing::default(), Sha256::new());
        self.for_each_listed(events, |items| {
            if !self.run.merge.is_empty() {
                items.iter().for_each(|item| digest.update(line(item)));
            }
            journal.stage(&items, &mut listing)?;
            events.tell(Event::Listed { files: listing.files, pending: listing.pending, complete: false });
            Ok(())
        })
        .await?;
        let unread = listing.unread(restart);
        let list = hex::encode(digest.finalize());
        let parts = Box::pin(self.check_shards(list, &unread, listing.files)).await?;
        self.accept(journal, restart, &listing, events).await?;
        Ok(parts)
    }

    /// Makes the staged files those of the journal.
    pub(super) async fn accept(
        &self,
        journal: &mut Journal,
        restart: bool,
        listing: &Listing,
        events: &Events,
    ) -> Result<()> {
        if !restart {
            self.recheck(journal, listing).await?;
            self.compare(journal, events)?;
        }
        let append = self.appends();
        let each = self.each(journal, restart)?;
        if let Some(each) = &each {
            each.check_names(journal, append && !restart)?;
        }
        self.check_cancelled(listing)?;
        let how = Accept {
            append,
            restart,
            drop_unwritten: self.run.on_change == OnChange::Drop,
            retry_failed: self.run.on_failure == OnFailure::Retry,
            retry_unavailable: self.run.on_failure != OnFailure::Skip,
        };
        let root = each.as_ref().map(|each| (ROOT, each.root.as_str()));
        let counts = journal.accept(how, &self.row_options(), root)?;
        events.tell(Event::Listed { files: counts.all(), pending: counts.pending, complete: true });
        Ok(())
    }

    /// Returns whether the files of earlier runs stay in the journal. That of a shard has the files of the shard.
    fn appends(&self) -> bool {
        self.run.append && self.run.shard.is_none()
    }

    /// Lists the files of the inputs, without those that runs write, and passes them on in portions.
    pub(super) async fn for_each_listed(
        &self,
        events: &Events,
        mut take: impl FnMut(Vec<Item>) -> Result<()>,
    ) -> Result<()> {
        let journal = output_name(&self.journal_path().display().to_string());
        let output = output_name(&self.output);
        let is_written = |url: &str| {
            let is_journal =
                url.strip_prefix(&journal).is_some_and(|end| ["", "-wal", "-shm"].contains(&end));
            // Another output of this name would replace a source, which is an error.
            let is_output = url.strip_prefix(&output).is_some_and(|end| match end {
                "" => output.ends_with(".json"),
                end => end.starts_with('/'),
            });
            is_journal || is_output || is_beside_output(url)
        };
        let take = |mut items: Vec<Item>| {
            items.retain(|item| !is_written(&item.url));
            take(items)
        };
        let options =
            ListOptions { store: self.options.store.clone(), assets: self.assets.clone(), absent: false };
        each_page(self.inputs.clone(), &self.filter, options, (&self.cancel, events), take).await
    }

    /// Returns an error if the run was cancelled, so that nothing more is published.
    pub(super) fn go_on(&self) -> Result<()> {
        self.check_cancelled(&Listing::default())
    }

    fn check_cancelled(&self, listing: &Listing) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(Error::Stopped { done: 0, files: listing.files });
        }
        Ok(())
    }

    /// Checks files of earlier runs whose listing does not show whether they have changed. Also checks the other files that
    /// they depend on, such as the sources of virtual datasets: if one has changed, or exists only now, its file is read again.
    pub(super) async fn recheck(&self, journal: &Journal, listing: &Listing) -> Result<()> {
        let mut newest = if self.appends() { journal.last_unlisted(NEWEST)? } else { Vec::new() };
        let mut after = String::new();
        loop {
            self.check_cancelled(listing)?;
            let mut files = journal.to_check(&after, LISTED as u64)?;
            let last = files.last().map(|last| last.item.url.clone());
            files.append(&mut newest);
            let (mut untold, mut present, mut absent) = (Vec::new(), Vec::new(), Vec::new());
            for ToCheck { id, item, related, is_untold } in &files {
                untold.extend(is_untold.then(|| (*id, item.clone())));
                for (url, version) in related {
                    let item = Item { url: url.clone(), ..Item::default() };
                    match version.clone() {
                        Some(Source { size, etag, modified, .. }) => {
                            present.push((*id, Item { size: Some(size), etag, modified, ..item }));
                        }
                        // No file has this size.
                        None => absent.push((*id, Item { size: Some(u64::MAX), ..item })),
                    }
                }
            }
            let mut done = HashSet::new();
            for (id, found) in self.changed(untold).await? {
                journal.found(id, found.as_ref())?;
                done.insert(id);
            }
            let mut again: HashSet<i64> =
                self.changed(present).await?.into_iter().map(|(id, _)| id).collect();
            let created = self.changed(absent).await?.into_iter().filter(|(_, found)| found.is_some());
            again.extend(created.map(|(id, _)| id));
            for file in files.iter().filter(|file| again.contains(&file.id) && !done.contains(&file.id)) {
                journal.found(file.id, Some(&file.item))?;
            }
            let Some(last) = last else { return Ok(()) };
            after = last;
        }
    }

    /// Returns the files, with their rows, that have changed since they were read.
    async fn changed(&self, mut files: Vec<(i64, Item)>) -> Result<Vec<(i64, Change)>> {
        files.sort_by(|(_, one), (_, other)| one.url.cmp(&other.url));
        let options = &self.options.store;
        let check = async {
            let (mut changed, mut single) = (Vec::new(), Vec::new());
            for folder in files.chunk_by(|(_, one), (_, other)| folder_of(&one.url) == folder_of(&other.url))
            {
                // The folders of buckets can be listed in pages.
                let scheme = folder.first().and_then(|(_, item)| Some(item.url.split_once("://")?.0));
                let is_bucket = scheme.is_some_and(|scheme| !matches!(scheme, "file" | "http" | "https"));
                single.extend(if is_bucket && folder.len() >= FEW {
                    listed(folder, options, &mut changed).await?
                } else {
                    folder.iter().collect()
                });
            }
            let looks = single.into_iter().map(|(id, item)| async move {
                let now = look(&item.url, options).await?;
                Ok::<_, StoreError>(difference(item, now.as_ref()).map(|found| (*id, found)))
            });
            let found: Vec<_> = stream::iter(looks).buffer_unordered(self.files.max(1)).try_collect().await?;
            changed.extend(found.into_iter().flatten());
            Ok(changed)
        };
        check.await.map_err(|error: StoreError| {
            let message = format!("cannot check a file of an earlier run: {error}");
            let error = virtualize::Error::from(error);
            let remedy = Remedy::advice("run the same command again");
            Error::new(error.class(), error.code(), message, remedy)
        })
    }

    /// Rejects a listing that would lose files, or mix two versions of a file.
    pub(super) fn compare(&self, journal: &Journal, events: &Events) -> Result<()> {
        let refuse = |Few { count, first }: Few, (one, many): (&str, &str), what: &str, code, remedy| {
            let verb = if count == 1 { one } else { many };
            let files = files(count);
            let message = format!("{files} that the journal knows {verb} {what}: {}", some(&first, count));
            Err(Error::new(ErrorClass::File, code, message, remedy))
        };
        let vanished = journal.vanished(self.appends(), NAMED)?;
        if vanished.count > 0 && self.run.on_change != OnChange::Drop {
            let remedy = Remedy::set(OptionName::OnChange, "drop", "omit them");
            return refuse(vanished, ("is", "are"), "no longer listed", Code::FilesVanished, remedy);
        }
        let replaced = journal.replaced(NAMED)?;
        if replaced.count > 0 && self.appends() && self.run.on_change == OnChange::Stop {
            let remedy = Remedy::set(OptionName::OnChange, "update", "read them again");
            return refuse(replaced, ("was", "were"), "replaced since", Code::FilesReplaced, remedy);
        }
        let Few { count, first } = journal.unwritten(NAMED)?;
        if count > 0 {
            let first: Vec<_> = first.iter().take(3).map(String::as_str).collect();
            let first = first.join(", ");
            let is_kept = self.appends() && self.run.on_change != OnChange::Drop;
            let fate = if is_kept { "included" } else { "dropped" };
            let remedy = Remedy::set(OptionName::OnChange, "drop", "drop them");
            let text = format!("{count} files of earlier runs that were never written are {fate}: {first}");
            let text = self.options.notation.append(text, is_kept.then_some(&remedy));
            events.tell(Event::Note { text });
        }
        Ok(())
    }

    /// Returns the settings of outputs of single files, if the run writes those.
    pub(super) fn each(&self, journal: &Journal, restart: bool) -> Result<Option<Each>> {
        if !self.each {
            return Ok(None);
        }
        let super::Target::References(format) = self.target else {
            let message = "--each does not apply to Icechunk repositories, which hold one dataset";
            return Err(Error::usage(message, None));
        };
        let root = match journal.fact(ROOT)?.filter(|_| !restart) {
            Some(root) => root,
            None => super::each::root(&self.inputs, journal)?,
        };
        Ok(Some(Each {
            output: self.output.clone(),
            root,
            format,
            extension: self.target.extension(),
            overwrite: self.overwrite || !journal.is_new(),
            relocation: self.relocation.clone(),
        }))
    }
}

/// The fact that stores the folder that names of outputs are relative to.
pub(super) const ROOT: &str = "root";

/// Number of files of a folder in a bucket from which listing the folder is cheaper than a request per file.
const FEW: usize = 16;
/// Number of files that justify fetching another page of a listing.
const A_PAGE: usize = 100;

fn folder_of(url: &str) -> &str {
    url.rsplit_once('/').map_or(url, |(folder, _)| folder)
}

/// Looks up files of one folder in its listing. Returns the files that need a request each, because the folder may not
/// be listed or has far more files than these.
async fn listed<'a>(
    files: &'a [(i64, Item)],
    options: &StoreOptions,
    changed: &mut Vec<(i64, Change)>,
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
            changed.extend(left.values().map(|(id, _)| (*id, None)));
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

/// A change to a file since it was read: it was replaced by another version, or is gone.
type Change = Option<Item>;

/// Returns the change between a file as it was read and as it is now.
fn difference(known: &Item, now: Option<&Listed>) -> Option<Change> {
    let Some(now) = now else { return Some(None) };
    let another = || Item { properties: known.properties.clone(), ..now.clone().into() };
    (!known.listed().agrees(now)).then(|| Some(another()))
}

/// A coordinate variable: an array named like its only dimension.
struct Coordinate {
    units: Option<String>,
    digest: Option<String>,
    grid: Option<Grid>,
}

impl Coordinate {
    /// Returns whether two coordinates are equal but for rounding.
    fn agrees(&self, other: &Self) -> bool {
        let grids = || self.grid.zip(other.grid);
        self.units == other.units
            && (self.digest == other.digest || grids().is_some_and(|(one, other)| one.agrees(&other)))
    }
}

impl Batch {
    /// Returns the batch with the dimensions of its journal or, on the first run, with the one along which the coordinates of
    /// the first and the last file differ. If all agree, or there is one file, that is the time dimension.
    pub(super) async fn with_dimensions(&self, events: &Events) -> Result<Self> {
        let path = self.journal_path();
        let mut recorded = None;
        if !self.run.restart && path.exists() {
            let journal = Journal::open_read_only(&path, &path)?;
            recorded = if journal.is_used()? { dimensions_of(&journal.options()?) } else { None };
        }
        let along = match recorded {
            Some(along) => along,
            None => vec![Along::Concat(self.inferred(events).await?)],
        };
        Ok(Self { layout: Layout { along, ..self.layout.clone() }, ..self.clone() })
    }

    async fn inferred(&self, events: &Events) -> Result<String> {
        let remedy =
            Remedy::turn_on(OptionName::ConcatDim, "join the files along a dimension that they have")
                .or(Remedy::turn_on(OptionName::StackDim, "add a new dimension"))
                .or(Remedy::turn_on(OptionName::Each, "write one output per file"));
        let refuse = |reason: &str| {
            Error::usage(&format!("no dimension to combine files along{reason}"), Some(remedy.clone()))
        };
        // Standard input cannot be listed twice, and the files of catalogues have their times there.
        if !self.inputs.iter().all(|input| matches!(input, Input::Files(_))) {
            return Err(refuse(""));
        }
        let (mut first, mut last): (Option<Item>, Option<Item>) = (None, None);
        self.for_each_listed(events, |items| {
            for item in items {
                match &first {
                    None => first = Some(item),
                    Some(_) => last = Some(item),
                }
            }
            Ok(())
        })
        .await?;
        let Some(first) = first else { return Err(refuse("")) };
        let unread = |error: virtualize::Error| refuse(&format!(": {error}"));
        let of_first = coordinates(&first, &self.layout, &self.options).await.map_err(unread)?;
        let of_last = match &last {
            Some(last) => coordinates(last, &self.layout, &self.options).await.map_err(unread)?,
            None => BTreeMap::new(),
        };
        let differs = |(path, one): &(&NodePath, &Coordinate)| {
            of_last.get(*path).is_some_and(|other| !one.agrees(other))
        };
        let is_of_time = |(_, one): &(&NodePath, &Coordinate)| one.units.as_deref().is_some_and(is_time);
        let names = |found: Vec<(&NodePath, &Coordinate)>| -> BTreeSet<String> {
            found.into_iter().map(|(path, _)| node::name(path).to_owned()).collect()
        };
        let mut found = names(of_first.iter().filter(differs).collect());
        let mut reason = "the only coordinate that differs";
        if found.is_empty() {
            found = names(of_first.iter().filter(is_of_time).collect());
            reason = "the time dimension";
        }
        let list = found.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        match found.len() {
            0 => Err(refuse("")),
            1 => {
                let text = format!("the files are combined along {list}, {reason}");
                events.tell(Event::Note { text });
                Ok(list)
            }
            _ => {
                let message = format!("no single dimension to combine files along: {list} differ");
                let options = found.into_iter().map(|name| (OptionName::ConcatDim, Some(name))).collect();
                let all = Remedy::Together { options, effect: "combine them along each of these".into() };
                let each = Remedy::turn_on(OptionName::Each, "write one output per file");
                Err(Error::usage(&message, all.or(each)))
            }
        }
    }
}

/// Reads the coordinate variables of a file.
async fn coordinates(
    item: &Item,
    layout: &Layout,
    options: &Options,
) -> Result<BTreeMap<NodePath, Coordinate>, virtualize::Error> {
    let options = options.for_file();
    let mut store = open(&item.url, &options).await?;
    layout.drop_arrays(&mut store);
    let mut arrays = store.hierarchy.arrays();
    arrays.retain(|(path, array)| is_coordinate(path, array));
    let digests = arrays.iter().map(|(path, _)| path.clone()).collect();
    let (_, mut digests, mut grids) =
        Wanted { digests, ..Wanted::default() }.read(&store, &options.store).await?;
    let coordinate = |(path, array): (NodePath, &Array)| {
        let units = array.attributes.get("units").and_then(|units| units.as_str()).map(str::to_owned);
        let coordinate = Coordinate { units, digest: digests.remove(&path), grid: grids.remove(&path) };
        (path, coordinate)
    };
    Ok(arrays.into_iter().map(coordinate).collect())
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
