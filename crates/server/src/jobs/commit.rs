//! Commits to Icechunk repositories, as requests for jobs say them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
#[cfg(feature = "icechunk")]
use virtualize::{CommitMode, CommitOptions};

use crate::Problem;

/// Longest text, in bytes.
const LONGEST: usize = 8192;
/// Most properties.
const MOST: usize = 100;

/// What a commit says and where it goes. Members have the names of the command's flags.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Commit {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    /// Further properties.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    commit_property: BTreeMap<String, String>,
    /// Path of the group that the dataset's root becomes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// The group is removed first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    replace: bool,
    /// Arrays that are there become longer along this dimension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    append_dim: Option<String>,
}

impl Commit {
    /// Checks it where there is a commit, or that nothing is said of one.
    pub(super) fn check(&self, is_committed: bool) -> Result<(), Problem> {
        if !is_committed && *self != Self::default() {
            let names = "branch, message, author, commit_property, group, replace, append_dim";
            return Err(Problem::parameter("format", format!("{names} are for format icechunk")));
        }
        if self.replace && self.append_dim.is_some() {
            return Err(Problem::parameter("append_dim", "not with replace"));
        }
        let texts = [&self.branch, &self.message, &self.author, &self.group, &self.append_dim];
        let texts = texts.into_iter().flatten().chain(self.commit_property.iter().flat_map(<[_; 2]>::from));
        match texts.into_iter().all(|text| text.len() <= LONGEST) && self.commit_property.len() <= MOST {
            true => Ok(()),
            false => Err(Problem::parameter(
                "commit_property",
                format!("expected at most {MOST} texts of at most {LONGEST} bytes"),
            )),
        }
    }

    /// The library's options.
    #[cfg(feature = "icechunk")]
    pub(super) fn options(&self) -> CommitOptions {
        let usual = CommitOptions::default();
        let author = self.author.iter().map(|author| ("author".to_owned(), author.clone()));
        let properties = self.commit_property.iter().map(|(name, value)| (name.clone(), value.clone()));
        CommitOptions {
            branch: self.branch.clone().unwrap_or(usual.branch),
            message: self.message.clone().unwrap_or_else(|| "virtual references of many files".to_owned()),
            properties: author.chain(properties).collect(),
            group: self.group.clone().unwrap_or_default(),
            mode: match &self.append_dim {
                Some(dimension) => CommitMode::Append(dimension.clone()),
                None if self.replace => CommitMode::Replace,
                None => CommitMode::Add,
            },
            ..CommitOptions::default()
        }
    }
}
