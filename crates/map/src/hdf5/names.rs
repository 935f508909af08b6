//! Links, resolved: what a group's children are, and under which paths objects are found.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use virtualize_zarr::node::join;

use virtualize_bytes::Address;
use virtualize_hdf5::model::{File, Group, LinkTarget, Object};

/// Soft links that one path may run through.
const SOFT_LINKS: u32 = 32;

/// The first path of each object, breadth first, as it is shown.
#[derive(Clone, Debug, Default)]
pub struct ObjectNames {
    paths: BTreeMap<Address, String>,
    /// The file is one that an external link leads to: its paths are not those of the hierarchy.
    is_linked: bool,
}

impl ObjectNames {
    pub(super) fn new(file: &File) -> Self {
        let mut paths = BTreeMap::from([(file.root, String::new())]);
        let mut queue = VecDeque::from([file.root]);
        while let Some(address) = queue.pop_front() {
            let Some(group) = group(file, address) else { continue };
            let prefix = paths.get(&address).cloned().unwrap_or_default();
            for link in &group.links {
                if let LinkTarget::Hard(target) = link.target
                    && !paths.contains_key(&target)
                {
                    paths.insert(target, join(&prefix, &shown_name(&link.name)));
                    queue.push_back(target);
                }
            }
        }
        Self { paths, is_linked: false }
    }

    /// The same objects, which are shown elsewhere.
    pub(super) fn linked(self) -> Self {
        Self { is_linked: true, ..self }
    }

    /// Whether paths are those of another file than the one that is shown.
    pub(super) fn is_linked(&self) -> bool {
        self.is_linked
    }

    /// Path of an object without a leading slash; `None` where no hard link leads to it.
    pub fn path(&self, address: Address) -> Option<&str> {
        self.paths.get(&address).map(String::as_str)
    }
}

/// The group at an address.
pub(super) fn group(file: &File, address: Address) -> Option<&Group> {
    match file.objects.get(&address) {
        Some(Object::Group(group)) => Some(group),
        _ => None,
    }
}

/// The object that a path leads to, from the group that holds the link; absolute paths start at the root.
pub(super) fn resolve(file: &File, from: Address, path: &str) -> Option<Address> {
    look_up(file, from, path).ok().flatten()
}

/// The same; `None` where there is none, an error where it cannot be told from this file.
pub(super) fn look_up(file: &File, from: Address, path: &str) -> Result<Option<Address>, String> {
    look_up_within(file, from, path, &mut 0)
}

fn look_up_within(
    file: &File,
    from: Address,
    path: &str,
    steps: &mut u32,
) -> Result<Option<Address>, String> {
    let mut at = if path.starts_with('/') { file.root } else { from };
    for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
        if let Some(Object::Unreadable(error)) = file.objects.get(&at) {
            return Err(error.to_string());
        }
        let links = group(file, at).map(|group| group.links.as_slice()).unwrap_or_default();
        let Some(link) = links.iter().find(|link| link.name == name) else { return Ok(None) };
        let next = match &link.target {
            LinkTarget::Hard(address) => Some(*address),
            LinkTarget::Soft(target) => {
                *steps += 1;
                if *steps > SOFT_LINKS {
                    return Err(format!("more than {SOFT_LINKS} soft links lead to each other"));
                }
                look_up_within(file, at, target, steps)?
            }
            LinkTarget::External { .. } => return Err("it lies behind an external link".to_owned()),
            LinkTarget::UserDefined(_) => return Err("it lies behind a user-defined link".to_owned()),
            LinkTarget::Unreadable(error) => return Err(error.to_string()),
        };
        let Some(next) = next else { return Ok(None) };
        at = next;
    }
    Ok(Some(at))
}

/// A name as it is shown: in one with a backslash, which zarr-python takes for a slash, `%` is `%25` and the backslash
/// `%5C`, so that it can be turned back.
pub(super) fn shown_name(name: &str) -> Cow<'_, str> {
    match name.contains('\\') {
        true => name.replace('%', "%25").replace('\\', "%5C").into(),
        false => name.into(),
    }
}

/// Why a name cannot be that of a Zarr node.
pub(super) fn refuse_name(name: &str) -> Option<String> {
    let reserved = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"];
    match name {
        "" | "." | ".." => Some(format!("\"{name}\" is no name of a Zarr node")),
        _ if reserved.contains(&name) => Some(format!("\"{name}\" is the key of Zarr metadata")),
        _ if name.contains(['/', '\0']) => Some(format!("{name:?} holds a separator")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{refuse_name, shown_name};

    #[test]
    fn backslashes_are_shown_so_that_they_can_be_turned_back() {
        assert_eq!(shown_name("a\\b 5%"), "a%5Cb 5%25");
        assert_eq!(shown_name("100%"), "100%", "names without a backslash stay");
        assert!(refuse_name("a/b").is_some() && refuse_name(&shown_name("\\")).is_none());
    }
}
