//! `GET /v1/references`: a file as references.

use std::{
    io::{self, Write},
    sync::Arc,
};

use axum::{
    Extension,
    extract::{Request, State},
    http::StatusCode,
    response::Response,
};
use sha2::{Digest, Sha256};
use tempfile::SpooledTempFile;
use virtualize::Format;

use crate::{
    Problem,
    conditional::{hexadecimal, none_match, tag},
    context::Context,
    encode::{self, Content, answer, not_modified},
    guard::Client,
    query::{OF_MAPPING, Parameters},
    sources::{Mapped, on_thread},
};

/// Bytes of references that are held in memory before a temporary file takes them.
const HELD: usize = 4 << 20;
const JSON: &str = "application/json";

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
    let headers = request.headers();
    let (object, key) = context.opened_now(&wanted).await?;
    let etag = key.as_ref().map(|key| tag(&["references", env!("CARGO_PKG_VERSION"), key]));
    let name = etag.as_deref().map(|etag| etag.trim_matches('"').to_owned());
    if let (Some(name), Some(etag)) = (&name, &etag)
        && let Some(content) = from_disk(&context, name.clone()).await
    {
        return Ok(answer(headers, content, JSON, etag));
    }
    let mapped = context.mapped_now(object, &wanted.options, key.as_deref()).await?;
    match etag.filter(|_| mapped.store.is_of_one_file()) {
        // The tag says all: whoever has it has the answer.
        Some(etag) if none_match(headers, &etag) => Ok(not_modified(&etag)),
        Some(etag) => {
            let made = make(&context, mapped, wanted.format, name).await?;
            Ok(answer(headers, made.content, JSON, &etag))
        }
        // Other files had a part in it, so that the content itself is the tag.
        None => {
            let made = make(&context, mapped, wanted.format, None).await?;
            Ok(answer(headers, made.content, JSON, &format!("\"{}\"", made.digest)))
        }
    }
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
    let mut out = Bounded { inner: SpooledTempFile::new(HELD), digest: Sha256::new(), bytes: 0, most };
    let written = virtualize::write_to(&mapped.store, format, &mut out);
    if out.bytes > most {
        let detail = format!("the references are longer than {most} bytes");
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "output-limit", detail)
            .hint("read the source through /v1/zarr, or write them with the command"));
    }
    written?;
    let Bounded { inner: mut spool, digest, bytes, .. } = out;
    if let (Some(disk), Some(name)) = (&context.disk, name)
        && let Err(error) = disk.put(&name, &mut spool)
    {
        tracing::warn!("references were not kept: {error}");
    }
    let content = encode::spooled(spool, bytes).map_err(|error| {
        tracing::error!("references cannot be read back: {error}");
        Problem::internal()
    })?;
    Ok(Made { content, digest: hexadecimal(&digest.finalize(), 16) })
}

/// Counts and digests what is written, and stops where it is too much.
struct Bounded {
    inner: SpooledTempFile,
    digest: Sha256,
    bytes: u64,
    most: u64,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.inner.write_all(bytes)?;
        self.digest.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
