//! `GET /v1/references`: references to the chunks of a file.

use std::{
    io::{self, BufWriter, Write},
    sync::Arc,
};

use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderMap, Uri},
    response::Response,
};
use bytes::Bytes;
use futures::{StreamExt, stream};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use utoipa::IntoParams;

use crate::{
    app::Service,
    auth::Client,
    budget::on_thread,
    openapi::Mapping,
    problem::Problem,
    query::Parameters,
    respond::{self, is_current, tag_of},
};

/// Size of a block in bytes. Smaller references are sent from memory.
const BLOCK: usize = 64 << 10;
/// Blocks of a response that wait to be sent.
const WAITING: usize = 14;

/// Query parameters besides those of mapping.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the query")]
pub(crate) struct Source {
    /// Source: an absolute URL with an allowed prefix, without query and fragment.
    #[param(max_length = 4096, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    url: String,
}

/// References of a file
#[utoipa::path(get, path = "/v1/references", tag = "One file", params(Source, Mapping), responses(
    (status = 200, description = "References as JSON", body = serde_json::Value),
    (status = 304, description = "Not modified"),
    Problem,
))]
pub(crate) async fn references(
    State(service): State<Arc<Service>>,
    Extension(client): Extension<Arc<Client>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let wanted = Parameters::of_source(&uri, &[])?.wanted(&service.config, &client)?;
    let (mapped, format) = (service.sources.current(&wanted).await?, wanted.format);
    let store = Arc::clone(&mapped.store);
    // Everything that can fail fails here, before the response begins.
    let measured = on_thread(
        move |_| async move {
            let mut measured = Measured::default();
            virtualize::write_to(&store, format, &mut measured).map(|()| measured)
        },
        (),
    );
    let Measured { length, digest, start } = measured.await??;
    let etag = format!("W/{}", tag_of(&digest.finalize()));
    if length <= BLOCK as u64 || is_current(&headers, &etag) {
        return Ok(respond::content(&headers, "application/json", &etag, length, start.into()));
    }
    let permit = Arc::clone(&service.streams).try_acquire_owned().map_err(|_| Problem::overloaded())?;
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::task::spawn_blocking(move || {
        let mut out = BufWriter::with_capacity(BLOCK, Blocks(sender.clone()));
        let written = virtualize::write_to(&mapped.store, format, &mut out).map_err(io::Error::other);
        if let Err(error) = written.and_then(|()| out.flush()) {
            // The response is cut off, unless the client has left.
            let _ = sender.blocking_send(Err(error));
        }
    });
    let blocks = stream::unfold((receiver, permit), |(mut receiver, permit)| async {
        Some((receiver.recv().await?, (receiver, permit)))
    });
    // Compression polls it again after its end.
    let blocks = blocks.fuse();
    Ok(respond::content(&headers, "application/json", &etag, length, Body::from_stream(blocks)))
}

/// Length, digest and first bytes of an output.
#[derive(Default)]
struct Measured {
    length: u64,
    digest: Sha256,
    start: Vec<u8>,
}

impl Write for Measured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.digest.update(bytes);
        self.length = self.length.saturating_add(bytes.len() as u64);
        let left = BLOCK.saturating_sub(self.start.len()).min(bytes.len());
        self.start.extend_from_slice(bytes.get(..left).unwrap_or_default());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer that sends blocks to a response, and waits while the client does not receive them.
struct Blocks(mpsc::Sender<io::Result<Bytes>>);

impl Write for Blocks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let block = bytes.get(..BLOCK).unwrap_or(bytes);
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(block)));
        sent.map(|()| block.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
