//! Lookup of objects by path, charged to the budget of the file.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use virtualize_bytes::{Address, Budget};
use virtualize_hdf5::model::{File, Group, Link, LinkTarget, Object};

use super::names::group;
use crate::{Error, Result};

/// Most soft links on one path.
const SOFT_LINKS: u32 = 32;

/// Bytes of the budget for one step of a path.
const STEP: u64 = 16;

/// Looks up paths. The links of each group are sorted by name once, so that hostile files cannot make it quadratic.
#[derive(Debug)]
pub(super) struct Lookup<'a> {
    /// Memory and work that the file may take.
    pub(super) budget: &'a Budget<'a>,
    /// For each group, the indices of its links in order of name; links of one name in stored order.
    sorted: RefCell<BTreeMap<*const Group, Rc<[usize]>>>,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(budget: &'a Budget<'a>) -> Self {
        Self { budget, sorted: RefCell::default() }
    }

    /// Takes bytes from the budget for `what`.
    ///
    /// # Errors
    /// The budget is spent.
    pub(super) fn take(&self, what: &str, bytes: u64) -> Result<()> {
        Ok(self.budget.take(what, bytes)?)
    }

    /// Finds the object that a path leads to. Relative paths start at the group `from`, absolute ones at the root. Returns
    /// `None` if there is no such object.
    ///
    /// # Errors
    /// The path leads through a link that cannot be resolved in this file.
    pub(super) fn find(&self, file: &File, from: Address, path: &str) -> Result<Option<Address>> {
        self.find_within(file, from, path, &mut 0)
    }

    fn find_within(
        &self,
        file: &File,
        from: Address,
        path: &str,
        soft_links: &mut u32,
    ) -> Result<Option<Address>> {
        let mut at = if path.starts_with('/') { file.root } else { from };
        for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
            self.take("paths of soft links and virtual sources", STEP.saturating_add(name.len() as u64))?;
            if let Some(Object::Unreadable(error)) = file.objects.get(&at) {
                return Err(error.clone().into());
            }
            let Some(link) = group(file, at).and_then(|group| self.link(group, name)) else {
                return Ok(None);
            };
            let next = match &link.target {
                LinkTarget::Hard(address) => Some(*address),
                LinkTarget::Soft(target) => {
                    *soft_links = soft_links.saturating_add(1);
                    if *soft_links > SOFT_LINKS {
                        return Err(Error::Limit {
                            what: "soft links on one path",
                            limit: SOFT_LINKS.into(),
                        });
                    }
                    self.find_within(file, at, target, soft_links)?
                }
                LinkTarget::External { .. } => {
                    return Err(Error::unresolved(path.to_owned(), "leads through an external link"));
                }
                LinkTarget::UserDefined(_) => {
                    return Err(Error::unresolved(path.to_owned(), "leads through a user-defined link"));
                }
                LinkTarget::Unreadable(error) => return Err(error.clone().into()),
            };
            let Some(next) = next else { return Ok(None) };
            at = next;
        }
        Ok(Some(at))
    }

    /// Returns the first link of a name.
    fn link<'f>(&self, group: &'f Group, name: &str) -> Option<&'f Link> {
        let mut sorted = self.sorted.borrow_mut();
        let order = sorted.entry(std::ptr::from_ref(group)).or_insert_with(|| by_name(group));
        let known = |at: &usize| group.links.get(*at).map(|link| link.name.as_str());
        let first = order.partition_point(|at| known(at) < Some(name));
        order.get(first).and_then(|at| group.links.get(*at)).filter(|link| link.name == name)
    }
}

fn by_name(group: &Group) -> Rc<[usize]> {
    let mut order: Vec<usize> = (0..group.links.len()).collect();
    order.sort_by_key(|at| group.links.get(*at).map(|link| link.name.as_str()));
    order.into()
}

#[cfg(test)]
mod tests {
    use virtualize_bytes::Limits;

    use super::*;

    fn file(links: Vec<(String, LinkTarget)>) -> File {
        let links = links.into_iter().map(|(name, target)| Link { name, target }).collect();
        let root = Object::Group(Group { links, ..Group::default() });
        File { objects: BTreeMap::from([(Address(0), root)]), ..super::super::tests::file(Vec::new()) }
    }

    fn soft(path: &str) -> LinkTarget {
        LinkTarget::Soft(path.to_owned())
    }

    #[test]
    fn the_first_link_of_a_name_counts() {
        let hard = |name: &str, at| (name.to_owned(), LinkTarget::Hard(Address(at)));
        let file = file(vec![hard("b", 1), hard("a", 2), hard("b", 3), ("s".to_owned(), soft("./b"))]);
        let budget = Budget::of_file(&Limits::default(), 0);
        let lookup = Lookup::new(&budget);
        let find = |path| lookup.find(&file, Address(0), path);
        let found = ["b", "/s", "c"].map(|path| find(path).unwrap());
        assert_eq!(found, [Some(Address(1)), Some(Address(1)), None]);
    }

    /// Finding all soft links of a group takes as many steps as there are links, not their square, and a path that is
    /// followed again and again ends with the budget.
    #[test]
    fn steps_are_counted() {
        for count in [1_000_u64, 2_000, 4_000] {
            let name = |n: u64| format!("s{n:05}");
            let mut links: Vec<_> = (1..count).map(|n| (name(n), soft(&name(0)))).collect();
            links.push((name(0), LinkTarget::Hard(Address(0))));
            let file = file(links);
            let budget = Budget::of_file(&Limits::default(), 0);
            let (before, lookup) = (budget.left(), Lookup::new(&budget));
            for n in 0..count {
                assert_eq!(lookup.find(&file, Address(0), &name(n)).unwrap(), Some(Address(0)));
            }
            assert_eq!(before - budget.left(), (2 * count - 1) * (STEP + 6));
        }
        let long = "x/".repeat(30_000);
        let file = file(vec![("x".to_owned(), LinkTarget::Hard(Address(0))), ("s".to_owned(), soft(&long))]);
        let budget = Budget::of_file(&Limits::default(), 0);
        let lookup = Lookup::new(&budget);
        let error = (0..1_000_000).find_map(|_| lookup.find(&file, Address(0), "s").err());
        assert!(error.is_some_and(|error| error.to_string().contains("the limit for 0 bytes of files")));
    }
}
