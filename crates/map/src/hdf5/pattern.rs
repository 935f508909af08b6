//! Names of the sources of virtual datasets.

use crate::{Error, Result};

/// The name of a source file or dataset. `%b` is replaced by the number of the block, `%%` by a percent sign.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Pattern(Vec<String>);

impl Pattern {
    pub(super) fn new(name: &str) -> Result<Self> {
        let mut parts = vec![String::new()];
        let mut rest = name.chars();
        while let Some(next) = rest.next() {
            match (next, if next == '%' { rest.next() } else { None }) {
                ('%', Some('b')) => parts.push(String::new()),
                ('%', Some('%')) => parts.iter_mut().next_back().into_iter().for_each(|part| part.push('%')),
                ('%', _) => {
                    let problem = format!("the name {name:?} has a percent sign that is neither %b nor %%");
                    return Err(Error::malformed("virtual mapping", problem));
                }
                (other, _) => parts.iter_mut().next_back().into_iter().for_each(|part| part.push(other)),
            }
        }
        Ok(Self(parts))
    }

    pub(super) fn is_numbered(&self) -> bool {
        self.0.len() > 1
    }

    pub(super) fn name(&self, n: u64) -> String {
        self.0.join(&n.to_string())
    }
}
