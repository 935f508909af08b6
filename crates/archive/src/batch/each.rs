//! One output a file: names below a folder or prefix.

use std::{fs, path::Path};

use virtualize::{Format, Options, Relocation, VirtualStore};
use virtualize_store::url_of;

use crate::{journal::Content, list::Input};

/// The folder that all names are relative to, with a slash at its end: of the inputs what stands before the first
/// wildcard, the folder of an input that is a file itself, and of all other files their common folder.
pub(super) fn root(inputs: &[Input], urls: &[String]) -> Option<String> {
    let mut roots: Vec<String> = Vec::new();
    for input in inputs {
        let Input::Files(input) = input else { continue };
        let literal = input.find(['*', '?', '[', '{']).and_then(|at| input.get(..at));
        let folder = match literal {
            Some(literal) => below(folder_of(literal)),
            None => url_of(input.trim_end_matches('/')).ok(),
        };
        let Some(folder) = folder else { continue };
        match urls.binary_search(&folder) {
            Ok(_) => roots.push(folder_of(&folder).to_owned()),
            Err(_) => roots.push(format!("{}/", folder.trim_end_matches('/'))),
        }
    }
    let others = urls.iter().filter(|url| !roots.iter().any(|root| url.starts_with(root)));
    let others: Vec<&str> = others.map(|url| folder_of(plain(url))).collect();
    roots
        .iter()
        .map(String::as_str)
        .chain(others)
        .map(str::to_owned)
        .reduce(|one, other| common(&one, &other))
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
    pub(super) fn name(&self, url: &str) -> Result<String, String> {
        let path = plain(url);
        let Some(name) = path.strip_prefix(&self.root) else {
            return Err(format!("{path}: does not lie below {}, which names are relative to", self.root));
        };
        let bad = |part: &str| matches!(part, "" | "." | "..") || part.contains(['\\', '\0']);
        match name.split('/').any(bad) {
            true => Err(format!("{path}: {name:?} cannot be the name of an output")),
            false => Ok(format!("{name}{}", self.extension)),
        }
    }

    /// Where an output goes.
    pub(super) fn place(&self, name: &str) -> String {
        format!("{}/{name}", self.output.trim_end_matches('/'))
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
        let local = local(&place);
        if let Some(folder) = local.and_then(Path::parent) {
            fs::create_dir_all(folder).map_err(|error| virtualize_store::StoreError::Unavailable {
                name: folder.display().to_string(),
                reason: error.to_string(),
            })?;
        }
        match self.format.is_several_files() {
            true => {
                virtualize::write_folder(store, self.format, &place, self.overwrite, &options.store).await?;
            }
            false => virtualize::write(store, self.format, &place, &options.store).await?,
        }
        let bytes = local.filter(|path| path.is_file()).and_then(|path| fs::metadata(path).ok());
        Ok(Content::Written { name, bytes: bytes.map(|found| found.len()) })
    }

    /// Whether an output is still as it was written, as far as that can be told without a request.
    pub(super) fn is_there(&self, name: &str, bytes: Option<u64>) -> bool {
        let place = self.place(name);
        let Some(path) = local(&place) else { return true };
        fs::metadata(path).is_ok_and(|found| bytes.is_none_or(|bytes| found.len() == bytes))
    }
}

/// The path of a place that is local.
fn local(place: &str) -> Option<&Path> {
    match place.split_once("://") {
        Some(("file", path)) => Some(Path::new(path)),
        Some(_) => None,
        None => Some(Path::new(place)),
    }
}
