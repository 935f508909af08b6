//! `GET /v1/references`: a file as references.

use std::{
    io::{self, Seek, SeekFrom, Write},
    sync::Arc,
};

use axum::{
    Extension,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use tempfile::SpooledTempFile;
use virtualize::Format;

use crate::{
    Problem,
    bundle::Bundle,
    conditional::{none_match, tag},
    context::Context,
    disk,
    encode::{self, Content, answer, not_modified},
    guard::Client,
    query::{OF_MAPPING, Parameters},
    sources::{Mapped, on_thread},
};

/// Bytes of references that are held in memory before a temporary file takes them.
const HELD: usize = 4 << 20;

/// The parameters that are known.
pub(crate) fn parameters() -> Vec<&'static str> {
    OF_MAPPING.into_iter().chain(["url"]).collect()
}

/// The answer.
pub(crate) async fn get(
    State(context): State<Arc<Context>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Problem> {
    let wanted = Parameters::read(request.uri(), &parameters())?.wanted(&context, &client)?;
    let (format, headers) = (wanted.format, request.headers());
    let (object, key) = context.opened_now(&wanted).await?;
    let etag = key.as_ref().map(|key| tag(&["references", env!("CARGO_PKG_VERSION"), key]));
    let name = etag.as_deref().map(|etag| etag.trim_matches('"').to_owned());
    if let (Some(name), Some(etag)) = (&name, &etag)
        && let Some(content) = from_disk(&context, name.clone()).await
    {
        return Ok(sent(headers, content, format, etag));
    }
    let mapped = context.mapped_now(object, &wanted.options, key.as_deref()).await?;
    match etag.filter(|_| mapped.store.is_of_one_file()) {
        // The tag says all: whoever has it has the answer.
        Some(etag) if none_match(headers, &etag) => Ok(not_modified(&etag)),
        Some(etag) => {
            let made = make(&context, mapped, format, name).await?;
            Ok(sent(headers, made.content, format, &etag))
        }
        // Other files had a part in it, so that the content itself is the tag.
        None => {
            let made = make(&context, mapped, format, None).await?;
            Ok(sent(headers, made.content, format, &format!("\"{}\"", made.digest)))
        }
    }
}

/// References as what they are: JSON, or an archive to keep.
fn sent(headers: &HeaderMap, content: Content, format: Format, etag: &str) -> Response {
    if !format.is_several_files() {
        return answer(headers, content, "application/json", etag);
    }
    let mut response = answer(headers, content, "application/zip", etag);
    let name = match format {
        Format::KerchunkParquet { .. } => "attachment; filename=\"references.parquet.zip\"",
        _ => "attachment; filename=\"references.zarr.zip\"",
    };
    response.headers_mut().insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(name));
    response
}

/// References that were made before.
async fn from_disk(context: &Arc<Context>, name: String) -> Option<Content> {
    context.disk.as_ref()?;
    let shared = Arc::clone(context);
    let found = tokio::task::spawn_blocking(move || shared.disk.as_ref()?.get(&name)).await.ok().flatten();
    context.metrics.looked_up("references", found.is_some());
    found.map(|found| Content::File(found.file, found.bytes))
}

/// References, all of them.
struct Made {
    content: Content,
    /// Of the content, where nothing else names it.
    digest: String,
}

/// Writes references aside: an answer begins when they are whole. They go to the disk as well where they have a name.
async fn make(
    context: &Arc<Context>,
    mapped: Arc<Mapped>,
    format: Format,
    name: Option<String>,
) -> Result<Made, Problem> {
    let context = Arc::clone(context);
    on_thread(move || async move { write(&context, &mapped, format, name) }, ()).await?
}

fn write(context: &Context, mapped: &Mapped, format: Format, name: Option<String>) -> Result<Made, Problem> {
    let most = context.config.output_size;
    let mut out = Bounded { inner: SpooledTempFile::new(HELD), at: 0, bytes: 0, most, is_full: false };
    let written = all(mapped, format, &mut out);
    if out.is_full {
        let detail = format!("the references are longer than {most} bytes");
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "output-limit", detail)
            .hint("read the source through /v1/zarr, or write them with the command"));
    }
    written?;
    let Bounded { inner: mut spool, bytes, .. } = out;
    let digest = match (&context.disk, &name) {
        (_, None) => spool.rewind().and_then(|()| disk::digest(&mut spool, 16)).map_err(lost)?,
        (Some(disk), Some(name)) => {
            if let Err(error) = disk.put(name, &mut spool) {
                tracing::warn!("references were not kept: {error}");
            }
            String::new()
        }
        (None, Some(_)) => String::new(),
    };
    let content = encode::spooled(spool, bytes).map_err(lost)?;
    Ok(Made { content, digest })
}

fn all(mapped: &Mapped, format: Format, out: &mut Bounded) -> Result<(), Problem> {
    if !format.is_several_files() {
        return Ok(virtualize::write_to(&mapped.store, format, out)?);
    }
    let most = out.most;
    let mut bundle = Bundle::new(out, most);
    virtualize::write_files(&mapped.store, format, &mut bundle)?;
    bundle.finish().map(drop).map_err(lost)
}

fn lost(error: io::Error) -> Problem {
    tracing::error!("references cannot be kept aside: {error}");
    Problem::internal()
}

/// Counts what is written, and stops where it is too much.
struct Bounded {
    inner: SpooledTempFile,
    at: u64,
    bytes: u64,
    most: u64,
    is_full: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.at.saturating_add(bytes.len() as u64);
        if end > self.most {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.inner.write_all(bytes)?;
        self.at = end;
        self.bytes = self.bytes.max(end);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl Seek for Bounded {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = self.inner.seek(to)?;
        Ok(self.at)
    }
}
