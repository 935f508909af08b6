//! Reads chunk tables. All chunk indexes of a call are walked together, one batch of ranges per level.

use futures::join;

use crate::{
    Error,
    chunk_btree1_walk::read_btree1,
    chunk_btree2::read_btree2,
    chunk_columns::{ChunkBudget, ChunkColumns},
    chunk_element::ChunkElement,
    chunk_grid::ChunkGrid,
    chunk_request::{ChunkIndex, ChunkRequest, Job},
    context::Format,
    extensible_array_walk::read_extensible_arrays,
    fixed_array_walk::read_fixed_arrays,
    io::Io,
    model::ChunkTable,
};

/// Reads the chunk table of each dataset, in the order of the requests.
pub(crate) async fn read_chunk_tables(
    io: &Io<'_>,
    format: Format,
    requests: Vec<ChunkRequest>,
) -> Vec<Result<ChunkTable, Error>> {
    let budget = ChunkBudget::new(io);
    let mut tables: Vec<_> = requests.iter().map(|_| None).collect();
    let (mut btree1, mut fixed, mut extensible, mut btree2) = (vec![], vec![], vec![], vec![]);
    for (place, request) in requests.iter().enumerate() {
        let jobs = match request.index {
            ChunkIndex::FixedArray { .. } => &mut fixed,
            ChunkIndex::ExtensibleArray { .. } => &mut extensible,
            ChunkIndex::BTree2 { .. } => &mut btree2,
            _ => &mut btree1,
        };
        match begin(io, request, place, &budget) {
            Ok(Begun::Index(job)) => jobs.push(*job),
            Ok(Begun::Done(table)) => set(&mut tables, place, Ok(table)),
            Err(error) => set(&mut tables, place, Err(error)),
        }
    }
    let (a, b, c, d) = join!(
        read_btree1(io, format, btree1),
        read_fixed_arrays(io, format, fixed),
        read_extensible_arrays(io, format, extensible),
        read_btree2(io, format, btree2),
    );
    for (job, result) in a.into_iter().chain(b).chain(c).chain(d) {
        set(&mut tables, job.place, result.and_then(|()| job.columns.finish()));
    }
    let missing = || Err(Error::malformed("chunk index", 0, "not read"));
    tables.into_iter().map(|table| table.unwrap_or_else(missing)).collect()
}

fn set(tables: &mut [Option<Result<ChunkTable, Error>>], place: usize, table: Result<ChunkTable, Error>) {
    if let Some(slot) = tables.get_mut(place) {
        *slot = Some(table);
    }
}

/// A request whose index has to be read, or a complete table.
enum Begun<'a> {
    Index(Box<Job<'a>>),
    Done(ChunkTable),
}

fn begin<'a>(
    io: &Io<'_>,
    request: &'a ChunkRequest,
    place: usize,
    budget: &'a ChunkBudget<'a>,
) -> Result<Begun<'a>, Error> {
    let grid = ChunkGrid::new(&request.shape, &request.chunk_shape, request.element_size)?;
    if request.max_shape.len() != request.shape.len() {
        let problem =
            format!("maximum shape {:?}, expected the rank of {:?}", request.max_shape, request.shape);
        return Err(Error::malformed("dataspace", 0, problem));
    }
    request.check_unlimited()?;
    let address = request.index.address();
    let columns = ChunkColumns::new(grid, request.filtered, address.unwrap_or(0));
    let Some(address) = address.filter(|_| columns.grid().total > 0) else {
        return columns.finish().map(Begun::Done);
    };
    let mut job = Job { request, address, columns, budget, place };
    match request.index {
        ChunkIndex::Single { size, filter_mask, .. } => list_single(&mut job, size, filter_mask)?,
        ChunkIndex::Implicit { .. } => list_implicit(io, &mut job)?,
        _ => return Ok(Begun::Index(Box::new(job))),
    }
    job.columns.finish().map(Begun::Done)
}

fn list_single(job: &mut Job<'_>, size: u64, filter_mask: u32) -> Result<(), Error> {
    if job.columns.grid().total != 1 {
        let problem = format!("single chunk index of {} chunks", job.columns.grid().total);
        return Err(Error::malformed("chunked layout", job.address, problem));
    }
    job.budget.take(1, job.address)?;
    let size = job.request.filtered.then_some(size);
    job.columns.push(0, ChunkElement { address: job.address, size, filter_mask })
}

fn list_implicit(io: &Io<'_>, job: &mut Job<'_>) -> Result<(), Error> {
    let numbering = job.numbering(false)?;
    let bytes = job.columns.grid().chunk_bytes;
    let end = numbering.end.saturating_mul(bytes).saturating_add(job.address);
    if job.request.filtered || end > io.size() {
        let problem = format!(
            "chunks up to {end:#x}, filtered: {}; expected unfiltered chunks within the file",
            job.request.filtered
        );
        return Err(Error::malformed("implicit chunk index", job.address, problem));
    }
    job.budget.take(numbering.end, job.address)?;
    job.columns.reserve(numbering.end);
    for number in 0..numbering.end {
        let address = job.address.saturating_add(number.saturating_mul(bytes));
        if let Some(position) = numbering.position(number) {
            job.columns.push(position, ChunkElement { address, size: None, filter_mask: 0 })?;
        }
    }
    Ok(())
}
