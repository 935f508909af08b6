//! What is at the place of an output, beside what the journal knows of it.

use virtualize::{StoreError, StoreOptions};
use virtualize_store::{Receipt, local_path, receipt, url_of};

use crate::{Error, Journal};

/// What is at the place of a combined output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Present {
    /// Nothing.
    Nothing,
    /// What this journal wrote, of the rows and options of this digest.
    Written { plan: String },
    /// What a run was writing when it was killed.
    Unfinished,
    /// Something of which the journal knows nothing.
    Unknown,
    /// Something else than the journal wrote.
    Other { found: Receipt, expected: Option<Receipt> },
}

impl Present {
    /// Looks at an output, and lets the journal know where a run put it there that was killed before it could say so.
    /// Objects of a bucket are known by what the store gave for them, which such a run could not note.
    pub(super) async fn of(
        output: &str,
        several_files: bool,
        journal: &mut Journal,
        options: &StoreOptions,
    ) -> Result<Self, Error> {
        let found = receipt(output, several_files, options).await.map_err(virtualize::Error::from)?;
        let Some(found) = found else { return Ok(Self::Nothing) };
        let name = name(output);
        let Some(known) = journal.output(&name)? else { return Ok(Self::Unknown) };
        let there = found.to_string();
        if known.receipt.as_ref() == Some(&there) {
            return Ok(Self::Written { plan: known.plan.unwrap_or_default() });
        }
        if known.begun.as_ref() == Some(&there) {
            journal.finish_output(&name, &there)?;
            return Ok(Self::Written { plan: known.begun_plan.unwrap_or_default() });
        }
        if known.begun.is_some() && local_path(output).is_none() {
            journal.keep_begun()?;
            return Ok(Self::Unfinished);
        }
        // No run has ended its writing.
        if known.receipt.is_none() {
            return Ok(Self::Unknown);
        }
        Ok(Self::Other { found, expected: known.receipt.as_deref().and_then(Receipt::parse) })
    }

    /// Whether it may be replaced without being asked to: a single file is, by a run that has all files.
    pub(super) fn check(&self, output: &str, several_files: bool, append: bool) -> Result<(), Error> {
        match self {
            Self::Other { found, expected } => Err(Error::OtherOutput {
                output: output.to_owned(),
                found: (found.files, found.bytes),
                expected: expected.as_ref().map(|it| (it.files, it.bytes)),
            }),
            Self::Unknown if append => Err(Error::UnknownOutput { output: output.to_owned() }),
            Self::Unknown if several_files => {
                Err(virtualize::Error::from(StoreError::Occupied { name: output.to_owned() }).into())
            }
            _ => Ok(()),
        }
    }

    /// Whether this journal wrote it.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Written { .. } | Self::Unfinished)
    }
}

/// The name by which the journal knows an output, wherever the run is started.
pub(super) fn name(output: &str) -> String {
    let output = output.trim_end_matches('/');
    url_of(output).unwrap_or_else(|_| output.to_owned())
}
