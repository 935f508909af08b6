//! The handlers of `/v1/jobs`.

use std::sync::Arc;

use axum::{
    Extension,
    body::{Body, Bytes, to_bytes},
    extract::{Path, Request as HttpRequest, State as Shared, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{
    Jobs, Record, events,
    keys::Key,
    labels::Filter,
    record::{self, State},
    request::Request,
    result,
};
use crate::{Problem, client::Client, context::Context, query::Parameters};
use virtualize::Code;

/// Default and maximum number of jobs in a page of the list.
const PAGE: (usize, u64) = (100, 1000);

/// Returns the parameters of the list.
pub(crate) fn parameters() -> Vec<&'static str> {
    Filter::PARAMETERS.into_iter().chain(["limit"]).collect()
}

/// Returns the jobs of the service; 404 if it runs none.
fn jobs(context: &Context) -> Result<&Jobs, Problem> {
    context
        .jobs
        .as_ref()
        .ok_or_else(|| Problem::not_found("this service runs no jobs").hint("start it with --jobs"))
}

/// Returns the record of a job that is visible to the client.
async fn job(context: &Arc<Context>, client: &Client, id: String) -> Result<Record, Problem> {
    let client = client.clone();
    on_disk(context, move |context| jobs(context)?.get(&id, &client)).await
}

/// Returns the parameters of a path; 404 if they are not valid text.
fn named<T>(path: Result<Path<T>, PathRejection>) -> Result<T, Problem> {
    path.map(|Path(named)| named).map_err(|_| Problem::not_found("there is no such job"))
}

/// Builds a JSON response that caches must not store.
fn document(status: StatusCode, document: &Value) -> Response {
    let mut response = (status, document.to_string()).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Runs work that blocks on the disk on a thread for blocking work.
async fn on_disk<T: Send + 'static>(
    context: &Arc<Context>,
    work: impl FnOnce(&Context) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let context = Arc::clone(context);
    let done = tokio::task::spawn_blocking(move || work(&context)).await;
    done.map_err(|error| {
        tracing::error!("work on a job failed: {error}");
        Problem::internal()
    })?
}

/// `POST /v1/jobs`: submits a job.
pub(crate) async fn submit(
    Shared(context): Shared<Arc<Context>>,
    Extension(client): Extension<Client>,
    request: HttpRequest,
) -> Result<Response, Problem> {
    jobs(&context)?;
    if context.is_stopping() {
        let detail = "the service is stopping";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, Code::Busy, detail).retry_after(10));
    }
    let (head, body) = request.into_parts();
    is_json(&head.headers)?;
    let most = context.config.request_size;
    client.holds.keep(client.quota.memory.take(most as u64).await?);
    let (headers, body) = (head.headers, self::body(body, most).await?);
    let job = on_disk(&context, move |context| {
        let body = serde_json::from_slice(&body).map_err(|error| Problem::parameter("body", error))?;
        let key = Key::of(&headers, &body)?;
        let mut request = Request::read(&body)?;
        request.check(&context.config, &client.allowed)?;
        jobs(context)?.submit(request, &client, key)
    });
    let id = job.await?;
    // A repeated request with an idempotency key gets the same answer.
    let answer = json!({"id": id, "state": State::Queued, "links": record::links(&id)});
    let mut response = document(StatusCode::ACCEPTED, &answer);
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/jobs/{id}")) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// Checks that the body is declared as JSON. Web pages of other origins can send other types without a CORS preflight,
/// and could otherwise start jobs of a service on the user's own machine.
pub(crate) fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match kind.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Code::ContentType,
            "expected content-type: application/json",
        )),
    }
}

/// Reads a body of at most `most` bytes.
pub(crate) async fn body(body: Body, most: usize) -> Result<Bytes, Problem> {
    to_bytes(body, most).await.map_err(|_| {
        let detail = format!("the body exceeds {most} bytes, or is truncated");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, Code::Size, detail)
            .hint("put the files into a list, and give its URL in `lists`")
    })
}

/// `GET /v1/jobs`: lists jobs, newest first.
pub(crate) async fn list(
    Shared(context): Shared<Arc<Context>>,
    Extension(client): Extension<Client>,
    request: HttpRequest,
) -> Result<Response, Problem> {
    jobs(&context)?;
    let parameters = Parameters::read(request.uri(), &parameters())?;
    let most = parameters.number("limit", 1, PAGE.1)?;
    let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(PAGE.0);
    let filter = Filter::read(&parameters)?;
    let listed = on_disk(&context, move |context| {
        let jobs = jobs(context)?;
        let (records, more) = jobs.list(&client, &filter, most)?;
        let last = records.last().filter(|_| more).map(|last| last.id.clone());
        Ok((records.iter().map(|record| jobs.shown(record)).collect(), last))
    });
    let (shown, last): (Vec<Value>, _) = listed.await?;
    let mut response = document(StatusCode::OK, &Value::Array(shown));
    if let Some(last) = last {
        let next = format!("</v1/jobs?{}>; rel=\"next\"", parameters.query_with("before", &last));
        if let Ok(next) = HeaderValue::from_str(&next) {
            response.headers_mut().insert(header::LINK, next);
        }
    }
    Ok(response)
}

/// `GET /v1/jobs/{id}`: returns a job with its request.
pub(crate) async fn get(
    Shared(context): Shared<Arc<Context>>,
    Extension(client): Extension<Client>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let id = named(id)?;
    let shown = on_disk(&context, move |context| {
        let jobs = jobs(context)?;
        let record = jobs.get(&id, &client)?;
        let mut shown = jobs.shown(&record);
        if let Some(members) = shown.as_object_mut() {
            members.insert("request".to_owned(), json!(record.request.as_ref()));
        }
        Ok(shown)
    });
    Ok(document(StatusCode::OK, &shown.await?))
}

/// `DELETE /v1/jobs/{id}`: cancels an unfinished job, removes an ended one.
pub(crate) async fn delete(
    Shared(context): Shared<Arc<Context>>,
    Extension(client): Extension<Client>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let id = named(id)?;
    match on_disk(&context, move |context| jobs(context)?.delete(&id, &client)).await? {
        None => Ok(StatusCode::NO_CONTENT.into_response()),
        Some(record) => Ok(document(StatusCode::ACCEPTED, &record.shown())),
    }
}

/// `GET /v1/jobs/{id}/events`: streams the events of a job.
pub(crate) async fn follow(
    Shared(context): Shared<Arc<Context>>,
    Extension(client): Extension<Client>,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let record = job(&context, &client, named(id)?).await?;
    let jobs = jobs(&context)?;
    let own = client.quota.follower().ok_or_else(|| {
        let detail = "the client follows too many jobs at once";
        Problem::new(StatusCode::TOO_MANY_REQUESTS, Code::Requests, detail).retry_after(5)
    })?;
    let place = Arc::clone(&jobs.followers).try_acquire_owned().map_err(|_| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, Code::Busy, "too many clients follow jobs at once")
            .retry_after(5)
    })?;
    let place = (own, place);
    // Ends the stream in good order, shortly before the response would be cut off.
    let most = context.config.times.answer.mul_f64(0.9);
    Ok(events::answer(jobs, record.id, &headers, place, most))
}

/// `GET /v1/jobs/{id}/result`: returns the result file, or the index of a result folder.
pub(crate) async fn result(
    Shared(context): Shared<Arc<Context>>,
    Extension(client): Extension<Client>,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let record = done(&context, &client, named(id)?).await?;
    on_disk(&context, move |context| {
        let place = jobs(context)?.place(&record.id);
        if !record.request.is_folder() {
            return result::respond(&headers, result::open(&record.id, &place, "result.json")?);
        }
        let index = result::index(&place.join("result")).map_err(|error| {
            tracing::error!("a result cannot be listed: {error}");
            Problem::internal()
        })?;
        Ok(document(StatusCode::OK, &index))
    })
    .await
}

/// `GET /v1/jobs/{id}/result/{key}`: returns a file of a result folder.
pub(crate) async fn file(
    Shared(context): Shared<Arc<Context>>,
    Extension(client): Extension<Client>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (id, key) = named(path)?;
    let record = done(&context, &client, id).await?;
    if !record.request.is_folder() {
        return Err(Problem::not_found("the result is one file").hint("fetch it from …/result"));
    }
    on_disk(&context, move |context| {
        let place = jobs(context)?.place(&record.id).join("result");
        result::respond(&headers, result::open(&record.id, &place, &key)?)
    })
    .await
}

/// Returns the record of a job that is done and whose result the service keeps.
async fn done(context: &Arc<Context>, client: &Client, id: String) -> Result<Record, Problem> {
    let record = job(context, client, id).await?;
    match (record.state, &record.request.output) {
        (State::Done, None) => Ok(record),
        (State::Done, Some(output)) => Err(Problem::not_found(format!("the result was written to {output}"))),
        (state, _) => {
            let detail = format!("the job is {}, so there is no result", state.name());
            Err(Problem::new(StatusCode::CONFLICT, Code::JobNotDone, detail))
        }
    }
}
