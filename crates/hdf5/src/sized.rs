//! Reads structures whose first bytes determine their size.

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use crate::{Error, batch::read_whole, io::Io};

/// Reads the structure at each address: `guess` bytes of each in one batch, then, in a second one, those that are
/// longer according to `length`.
pub(crate) async fn read_sized(
    io: &Io<'_>,
    structure: &'static str,
    addresses: &[u64],
    guess: u64,
    length: impl Fn(&[u8], u64) -> Result<u64, Error>,
) -> Result<Vec<Result<Bytes, Error>>, Error> {
    let guesses: Vec<_> = addresses.iter().map(|&address| ByteRange::new(address, guess)).collect();
    let first = io.read(&guesses).await?;
    let mut whole = Vec::with_capacity(first.len());
    let mut longer = Vec::new();
    for (index, (bytes, &address)) in first.into_iter().zip(addresses).enumerate() {
        let length = length(&bytes, address);
        if let Ok(length) = length
            && length > bytes.len() as u64
        {
            longer.push((index, ByteRange::new(address, length)));
        }
        whole.push(length.map(|_| bytes));
    }
    let ranges: Vec<_> = longer.iter().map(|(_, range)| *range).collect();
    for ((index, _), bytes) in longer.iter().zip(read_whole(io, structure, &ranges).await) {
        if let Some(place) = whole.get_mut(*index) {
            *place = bytes;
        }
    }
    Ok(whole)
}
