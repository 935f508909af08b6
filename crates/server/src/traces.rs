//! Traces: spans of requests and of the work for them, sent by OTLP if the environment configures that.
//!
//! Spans have their own target and the lowest level, so that they cost nothing unless they are sent. The trace of a
//! client is not passed on to sources, which belong to third parties.

use std::sync::Arc;

use axum::{
    extract::{MatchedPath, Request},
    http::HeaderMap,
    middleware::Next,
    response::Response,
};
use tracing::{Instrument, Span};

/// Target of all spans.
pub(crate) const TARGET: &str = "virtualize::trace";

/// Creates the span of a step in the work for a request.
macro_rules! step {
    ($name:literal $(, $field:ident = $value:expr)* $(,)?) => {
        tracing::trace_span!(target: "virtualize::trace", $name $(, $field = $value)*)
    };
}
pub(crate) use step;

tokio::task_local! {
    /// Identifier of the trace of the request that is being answered.
    static CURRENT: Arc<str>;
}

/// Returns the identifier of the trace of the request that is being answered, in 32 hexadecimal digits.
pub(crate) fn current() -> Option<Arc<str>> {
    CURRENT.try_with(Arc::clone).ok()
}

/// The trace of a request: an extension of the request.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    span: Span,
    pub(crate) id: Arc<str>,
}

/// Starts the span of a request that is recorded, or belongs to a trace of the client.
pub(crate) async fn traced(mut request: Request, next: Next) -> Response {
    let Some(trace) = Trace::of_request(&request) else { return next.run(request).await };
    request.extensions_mut().insert(trace.clone());
    let answer = next.run(request).instrument(trace.span.clone());
    let response = CURRENT.scope(Arc::clone(&trace.id), answer).await;
    trace.responded(response.status().as_u16());
    response
}

impl Trace {
    /// Starts the span of a request, within the trace that the client names in `traceparent`.
    fn of_request(request: &Request) -> Option<Self> {
        let headers = request.headers();
        let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str);
        let method = request.method().as_str();
        let span = tracing::trace_span!(
            target: TARGET,
            "request",
            otel.name = format_args!("{method} {route}"),
            otel.kind = "server",
            otel.status_code = tracing::field::Empty,
            http.request.method = method,
            http.route = route,
            http.response.status_code = tracing::field::Empty,
        );
        let id = sent::join(&span, headers).or_else(|| given(headers))?;
        Some(Self { span, id: id.into() })
    }

    /// Records the status of the response.
    fn responded(&self, status: u16) {
        self.span.record("http.response.status_code", status);
        if status >= 500 {
            self.span.record("otel.status_code", "ERROR");
        }
    }
}

/// Returns the trace identifier of a valid `traceparent` (W3C Trace Context, section 3.2).
fn given(headers: &HeaderMap) -> Option<String> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    let mut parts = text.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_valid = is_hex(version, 2)
        && version != "ff"
        && (version != "00" || parts.next().is_none())
        && is_hex(trace, 32)
        && is_hex(parent, 16)
        && is_hex(flags, 2)
        && [trace, parent].iter().all(|id| id.bytes().any(|byte| byte != b'0'));
    is_valid.then(|| trace.to_owned())
}

/// Sends spans while it exists. Dropping it sends the rest.
#[must_use]
#[derive(Debug)]
pub struct Sending {
    #[cfg(feature = "otel")]
    provider: Option<opentelemetry_sdk::trace::SdkTracerProvider>,
}

#[cfg(feature = "otel")]
impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(provider) = self.provider.take() {
            // The exporter blocks, which a thread of the runtime must not.
            let _ = std::thread::spawn(move || provider.shutdown()).join();
        }
    }
}

#[cfg(feature = "otel")]
pub(crate) mod sent {
    use std::env;

    use axum::http::HeaderMap;
    use opentelemetry::{
        propagation::{Extractor, TextMapPropagator},
        trace::{TraceContextExt, TracerProvider},
    };
    use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
    use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
    use tracing::Span;
    use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt};
    use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

    use super::{Sending, TARGET};

    /// Returns whether the environment asks for traces: it names an endpoint or the exporter, and disables neither.
    fn is_configured() -> bool {
        let value = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let is_disabled = value("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let exporter = value("OTEL_TRACES_EXPORTER");
        let has_endpoint = value("OTEL_EXPORTER_OTLP_ENDPOINT").is_some()
            || value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").is_some();
        !is_disabled
            && match exporter.as_deref() {
                Some(exporter) => exporter.split(',').any(|name| name.trim() == "otlp"),
                None => has_endpoint,
            }
    }

    /// Returns the layer that sends spans, if the environment configures that.
    pub(crate) fn layer<S>() -> (Option<impl Layer<S> + Send + Sync>, Sending)
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let nothing = Sending { provider: None };
        if !is_configured() {
            return (None, nothing);
        }
        // Only HTTP with Protocol Buffers is compiled in.
        let exporter = match SpanExporter::builder().with_http().with_protocol(Protocol::HttpBinary).build() {
            Ok(exporter) => exporter,
            Err(error) => {
                tracing::error!("traces cannot be sent: {error}");
                return (None, nothing);
            }
        };
        let mut resource = Resource::builder();
        if env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("virtualize");
        }
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        let layer = OpenTelemetryLayer::new(provider.tracer("virtualize"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_filter(filter_fn(|metadata| metadata.is_span() && metadata.target() == TARGET));
        (Some(layer), Sending { provider: Some(provider) })
    }

    /// Headers as a carrier of the trace context.
    struct Headers<'a>(&'a HeaderMap);

    impl Extractor for Headers<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            self.0.get(key)?.to_str().ok()
        }

        fn keys(&self) -> Vec<&str> {
            self.0.keys().map(axum::http::HeaderName::as_str).collect()
        }
    }

    /// Makes a span part of the client's trace, and returns the identifier of its trace if it is recorded.
    pub(crate) fn join(span: &Span, headers: &HeaderMap) -> Option<String> {
        if span.is_disabled() {
            return None;
        }
        if headers.contains_key("traceparent") {
            let _ = span.set_parent(TraceContextPropagator::new().extract(&Headers(headers)));
        }
        let context = span.context();
        let context = context.span().span_context().clone();
        context.is_valid().then(|| context.trace_id().to_string())
    }
}

#[cfg(not(feature = "otel"))]
pub(crate) mod sent {
    use axum::http::HeaderMap;
    use tracing::Span;
    use tracing_subscriber::{Layer, layer::Identity, registry::LookupSpan};

    use super::Sending;

    /// Returns no layer.
    pub(crate) fn layer<S>() -> (Option<impl Layer<S> + Send + Sync>, Sending)
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        (None::<Identity>, Sending {})
    }

    /// Returns `None`: spans are not recorded.
    pub(crate) fn join(_span: &Span, _headers: &HeaderMap) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_traces_have_an_identifier() {
        let given = |text: &str| {
            given(&HeaderMap::from_iter([("traceparent".parse().unwrap(), text.parse().unwrap())]))
        };
        let id = "0af7651916cd43dd8448eb211c80319c";
        assert_eq!(given(&format!("00-{id}-b7ad6b7169203331-01")).as_deref(), Some(id));
        assert_eq!(given(&format!("01-{id}-b7ad6b7169203331-01-more")).as_deref(), Some(id));
        for wrong in [
            format!("00-{id}-b7ad6b7169203331"),
            format!("00-{id}-b7ad6b7169203331-01-more"),
            format!("ff-{id}-b7ad6b7169203331-01"),
            format!("00-{}-b7ad6b7169203331-01", id.to_uppercase()),
            format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            format!("00-{id}-{}-01", "0".repeat(16)),
            "secret".to_owned(),
        ] {
            assert_eq!(given(&wrong), None, "{wrong}");
        }
    }
}
