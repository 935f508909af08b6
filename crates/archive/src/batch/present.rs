//! Compares an existing output with the journal's record of it.

use virtualize::{StoreError, StoreOptions};
use virtualize_store::{Receipt, local_path, receipt, url_of};

use crate::{Error, Journal};

/// What exists at the location of a combined output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Present {
    /// Nothing.
    Nothing,
    /// An output of this journal, from the rows and options with this digest.
    Written { plan: String },
    /// An output that an interrupted run was publishing.
    Unfinished,
    /// An output that the journal has no record of.
    Unknown,
    /// An output that differs from the one the journal recorded.
    Other { found: Receipt, expected: Option<Receipt> },
}

impl Present {
    /// Inspects an output. If an interrupted run published it without recording that, updates the journal. In a bucket
    /// that cannot be verified: the store assigns the identity of objects on upload, too late for such a run to record
    /// it.
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
        // No run has recorded a complete output.
        if known.receipt.is_none() {
            return Ok(Self::Unknown);
        }
        Ok(Self::Other { found, expected: known.receipt.as_deref().and_then(Receipt::parse) })
    }

    /// Rejects an output that must not be replaced without the user's consent. Only a run over all files may replace a
    /// single file that it did not write.
    pub(super) fn check(&self, output: &str, several_files: bool, append: bool) -> Result<(), Error> {
        match self {
            Self::Other { found, expected } => Err(Error::OtherOutput {
                output: output.to_owned(),
                found: (found.files, found.bytes),
                expected: expected.as_ref().map(|it| (it.files, it.bytes)),
            }),
            Self::Unknown if append => Err(Error::UnknownOutput { output: output.to_owned() }),
            Self::Unknown if several_files => {
                Err(virtualize::Error::from(StoreError::Occupied { name: output.to_owned(), foreign: None })
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// Returns whether this journal wrote the output.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Written { .. } | Self::Unfinished)
    }
}

/// Returns the journal's name for an output, independent of the working directory.
pub(super) fn name(output: &str) -> String {
    let output = output.trim_end_matches('/');
    url_of(output).unwrap_or_else(|_| output.to_owned())
}
