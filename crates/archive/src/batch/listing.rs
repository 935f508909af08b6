//! Lists the inputs and compares them with the journal. A listing takes effect only once it is accepted as a whole.

use std::path::Path;

use futures::StreamExt;
use virtualize::{OptionName, Remedy};

use super::{
    Batch, NAMED, RunOptions,
    each::Each,
    recheck,
    shard::{ListDigest, Parts},
};
use crate::{
    Error, Event, Item, Journal, JournalError, OptionConflict,
    event::Events,
    journal::{Accept, Listing},
    list::{Few, ListOptions, line, list},
};

/// Maximum number of files that are staged, or checked, at once.
const LISTED: usize = 1000;
/// Number of the newest files of earlier runs that a run checks if it appends.
const NEWEST: u64 = 1000;

impl Batch {
    /// Opens the journal. Also returns whether to discard its contents first.
    pub(super) fn open_journal(&self, path: &Path, events: &Events) -> Result<(Journal, bool), Error> {
        if self.run.restart {
            Journal::remove_unusable(path)?;
        }
        let journal = Journal::open(path)?;
        let differences = journal.other_options(&self.row_options())?;
        if differences.is_empty() || self.run.restart {
            return Ok((journal, self.run.restart));
        }
        match journal.is_used()? {
            true => Err(JournalError::OtherOptions { path: path.to_owned(), differences }.into()),
            false => {
                let first = differences.first().map(ToString::to_string).unwrap_or_default();
                let text = format!("the journal has no output, and begins anew with other options: {first}");
                events.tell(Event::Note { text });
                Ok((journal, true))
            }
        }
    }

    /// Lists the inputs, and makes them the journal's files. Returns the journals of shards to merge, which are checked
    /// before that.
    pub(super) async fn list(
        &self,
        journal: &mut Journal,
        restart: bool,
        events: &Events,
    ) -> Result<Parts, Error> {
        let (mut listing, mut digest) = (Listing::default(), ListDigest::default());
        self.for_each_listed(events, |items| {
            if !self.run.merge.is_empty() {
                items.iter().for_each(|item| digest.add(&line(item)));
            }
            journal.stage(&items, &mut listing)?;
            events.tell(Event::Listed { files: listing.files, pending: listing.pending, complete: false });
            Ok(())
        })
        .await?;
        let unread = listing.unread(restart);
        let parts = Box::pin(self.check_shards(digest.finish(), &unread, listing.files)).await?;
        self.accept(journal, restart, &listing, events).await?;
        Ok(parts)
    }

    /// Makes the staged files those of the journal.
    pub(super) async fn accept(
        &self,
        journal: &mut Journal,
        restart: bool,
        listing: &Listing,
        events: &Events,
    ) -> Result<(), Error> {
        if !restart {
            self.recheck(journal, listing).await?;
            self.compare(journal, events)?;
        }
        let append = self.appends();
        let each = self.each(journal, restart)?;
        if let Some(each) = &each {
            each.check_names(journal, append && !restart)?;
        }
        self.check_cancelled(listing)?;
        let RunOptions { drop_unwritten, retry_failed, .. } = self.run;
        let retry_unavailable = !self.run.skip_failed;
        let how = Accept { append, restart, drop_unwritten, retry_failed, retry_unavailable };
        let root = each.as_ref().map(|each| (ROOT, each.root.as_str()));
        let counts = journal.accept(how, &self.row_options(), root)?;
        events.tell(Event::Listed { files: counts.all(), pending: counts.pending, complete: true });
        Ok(())
    }

    /// Returns whether the files of earlier runs stay in the journal. That of a shard has the files of the shard.
    fn appends(&self) -> bool {
        self.run.append && self.run.shard.is_none()
    }

    /// Lists the files of the inputs, and passes them on in portions.
    pub(super) async fn for_each_listed(
        &self,
        events: &Events,
        mut take: impl FnMut(Vec<Item>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let options =
            ListOptions { store: self.options.store.clone(), assets: self.assets.clone(), absent: false };
        let mut files = list(self.inputs.clone(), self.filter.clone(), options)?.ready_chunks(LISTED);
        let mut listing = Listing::default();
        while let Some(items) = files.next().await {
            self.check_cancelled(&listing)?;
            listing.files += items.len() as u64;
            take(items.into_iter().collect::<Result<Vec<_>, _>>()?)?;
        }
        for text in files.get_ref().tally().notes() {
            events.tell(Event::Note { text });
        }
        Ok(())
    }

    /// Returns an error if the run was cancelled, so that nothing more is published.
    pub(super) fn go_on(&self) -> Result<(), Error> {
        self.check_cancelled(&Listing::default())
    }

    fn check_cancelled(&self, listing: &Listing) -> Result<(), Error> {
        match self.cancel.is_cancelled() {
            true => Err(Error::Stopped { done: 0, files: listing.files }),
            false => Ok(()),
        }
    }

    /// Checks files of earlier runs whose listing does not show whether they have changed.
    pub(super) async fn recheck(&self, journal: &Journal, listing: &Listing) -> Result<(), Error> {
        let RunOptions { recheck, no_recheck, .. } = self.run;
        let append = self.appends();
        if no_recheck {
            return Ok(());
        }
        let mut newest = if append && !recheck { journal.last_unlisted(NEWEST)? } else { Vec::new() };
        let mut after = String::new();
        loop {
            self.check_cancelled(listing)?;
            let mut files = journal.untold(&after, LISTED as u64)?;
            if append && recheck {
                files.extend(journal.unlisted(&after, LISTED as u64)?);
                files.sort_by(|(_, one), (_, other)| one.url.cmp(&other.url));
                files.truncate(LISTED);
            }
            let last = files.last().map(|(_, last)| last.url.clone());
            files.append(&mut newest);
            files.sort_by(|(_, one), (_, other)| one.url.cmp(&other.url));
            self.recheck_page(journal, files).await?;
            let Some(last) = last else { return Ok(()) };
            after = last;
        }
    }

    async fn recheck_page(&self, journal: &Journal, files: Vec<(i64, Item)>) -> Result<(), Error> {
        let changed = recheck::changed(files, self.files, &self.options.store).await;
        for (id, found) in changed.map_err(Error::Unchecked)? {
            journal.found(id, &found)?;
        }
        Ok(())
    }

    /// Rejects a listing that would lose files, or mix two versions of a file.
    pub(super) fn compare(&self, journal: &Journal, events: &Events) -> Result<(), Error> {
        let Few { count, first } = journal.vanished(self.appends(), NAMED)?;
        if count > 0 && !self.run.drop_vanished {
            return Err(Error::Vanished { count, first });
        }
        let Few { count, first } = journal.replaced(NAMED)?;
        if count > 0 && self.appends() && !self.run.reread_changed {
            return Err(Error::Replaced { count, first });
        }
        let Few { count, first } = journal.unwritten(NAMED)?;
        if count > 0 {
            let first: Vec<_> = first.iter().take(3).map(String::as_str).collect();
            let first = first.join(", ");
            let is_kept = self.appends() && !self.run.drop_unwritten;
            let fate = if is_kept { "included" } else { "forgotten" };
            let remedy = Remedy::turn_on(OptionName::DropUnwritten, "forget them");
            let text =
                format!("{count} files that earlier runs added, and that no output has, are {fate}: {first}");
            let text = self.options.notation.append(text, is_kept.then_some(&remedy));
            events.tell(Event::Note { text });
        }
        Ok(())
    }

    /// Returns the settings of outputs of single files, if the run writes those.
    pub(super) fn each(&self, journal: &Journal, restart: bool) -> Result<Option<Each>, Error> {
        if !self.each {
            return Ok(None);
        }
        #[cfg_attr(not(feature = "icechunk"), allow(irrefutable_let_patterns, reason = "of one kind then"))]
        let super::Target::References(format) = self.target else {
            return Err(OptionConflict::EachInRepository.into());
        };
        let root = match journal.fact(ROOT)?.filter(|_| !restart) {
            Some(root) => root,
            None => super::each::root(&self.inputs, journal)?,
        };
        Ok(Some(Each {
            output: self.output.clone(),
            root,
            format,
            extension: self.target.extension(),
            overwrite: self.overwrite || !journal.is_new(),
            relocation: self.relocation.clone(),
        }))
    }
}

/// The fact that stores the folder that names of outputs are relative to.
pub(super) const ROOT: &str = "root";
