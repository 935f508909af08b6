//! Names of objects: their paths in the hierarchy, and which names a Zarr node can have.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque, btree_map::Entry};
use std::sync::Arc;

use virtualize_bytes::Address;
use virtualize_hdf5::model::{Datatype, File, Group, LinkTarget, Object};

use crate::{Error, Result};

/// The path of each object in the hierarchy: the first one in breadth-first order of hard links.
#[derive(Clone, Debug, Default)]
pub struct ObjectNames {
    root: Option<Address>,
    /// Parent group and name of each object. Whole paths could take memory that is quadratic in the depth.
    places: BTreeMap<Address, (Address, String)>,
    /// Whether an external link leads to the file, so that its paths are not those of the hierarchy.
    is_linked: bool,
}

/// What following the pointers of a [`crate::ChunkContent::Variable`] needs.
#[derive(Clone, Debug)]
pub struct HeapPointers {
    /// Type of an element.
    pub datatype: Datatype,
    /// Paths of the objects that references point to.
    pub objects: Arc<ObjectNames>,
}

impl ObjectNames {
    pub(super) fn new(file: &File) -> Self {
        let mut names = Self { root: Some(file.root), ..Self::default() };
        let mut queue = VecDeque::from([file.root]);
        while let Some(address) = queue.pop_front() {
            let Some(group) = group(file, address) else { continue };
            for link in &group.links {
                if let LinkTarget::Hard(target) = link.target
                    && target != file.root
                    && let Entry::Vacant(place) = names.places.entry(target)
                {
                    place.insert((address, shown_name(&link.name).into_owned()));
                    queue.push_back(target);
                }
            }
        }
        names
    }

    /// Marks the paths as those of a linked file.
    pub(super) fn linked(self) -> Self {
        Self { is_linked: true, ..self }
    }

    /// Whether the paths are those of a linked file.
    pub(super) fn is_linked(&self) -> bool {
        self.is_linked
    }

    /// Returns the path of an object without a leading slash; `None` if no hard link leads to it.
    pub fn path(&self, address: Address) -> Option<String> {
        let (mut names, mut at) = (Vec::new(), address);
        while Some(at) != self.root {
            let (parent, name) = self.places.get(&at)?;
            names.push(name.as_str());
            at = *parent;
        }
        names.reverse();
        Some(names.join("/"))
    }
}

/// Returns the group at an address.
pub(super) fn group(file: &File, address: Address) -> Option<&Group> {
    match file.objects.get(&address) {
        Some(Object::Group(group)) => Some(group),
        _ => None,
    }
}

/// Returns the name of a node for the name of a link. zarr-python treats a backslash as a slash, so in a name that contains
/// one, `%` is escaped as `%25` and the backslash as `%5C`, reversibly.
pub(super) fn shown_name(name: &str) -> Cow<'_, str> {
    match name.contains('\\') {
        true => name.replace('%', "%25").replace('\\', "%5C").into(),
        false => name.into(),
    }
}

/// Refuses names that no Zarr node can have.
pub(super) fn check_name(name: &str) -> Result<()> {
    let reserved = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"];
    let problem = match name {
        "" | "." | ".." => "is no name of a Zarr node",
        _ if reserved.contains(&name) => "is the key of Zarr metadata",
        _ if name.contains(['/', '\0']) => "contains a separator",
        _ => return Ok(()),
    };
    Err(Error::Name { name: name.to_owned(), problem })
}

#[cfg(test)]
mod tests {
    use super::{check_name, shown_name};

    #[test]
    fn backslashes_are_escaped_reversibly() {
        assert_eq!(shown_name("a\\b 5%"), "a%5Cb 5%25");
        assert_eq!(shown_name("100%"), "100%", "names without a backslash stay");
        assert!(check_name("a/b").is_err() && check_name(&shown_name("\\")).is_ok());
    }
}
