//! One output a file: names below a folder or prefix.

use std::{collections::HashMap, path::Path};

use futures::{StreamExt, TryStreamExt, stream};
use virtualize::{Format, Options, Relocation, StoreOptions, VirtualStore};
use virtualize_store::{Parts, create_folder, list_page, local_path, url_of};

use super::present;
use crate::{
    Error, Item, Journal, JournalError, OptionConflict, journal::Content, list::Input, read::Failure,
};

/// Rows that are held against their outputs at once.
const PAGE: u64 = 1000;
/// Outputs that are read at once.
const AT_ONCE: usize = 8;

/// The folder that all names are relative to, with a slash at its end: of the inputs what stands before the first
/// wildcard, the folder of an input that is a file itself, and of all other files their common folder.
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
        roots.push(match journal.is_staged(&folder)? {
            true => folder_of(&folder).to_owned(),
            false => format!("{}/", folder.trim_end_matches('/')),
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

/// The url of a folder that may end in a slash, or be the whole of a bucket.
fn below(folder: &str) -> Option<String> {
    let inner = format!("{}/x", if folder.is_empty() { "." } else { folder.trim_end_matches('/') });
    let inner = if folder == "/" { "/x".to_owned() } else { inner };
    url_of(&inner).ok().map(|url| folder_of(&url).trim_end_matches('/').to_owned())
}

/// Up to the last slash, with it.
fn folder_of(url: &str) -> &str {
    url.rfind('/').and_then(|at| url.get(..=at)).unwrap_or("")
}

/// Without the query of a url, which may hold a signature.
fn plain(url: &str) -> &str {
    match url.split_once('?') {
        Some((plain, _)) if url.starts_with("http") => plain,
        _ => url,
    }
}

/// The longest folder in which both lie.
fn common(one: &str, other: &str) -> String {
    let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    folder_of(one.get(..same).unwrap_or("")).to_owned()
}

/// Where the output of a file goes, and how.
#[derive(Clone, Debug)]
pub(super) struct Each {
    /// Folder or prefix of the outputs.
    pub(super) output: String,
    /// What names are relative to.
    pub(super) root: String,
    /// What is written.
    pub(super) format: Format,
    /// What names end in.
    pub(super) extension: &'static str,
    /// What is there already is replaced, where it is a folder (a file is always).
    pub(super) overwrite: bool,
    /// How urls are written.
    pub(super) relocation: Relocation,
}

impl Each {
    /// Name of a file's output below the folder, such as `2024/a.nc.json`.
    ///
    /// What does not lie below the root is named from the nearest folder that has both, and from the scheme where none has.
    pub(super) fn name(&self, url: &str) -> Result<String, Failure> {
        let path = plain(url);
        let folder = common(&self.root, path);
        let name = path.strip_prefix(folder.as_str()).unwrap_or(path).replacen("://", "/", 1);
        let bad = |part: &str| matches!(part, "" | "." | "..") || part.contains(['\\', '\0']);
        match name.split('/').any(bad) {
            true => Err(Failure::of_file(format!("{path}: {name:?} cannot be the name of an output"))),
            false => Ok(format!("{name}{}", self.extension)),
        }
    }

    /// Where an output goes.
    pub(super) fn place(&self, name: &str) -> String {
        format!("{}/{name}", self.output.trim_end_matches('/'))
    }

    /// Writes the output of a file.
    pub(super) async fn content(
        &self,
        item: &Item,
        store: &mut VirtualStore,
        options: &Options,
    ) -> Result<Content, Failure> {
        let name = self.name(&item.url)?;
        let written = self.write(store, name, options).await;
        written.map_err(|error| Failure::new(error, options.notation))
    }

    /// Writes the output of a file. There is never a part of it.
    pub(super) async fn write(
        &self,
        store: &mut VirtualStore,
        name: String,
        options: &Options,
    ) -> Result<Content, virtualize::Error> {
        let place = self.place(&name);
        let relocation = match &self.relocation {
            Relocation::RelativeTo(_) => Relocation::RelativeTo(place.clone()),
            other => other.clone(),
        };
        store.relocate(&relocation)?;
        if let Some(folder) = local_path(&place).as_deref().and_then(Path::parent) {
            if let Some(writable) = &options.store.writable {
                writable.check_new_folder(folder)?;
            }
            create_folder(folder)?;
        }
        let prepared = virtualize::prepare(store, self.format, &place, self.overwrite, &options.store)?;
        let receipt = prepared.publish(&options.store).await?;
        Ok(Content::Written { name, receipt: receipt.to_string() })
    }

    /// Rows whose outputs are no longer what was written.
    pub(super) async fn damaged(&self, journal: &Journal, options: &StoreOptions) -> Result<Vec<i64>, Error> {
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

    /// What the store has of each output, by their names.
    async fn below(
        &self,
        journal: &Journal,
        options: &StoreOptions,
    ) -> Result<HashMap<String, Parts>, virtualize::StoreError> {
        let prefix = format!("{}/", present::name(&self.output));
        // What may be written need not be among what may be read.
        let options = &StoreOptions { allowed: None, ..options.clone() };
        let (mut there, mut after) = (HashMap::<String, Parts>::new(), None);
        if journal.written(i64::MIN, 1).is_ok_and(|first| first.is_empty()) {
            return Ok(there);
        }
        loop {
            let page = list_page(&prefix, true, after.as_deref(), options).await?;
            for object in &page.files {
                let key = object.url.strip_prefix(&prefix).unwrap_or(&object.url);
                let (name, rest) = match self.format.is_several_files() {
                    true => self.split(key),
                    false => (key, ""),
                };
                there.entry(name.to_owned()).or_default().add_object(rest, object);
            }
            after = page.next;
            if after.is_none() {
                return Ok(there);
            }
        }
    }

    /// The name of the output that has a key, and the key within it.
    fn split<'a>(&self, key: &'a str) -> (&'a str, &'a str) {
        let ending = format!("{}/", self.extension);
        let at = key.find(&ending).map(|at| at + self.extension.len());
        at.and_then(|at| Some((key.get(..at)?, key.get(at + 1..)?))).unwrap_or((key, ""))
    }

    /// Refuses files whose outputs would be at one place, or within each other.
    pub(super) fn check_names(&self, journal: &Journal, append: bool) -> Result<(), Error> {
        let refused = |one: &str, other: &str, name: &str| -> Error {
            let output = self.place(name);
            OptionConflict::SameOutput { one: plain(one).to_owned(), other: plain(other).to_owned(), output }
                .into()
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
