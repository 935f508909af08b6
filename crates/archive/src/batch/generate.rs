//! Parts of files that do not exist, to measure runs over archives that would take days to read.

use bytes::Bytes;
use virtualize::zarr::Source;

use super::{Batch, Shard};
use crate::{
    Error, Item, Member,
    event::Events,
    journal::{Content, Done, MemberRow, Outcome, Work},
    parts::{Expected, PartRow, PlanFile, ShardNumber, Spent, encode, write},
    plan::FileExtent,
    read::{ReadFile, attempt},
};

/// Text of the template that becomes the number of the file.
const NUMBER: &str = "0000000000";

impl Batch {
    /// Writes the part of a shard of a plan whose files are all like `template`, a file that exists, except for the
    /// values of `time` (int64, shifted so that the files follow each other) and the text `0000000000` in metadata,
    /// which becomes the number of the file: `first` for the first file of the plan. Nothing of the plan's files is
    /// read.
    ///
    /// # Errors
    /// [`Error`].
    #[doc(hidden)]
    pub async fn generate_part(&self, shard: &Shard, first: u64, template: &str) -> Result<(), Error> {
        let number = ShardNumber::new(shard.number, shard.of)?;
        let plan = PlanFile::open(shard.plan.as_deref().unwrap_or_default(), &self.options.store).await?;
        let range = number.range(plan.listing.files);
        let items = plan.range(range.clone()).await?;
        let template = self.template(template).await?;
        let mut member = template.clone().member(Item::default())?;
        let rows: Result<Vec<_>, Error> = range
            .zip(items)
            .map(|(position, item)| self.row((position, first + position), item, &template, &mut member))
            .collect();
        let expected = Expected { options: self.row_options(), listing: plan.listing };
        let (bytes, ..) = encode(&shard.part, expected, number, Spent::default(), &rows?)?;
        write(&shard.part, bytes, &self.options.store).await.map_err(virtualize::Error::from)?;
        Ok(())
    }

    /// Reads the template.
    async fn template(&self, url: &str) -> Result<MemberRow, Error> {
        let url = virtualize_store::url_of(url).map_err(virtualize::Error::from)?;
        let work = Work { id: 0, item: Item { url, ..Item::default() } };
        let reader = self.member_reader();
        let events = Events::new(|_| {});
        match attempt::read(
            &work.item,
            &reader as &dyn ReadFile<Content>,
            None,
            &self.read_options(),
            &events,
        )
        .await
        {
            Some(Outcome::Done(done)) => match done.record {
                Content::Member(row) => Ok(*row),
                Content::Written { .. } => Err(Error::Internal("no member".to_owned())),
            },
            Some(Outcome::Failed(failed)) => Err(Error::Internal(failed.error)),
            None => Err(Error::Internal("the template was not read".to_owned())),
        }
    }

    /// Returns the record of a file. `member` is the template or another file.
    fn row(
        &self,
        (position, number): (u64, u64),
        item: Item,
        template: &MemberRow,
        member: &mut Member,
    ) -> Result<PartRow, Error> {
        let text = format!("{number:010}");
        let mut row = template.clone();
        for node in row.nodes.iter_mut().filter(|node| node.document.contains(NUMBER)) {
            node.document = node.document.replace(NUMBER, &text).into();
        }
        let times = row.values.get_mut("time").zip(member.values.get_mut("time"));
        if let Some((bytes, values)) = times {
            *bytes = shifted(bytes, number);
            values.bytes = bytes.clone();
        }
        let Item { url, etag, size, modified, .. } = item.clone();
        row.sources = vec![Source { url, etag, size: size.unwrap_or_default(), modified }];
        let extent = FileExtent::of(member, &self.combine.layout)?;
        row.extent = serde_json::to_string(&extent).map_err(|error| Error::Internal(error.to_string()))?;
        let done = Done {
            opened: item.clone(),
            replaced: false,
            attempts: 1,
            seconds: 0.1,
            requests: 1,
            retries: 0,
            bytes: item.size.unwrap_or_default(),
            warnings: Vec::new(),
            record: Content::Member(Box::new(row)),
        };
        Ok(PartRow { position, item, outcome: Outcome::Done(Box::new(done)) })
    }
}

/// Returns times that are shifted by the extent of the files before.
fn shifted(times: &Bytes, number: u64) -> Bytes {
    let elements = times.chunks_exact(size_of::<i64>());
    let offset = i64::try_from(number.saturating_mul(elements.len() as u64)).unwrap_or(i64::MAX);
    let element = |bytes: &[u8]| bytes.try_into().map(i64::from_le_bytes).unwrap_or_default();
    elements.flat_map(|bytes| element(bytes).saturating_add(offset).to_le_bytes()).collect()
}
