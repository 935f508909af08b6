//! Commits the combined dataset to an Icechunk repository.

use virtualize::{CommitMode, CommitOptions, Error as FileError, IcechunkError, Options};

use super::{
    Batch,
    combined::Combination,
    output::{WRITTEN, Writing, is_there},
};
use crate::{Along, Error, Event, combine::Plan};

/// The mark of the last commit that was begun: it may be there though it is not known to be written.
const COMMITTING: &str = "committing";
/// The property of commits that has their mark: the digest of what is committed, and a random number.
const MARK: &str = "virtualize-batch";

impl Writing<'_> {
    /// Commits what the repository does not have yet: the part of the new files where they follow the others, else all
    /// anew, in one commit.
    pub(super) async fn commit(
        &mut self,
        combination: Combination,
        options: &CommitOptions,
    ) -> Result<(), Error> {
        let last = self.last_commit(&options.branch).await?;
        if last.as_ref() == Some(&combination.digest) {
            self.summary.notes.push("the run that was ended before had committed all".to_owned());
            return Ok(());
        }
        let written = self.journal().fact(WRITTEN)?;
        // Else the run that committed it was killed before it kept which rows are in it.
        let rows_are_known = last.is_none() || last == written;
        if !rows_are_known {
            self.journal().set_fact(WRITTEN, last.as_deref())?;
        }
        let again = last.is_some() || (written.is_some() && is_there(&self.batch.output));
        if !again || options.mode != CommitMode::Add {
            return self.commit_as(combination, options.clone()).await;
        }
        if !self.batch.append && !self.batch.overwrite {
            let reason = "the repository has the files of the last run; --append brings what is new into it";
            return Err(Error::Usage(reason.to_owned()));
        }
        if let Some((tail, dimension)) = combination.tail().filter(|_| rows_are_known) {
            let options = CommitOptions { mode: CommitMode::Append(dimension), ..options.clone() };
            match self.commit_as(tail, options).await {
                Err(Error::File(FileError::Icechunk {
                    source: source @ IcechunkError::Append { .. },
                    ..
                })) => {
                    self.summary.notes.push(format!("{source}; all is written anew"));
                }
                other => return other,
            }
        }
        let options = CommitOptions { mode: CommitMode::Replace, ..options.clone() };
        self.commit_as(combination, options).await
    }

    /// The digest of what was committed last, if the repository has that commit: the run may have been killed before it
    /// wrote so.
    async fn last_commit(&self, branch: &str) -> Result<Option<String>, Error> {
        let Some(mark) = self.journal().fact(COMMITTING)? else { return Ok(None) };
        let Batch { output, options: Options { store: reaching, .. }, .. } = self.batch;
        let is_there = virtualize::has_commit(output, branch, (MARK, &mark), reaching).await?;
        let digest = mark.split_once(' ').map_or(mark.as_str(), |(digest, _)| digest);
        Ok(is_there.then(|| digest.to_owned()))
    }

    /// Commits, with a mark by which the commit is known again.
    async fn commit_as(&mut self, combination: Combination, options: CommitOptions) -> Result<(), Error> {
        let mark = format!("{} {:016x}", combination.digest, fastrand::u64(..));
        let store = self.put_together(combination).await?;
        let Batch { output, options: Options { store: reaching, .. }, .. } = self.batch;
        self.events.tell(Event::Writing { target: output.clone() });
        self.journal().set_fact(COMMITTING, Some(&mark))?;
        let mut options = options;
        options.properties.insert(MARK.to_owned(), mark);
        let done = virtualize::commit(&store, output, &options, reaching).await?;
        self.summary.notes.push(format!("{} chunks committed, snapshot {}", done.chunks, done.snapshot));
        self.summary.python = Some(done.python);
        Ok(())
    }
}

impl Combination {
    /// What is to be appended, and along which dimension, where that is all there is to do: all files of the last commit
    /// come first, and only one dimension grows.
    fn tail(&self) -> Option<(Self, String)> {
        let ([Along::Concat(name)], [era]) = (self.layout.along.as_slice(), self.plan.eras.as_slice()) else {
            return None;
        };
        let known = era.blocks.iter().take_while(|block| self.committed.contains(&block.row)).count();
        // Of a file that is there other elements may be taken now.
        if era.blocks.iter().take(known).any(|block| block.taken.is_some()) {
            return None;
        }
        if known == 0 || known == era.blocks.len() || known != self.committed.len() {
            return None;
        }
        let mut tail = era.clone();
        tail.blocks.drain(..known);
        let first = *tail.blocks.first()?.at.first()?;
        tail.sizes.first_mut()?.drain(..first);
        for block in &mut tail.blocks {
            let at = block.at.first_mut()?;
            *at = at.checked_sub(first)?;
        }
        let plan = Plan { eras: vec![tail], ..Plan::default() };
        Some((Self { plan, ..self.clone() }, name.clone()))
    }
}
