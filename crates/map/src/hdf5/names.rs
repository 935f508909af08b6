//! Names of objects: their paths in the hierarchy, and which names a Zarr node can have.

use std::collections::{BTreeMap, VecDeque, btree_map::Entry};
use std::sync::Arc;

use virtualize_bytes::Address;
use virtualize_hdf5::model::{Datatype, File, Group, LinkTarget, Object};

use crate::node_names::shown_name;

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
