//! Writes one output per file, named below a folder or prefix.

use std::{collections::HashMap, path::Path};

use futures::{StreamExt, TryStreamExt, stream};
use virtualize::{Code, ErrorClass, Format, Options, Relocation, Remedy, StoreOptions, VirtualStore};
use virtualize_store::{Parts, create_folder, list_page, local_path, url_of};

use super::write::output_name;
use crate::{
    Error, Item, Journal, JournalError, Result,
    journal::{Failure, Record},
    list::Input,
};

/// Number of rows whose outputs are checked per page.
const PAGE: u64 = 1000;
/// Number of outputs checked at once.
const AT_ONCE: usize = 8;

/// Returns the folder that all names are relative to, with a trailing slash. It is the common folder of all inputs: a
/// pattern counts up to the last slash before its first wildcard, a file as its folder. Files from lists and catalogues
/// count as their folders.
pub(super) fn root(inputs: &[Input], journal: &Journal) -> Result<String, JournalError> {
    let mut roots: Vec<String> = Vec::new();
    for input in inputs {
        let Input::Files(input) = input else { continue };
        let literal = input.find(['*', '?', '[', '{']).and_then(|at| input.get(..at));
        let folder = match literal {
            Some(literal) => below(folder_of(literal)),
            None => url_of(input.trim_end_matches('/')).ok(),
        };
        let Some(folder) = folder else { continue };
        roots.push(if journal.is_staged(&folder)? {
            folder_of(&folder).to_owned()
        } else {
            format!("{}/", folder.trim_end_matches('/'))
        });
    }
    let mut all = roots.iter().cloned().reduce(|one, other| common(&one, &other));
    journal.for_each_named(false, |url| {
        if !roots.iter().any(|root| url.starts_with(root)) {
            let folder = folder_of(plain(url));
            all = Some(all.as_ref().map_or_else(|| folder.to_owned(), |all| common(all, folder)));
        }
        Ok::<_, JournalError>(())
    })?;
    Ok(all.unwrap_or_default())
}

/// Returns the URL of a folder without a trailing slash; the folder may be an entire bucket.
fn below(folder: &str) -> Option<String> {
    let inner = format!("{}/x", if folder.is_empty() { "." } else { folder.trim_end_matches('/') });
    let inner = if folder == "/" { "/x".to_owned() } else { inner };
    url_of(&inner).ok().map(|url| folder_of(&url).trim_end_matches('/').to_owned())
}

/// Returns a URL up to and including its last slash.
fn folder_of(url: &str) -> &str {
    url.rfind('/').and_then(|at| url.get(..=at)).unwrap_or("")
}

/// Returns a URL without its query, which may contain a signature.
fn plain(url: &str) -> &str {
    match url.split_once('?') {
        Some((plain, _)) if url.starts_with("http") => plain,
        _ => url,
    }
}

/// Returns the deepest folder that contains both.
fn common(one: &str, other: &str) -> String {
    let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    folder_of(one.get(..same).unwrap_or("")).to_owned()
}

/// Settings of the outputs of single files.
#[derive(Clone, Debug)]
pub(super) struct Each {
    /// Folder or prefix of the outputs.
    pub(super) output: String,
    /// Folder that names are relative to.
    pub(super) root: String,
    /// Format of the outputs.
    pub(super) format: Format,
    /// Extension of the outputs.
    pub(super) extension: &'static str,
    /// Whether to replace existing outputs that are folders; JSON files are always replaced.
    pub(super) overwrite: bool,
    /// How source URLs are written.
    pub(super) relocation: Relocation,
}

impl Each {
    /// Returns the name of a file's output relative to the output folder, such as `2024/a.nc.json`.
    ///
    /// A file outside the root is named relative to the deepest folder that contains both, or with its scheme if there
    /// is none.
    pub(super) fn name(&self, url: &str) -> Result<String, Failure> {
        // The URL of a file may end in a slash on the web.
        let path = plain(url).trim_end_matches('/');
        let folder = common(&self.root, path);
        let name = path.strip_prefix(folder.as_str()).unwrap_or(path).replacen("://", "/", 1);
        let bad = |part: &str| matches!(part, "" | "." | "..") || part.contains(['\\', '\0']);
        if name.split('/').any(bad) {
            Err(Failure::of_file(format!("{path}: {name:?} cannot be the name of an output [{}]", Code::Url)))
        } else {
            Ok(format!("{name}{}", self.extension))
        }
    }

    /// Returns the location of an output.
    pub(super) fn place(&self, name: &str) -> String {
        format!("{}/{name}", self.output.trim_end_matches('/'))
    }

    /// Writes the output of a file atomically, and returns its record.
    pub(super) async fn content(
        &self,
        item: &Item,
        store: &mut VirtualStore,
        options: &Options,
    ) -> Result<Record, Failure> {
        let name = self.name(&item.url)?;
        let place = self.place(&name);
        let relocation = match &self.relocation {
            Relocation::RelativeTo(_) => Relocation::RelativeTo(place.clone()),
            other => other.clone(),
        };
        let written = async {
            store.relocate(&relocation)?;
            if let Some(folder) = local_path(&place).as_deref().and_then(Path::parent) {
                create_folder(folder)?;
            }
            let prepared = virtualize::prepare(store, self.format, &place, self.overwrite)?;
            Ok::<_, virtualize::Error>(prepared.publish(&options.store).await?.to_string())
        };
        let receipt = written.await.map_err(|error| {
            let failure = Failure::new(error, options.notation);
            // The output cannot be written, which the file did not cause: the next run tries again.
            let class = match failure.class {
                ErrorClass::Denied | ErrorClass::NotFound => ErrorClass::Unavailable,
                class => class,
            };
            Failure { class, ..failure }
        })?;
        Ok(Record::Written { name, receipt })
    }

    /// Returns the rows whose outputs are missing or no longer match their receipts.
    pub(super) async fn damaged(&self, journal: &Journal, options: &StoreOptions) -> Result<Vec<i64>> {
        let there = match local_path(&self.output) {
            Some(_) => None,
            None => Some(self.below(journal, options).await.map_err(virtualize::Error::from)?),
        };
        let (mut after, mut damaged) = (i64::MIN, Vec::new());
        loop {
            let page = journal.written(after, PAGE)?;
            let Some((last, ..)) = page.last() else { return Ok(damaged) };
            after = *last;
            let checks = page.into_iter().map(|(id, name, receipt)| {
                let there = there.as_ref();
                async move {
                    let found = match there {
                        Some(there) => there.get(&name).map(Parts::receipt),
                        None => virtualize_store::receipt(&self.place(&name), true, options).await?,
                    };
                    let is_same = found.is_some_and(|found| found.to_string() == receipt);
                    Ok::<_, virtualize::StoreError>((!is_same).then_some(id))
                }
            });
            let found: Vec<_> = stream::iter(checks)
                .buffered(AT_ONCE)
                .try_collect()
                .await
                .map_err(virtualize::Error::from)?;
            damaged.extend(found.into_iter().flatten());
        }
    }

    /// Lists the objects of each output in the store, by the output's name.
    async fn below(
        &self,
        journal: &Journal,
        options: &StoreOptions,
    ) -> Result<HashMap<String, Parts>, virtualize::StoreError> {
        let prefix = format!("{}/", output_name(&self.output));
        // Outputs may be outside the locations allowed for reading.
        let options = &StoreOptions { allowed: None, ..options.clone() };
        let (mut there, mut after) = (HashMap::<String, Parts>::new(), None);
        if journal.written(i64::MIN, 1).is_ok_and(|first| first.is_empty()) {
            return Ok(there);
        }
        loop {
            let page = list_page(&prefix, true, after.as_deref(), options).await?;
            for object in &page.files {
                let key = object.url.strip_prefix(&prefix).unwrap_or(&object.url);
                let (name, rest) = if self.format.is_several_files() { self.split(key) } else { (key, "") };
                there.entry(name.to_owned()).or_default().add_object(rest, object);
            }
            after = page.next;
            if after.is_none() {
                return Ok(there);
            }
        }
    }

    /// Splits a key into the name of its output and the key within the output.
    fn split<'a>(&self, key: &'a str) -> (&'a str, &'a str) {
        let ending = format!("{}/", self.extension);
        let at = key.find(&ending).map(|at| at + self.extension.len());
        at.and_then(|at| Some((key.get(..at)?, key.get(at + 1..)?))).unwrap_or((key, ""))
    }

    /// Rejects files whose outputs would share a location, or be nested in each other.
    pub(super) fn check_names(&self, journal: &Journal, append: bool) -> Result<()> {
        let refused = |one: &str, other: &str, name: &str| -> Error {
            let output = self.place(name);
            let message = format!("{} and {} map to the same output, {output}", plain(one), plain(other));
            let remedy = Remedy::advice("read them in separate runs, with different outputs");
            Error::new(ErrorClass::Conflict, Code::Usage, message, remedy)
        };
        journal.for_each_named(append, |url| {
            let Ok(name) = self.name(url) else { return Ok(()) };
            match journal.claim_name(&name, url)? {
                Some(other) => Err(refused(&other, url, &name)),
                None => Ok(()),
            }
        })?;
        journal.for_each_named(append, |url| {
            let Ok(name) = self.name(url) else { return Ok(()) };
            for (at, _) in name.match_indices('/') {
                let above = name.get(..at).unwrap_or_default();
                if let Some(other) = journal.has_name(above)? {
                    return Err(refused(&other, url, above));
                }
            }
            Ok(())
        })
    }
}
