//! Requests to web servers as somebody: tokens, signatures, redirects, and the login of NASA Earthdata.
//!
//! A secret reaches only the origin that it is for. Every request of a chain of redirects gets its headers here, by its own
//! URL, and none of them from the request before it.

use std::{
    collections::HashMap,
    env,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use object_store::{
    HeaderMap, HeaderValue,
    azure::AzureCredential,
    client::{HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpService},
};
use reqwest::{Method, StatusCode, header};
use url::Url;

use crate::{
    Access, Identity, StoreError,
    access::covers,
    clients::Seen,
    credentials::{Endpoint, Renewed, SasEndpoint},
    error::without_query,
    netrc,
};

/// Maximum number of redirects of a request.
const MAX_REDIRECTS: usize = 10;
/// Maximum number of cookies of an origin.
const MAX_COOKIES: usize = 32;
/// Maximum length of a cookie in bytes.
const MAX_COOKIE: usize = 8 << 10;
/// Maximum time for a login.
const MAX_LOGIN: Duration = Duration::from_secs(60);
/// Time after a refused login in which it is not tried again, lest the account be locked.
const PAUSE: Duration = Duration::from_secs(60);
/// Login service of NASA.
const EARTHDATA: &str = "https://urs.earthdata.nasa.gov";
/// Domains whose hosts get the Earthdata token if they request a login.
const EARTHDATA_DOMAINS: [&str; 2] = ["nasa.gov", "asf.alaska.edu"];

/// State of the web servers that this process has contacted, by origin. All clients of a pool share it.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    origins: Mutex<HashMap<String, Session>>,
    /// Held during a login, so that many requests log in once.
    login: tokio::sync::Mutex<()>,
    /// Shared access signatures of Azure by the URL that issues them.
    signatures: Mutex<HashMap<String, Arc<Renewed<SasEndpoint>>>>,
}

/// The state of an origin.
#[derive(Clone, Default)]
struct Session {
    cookies: Vec<(String, String)>,
    /// Whether requests carry the Earthdata token.
    sends_token: bool,
    /// Whether the origin requested a login although the token was sent.
    refuses_token: bool,
    /// Where the last login came from, such as `.netrc`.
    source: &'static str,
    /// Number of logins so far.
    logins: u64,
    /// Why the last login was refused, and when.
    refusal: Option<(Instant, StoreError)>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("logins", &self.logins).finish_non_exhaustive()
    }
}

impl Sessions {
    /// Returns the session of a URL's origin, with the cookies of its domain.
    fn get(&self, url: &Url) -> Session {
        let origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        let mut session = origins.get(&origin(url)).cloned().unwrap_or_default();
        if let Some(domain) = domain(url)
            && let Some(shared) = origins.get(domain)
        {
            session.cookies.extend_from_slice(&shared.cookies);
        }
        session
    }

    fn change(&self, key: &str, change: impl FnOnce(&mut Session)) {
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        change(origins.entry(key.to_owned()).or_default());
    }

    /// Keeps the cookies of a response. They are sent to its origin only, or, if they are for a domain of NASA, to the hosts
    /// of that domain.
    fn keep_cookies(&self, url: &Url, response: &HttpResponse) {
        for value in response.headers().get_all(header::SET_COOKIE) {
            let Some(text) = value.to_str().ok().filter(|text| text.len() <= MAX_COOKIE) else { continue };
            let mut attributes = text.split(';').map(str::trim);
            let Some((name, value)) = attributes.next().and_then(|pair| pair.split_once('=')) else {
                continue;
            };
            let attributes: Vec<_> = attributes.map(str::to_ascii_lowercase).collect();
            let is_removed = value.is_empty() || attributes.iter().any(|one| one == "max-age=0");
            let is_shared = attributes.iter().any(|one| one.starts_with("domain="));
            let key = domain(url).filter(|_| is_shared).map_or_else(|| origin(url), str::to_owned);
            self.change(&key, |session| {
                session.cookies.retain(|(other, _)| other != name);
                if !is_removed && session.cookies.len() < MAX_COOKIES {
                    session.cookies.push((name.to_owned(), value.to_owned()));
                }
            });
        }
    }
}

/// Returns the domain of NASA to which the host of a URL belongs.
fn domain(url: &Url) -> Option<&'static str> {
    let host = url.host_str()?;
    let is_of = |domain: &&&str| {
        host.strip_suffix(**domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    EARTHDATA_DOMAINS.iter().find(is_of).copied()
}

/// Returns scheme, host and port.
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Returns whether secrets may be sent to a URL: over TLS, or to this machine.
pub(crate) fn is_private(url: &Url) -> bool {
    let is_loopback = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    url.scheme() == "https" || is_loopback
}

/// Client for the web servers of one access.
#[derive(Debug)]
pub(crate) struct WebClient {
    /// Client that follows no redirects.
    pub(crate) client: HttpClient,
    pub(crate) access: Access,
    /// Prefix of URLs that the access is for; `None` for all.
    pub(crate) prefix: Option<String>,
    /// Whether redirects are followed, and logins made.
    pub(crate) follows: bool,
    pub(crate) sessions: Arc<Sessions>,
    /// Signatures for the URLs of Azure.
    pub(crate) sas: Option<Signatures>,
}

/// Shared access signatures of the containers of Azure Blob Storage.
#[derive(Debug)]
pub(crate) struct Signatures {
    /// URL of the endpoint, with placeholders.
    pub(crate) template: String,
    /// Client for the endpoint.
    pub(crate) client: HttpClient,
}

impl Signatures {
    /// Returns the signatures for the container of a URL such as `https://account.blob.core.windows.net/container/…`.
    fn of(&self, url: &Url, sessions: &Sessions) -> Result<Arc<Renewed<SasEndpoint>>, StoreError> {
        let account = url.host_str().and_then(|host| host.split('.').next()).unwrap_or_default();
        let container = url.path_segments().and_then(|mut segments| segments.next()).unwrap_or_default();
        let endpoint = sas_endpoint(&self.template, account, container)?;
        let mut issued = sessions.signatures.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let endpoint = Endpoint { client: self.client.clone(), url: endpoint.clone() };
            Arc::new(Renewed::new(SasEndpoint(endpoint)))
        };
        Ok(Arc::clone(issued.entry(endpoint.to_string()).or_insert_with(new)))
    }
}

/// Returns the URL that issues signatures for a container.
pub(crate) fn sas_endpoint(template: &str, account: &str, container: &str) -> Result<Url, StoreError> {
    let url = template.replace("{account}", account).replace("{container}", container);
    issuer("sas-tokens", &url)
}

/// Parses the URL of a service that issues credentials.
pub(crate) fn issuer(key: &str, url: &str) -> Result<Url, StoreError> {
    Url::parse(url).ok().filter(is_private).ok_or_else(|| StoreError::Option {
        key: key.to_owned(),
        reason: "expected the https URL of a service that issues credentials".to_owned(),
    })
}

impl HttpService for WebClient {
    fn call<'service, 'call>(
        &'service self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'call>>
    where
        'service: 'call,
        Self: 'call,
    {
        Box::pin(self.send(request))
    }
}

impl WebClient {
    /// Sends a request, and follows its redirects.
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let start = Url::parse(&request.uri().to_string()).map_err(invalid)?;
        let (mut method, mut body) = (request.method().clone(), request.body().clone());
        let (mut url, mut redirects, mut logins) = (start.clone(), 0, 0);
        loop {
            let session = self.sessions.get(&url);
            let mut headers = request.headers().clone();
            let mut sent_to = url.clone();
            let is_ours = match &self.prefix {
                Some(prefix) => covers(prefix, url.as_str()),
                None => origin(&url) == origin(&start),
            };
            if is_ours && let Some(token) = self.access.token().map_err(ours)? {
                headers.insert(header::AUTHORIZATION, bearer(&token).map_err(ours)?);
            }
            if is_ours && let Some(signatures) = &self.sas {
                let signature =
                    signatures.of(&url, &self.sessions).map_err(ours)?.get().await.map_err(ours)?;
                if let AzureCredential::SASToken(query) = &*signature {
                    sent_to.query_pairs_mut().extend_pairs(query);
                }
            }
            if self.follows && !self.access.anonymous {
                self.add_session(&url, &session, &mut headers);
                if let Some(seen) = request.extensions().get::<Seen>().filter(|_| session.logins > 0) {
                    let source = if session.sends_token { "EARTHDATA_TOKEN" } else { session.source };
                    seen.identify(Identity::Earthdata(source.to_owned()));
                }
            }
            let parts = (method.clone(), body.clone(), headers);
            let response = self.execute(&sent_to, parts, request.extensions().clone()).await?;
            if !self.follows {
                return Ok(response);
            }
            let target = redirect(&url, &response);
            if logins < 2 && !self.access.anonymous {
                let login = target.clone().filter(|target| self.is_login(target));
                // Some servers refuse instead of redirecting.
                let is_refused = response.status() == StatusCode::UNAUTHORIZED
                    && self.earthdata_token(&url).is_some()
                    && !session.sends_token
                    && self.access.token().ok().flatten().is_none();
                if login.is_some() || is_refused {
                    logins += 1;
                    self.log_in(&url, login, &session, &response).await.map_err(ours)?;
                    continue;
                }
            }
            let Some(target) = target else { return Ok(response) };
            if self.is_login(&target) {
                return Err(ours(self.needs_login(&url)));
            }
            redirects += 1;
            if redirects > MAX_REDIRECTS {
                return Err(invalid(format!("more than {MAX_REDIRECTS} redirects")));
            }
            let keeps_method = matches!(response.status().as_u16(), 307 | 308);
            if !keeps_method && method != Method::HEAD {
                (method, body) = (Method::GET, HttpRequestBody::empty());
            }
            url = target;
        }
    }

    async fn execute(
        &self,
        url: &Url,
        (method, body, headers): (Method, HttpRequestBody, HeaderMap),
        extensions: object_store::Extensions,
    ) -> Result<HttpResponse, HttpError> {
        let mut request = HttpRequest::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = url.as_str().parse().map_err(|_| invalid("not a url"))?;
        *request.headers_mut() = headers;
        *request.extensions_mut() = extensions;
        self.client.execute(request).await
    }

    /// Adds the cookies of a session, and the Earthdata token if the origin accepts it.
    fn add_session(&self, url: &Url, session: &Session, headers: &mut HeaderMap) {
        if !is_private(url) {
            return;
        }
        if !session.cookies.is_empty() {
            let cookies = session.cookies.iter().map(|(name, value)| format!("{name}={value}"));
            if let Ok(mut value) = HeaderValue::from_str(&cookies.collect::<Vec<_>>().join("; ")) {
                value.set_sensitive(true);
                headers.insert(header::COOKIE, value);
            }
        }
        if session.sends_token
            && !headers.contains_key(header::AUTHORIZATION)
            && let Some(token) = self.earthdata_token(url)
            && let Ok(value) = bearer(&token)
        {
            headers.insert(header::AUTHORIZATION, value);
        }
    }

    /// Returns the URL of the login service.
    fn login_service(&self) -> Option<Url> {
        Url::parse(self.access.earthdata_login.as_deref().unwrap_or(EARTHDATA)).ok().filter(is_private)
    }

    /// Returns whether a URL requests a login.
    fn is_login(&self, url: &Url) -> bool {
        let service = self.login_service();
        service.is_some_and(|service| origin(&service) == origin(url))
            && url.path().ends_with("/oauth/authorize")
    }

    /// Returns the Earthdata token, if it may be sent to a URL: to hosts of NASA, and to those below a prefix whose settings
    /// name a login service.
    fn earthdata_token(&self, url: &Url) -> Option<String> {
        let is_named = self.access.earthdata_login.is_some()
            && self
                .prefix
                .as_ref()
                .and_then(|prefix| Url::parse(prefix).ok())
                .is_some_and(|prefix| origin(&prefix) == origin(url));
        variable("EARTHDATA_TOKEN").filter(|_| is_private(url) && (is_named || domain(url).is_some()))
    }

    /// Returns the error for a file that needs a login that nobody has configured.
    fn needs_login(&self, url: &Url) -> StoreError {
        let host = self.login_service().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
        let reason = format!("{} requires a login", url.host_str().unwrap_or_default());
        let source = self.sessions.get(url).source;
        let identity = match (self.access.anonymous, source) {
            (true, _) => Identity::Anonymous,
            (false, "") => Identity::NoLogin(host),
            (false, source) => Identity::Earthdata(source.to_owned()),
        };
        StoreError::Denied { name: without_query(url.as_str()).to_owned(), reason, identity: Some(identity) }
    }

    /// Logs in to an origin that sent `response`, unless another request has done so since the session `before`: with the
    /// token if the origin may get it and accepts it, or else at the login service, to which `authorize` leads. In the end,
    /// the origin has set a cookie.
    async fn log_in(
        &self,
        data: &Url,
        authorize: Option<Url>,
        before: &Session,
        response: &HttpResponse,
    ) -> Result<(), StoreError> {
        let _login = self.sessions.login.lock().await;
        let session = self.sessions.get(data);
        if session.logins != before.logins {
            return Ok(());
        }
        if let Some((time, error)) = &session.refusal
            && time.elapsed() < PAUSE
        {
            return Err(error.clone());
        }
        self.sessions.keep_cookies(data, response);
        if self.earthdata_token(data).is_some() && !session.sends_token && !session.refuses_token {
            self.sessions.change(&origin(data), |session| {
                session.sends_token = true;
                session.logins += 1;
            });
            return Ok(());
        }
        if session.sends_token {
            self.sessions.change(&origin(data), |session| {
                (session.sends_token, session.refuses_token) = (false, true)
            });
        }
        let known = self.login_service().zip(authorize);
        let known = known.and_then(|(service, url)| Some((login(&service)?, service, url)));
        let Some(((authorization, source), service, url)) = known else {
            return Err(self.needs_login(data));
        };
        let name = without_query(data.as_str());
        tracing::info!("{name}: logging in at {} with {source}", origin(&service));
        let login = self.authorize(data, url, (&service, &authorization, source));
        let timeout = |_| StoreError::unavailable(name, "the login took more than 60 s");
        let login = tokio::time::timeout(MAX_LOGIN, login).await.map_err(timeout)?;
        self.sessions.change(&origin(data), |session| match &login {
            Ok(()) => {
                session.source = source;
                session.logins += 1;
                session.refusal = None;
            }
            Err(error @ StoreError::Denied { .. }) => session.refusal = Some((Instant::now(), error.clone())),
            Err(_) => {}
        });
        login
    }

    /// Follows redirects from the login service back to an origin, which exchanges the code in the URL for a cookie.
    async fn authorize(
        &self,
        data: &Url,
        mut url: Url,
        (service, authorization, source): (&Url, &HeaderValue, &str),
    ) -> Result<(), StoreError> {
        let name = without_query(data.as_str()).to_owned();
        let denied = |reason: String| StoreError::Denied {
            name: name.clone(),
            reason,
            identity: Some(Identity::Earthdata(source.to_owned())),
        };
        for _ in 0..MAX_REDIRECTS {
            let is_service = origin(&url) == origin(service);
            let mut headers = HeaderMap::new();
            self.add_session(&url, &Session { sends_token: false, ..self.sessions.get(&url) }, &mut headers);
            if is_service {
                headers.insert(header::AUTHORIZATION, authorization.clone());
            }
            let parts = (Method::GET, HttpRequestBody::empty(), headers);
            let response = self.execute(&url, parts, object_store::Extensions::new()).await;
            let response = response.map_err(|error| {
                StoreError::unavailable(
                    &name,
                    format!("the login failed: {}", crate::error::innermost(&error)),
                )
            })?;
            self.sessions.keep_cookies(&url, &response);
            let status = response.status();
            let target = redirect(&url, &response);
            let host = url.host_str().unwrap_or_default();
            match (target, status.as_u16()) {
                (Some(target), _) => {
                    let is_file = origin(&target) == origin(data) && target.path() == data.path();
                    let is_elsewhere = ![origin(data), origin(service)].contains(&origin(&target));
                    if is_file || is_elsewhere {
                        return Ok(());
                    }
                    url = target;
                }
                (None, 401 | 403) if is_service => {
                    return Err(denied(format!("{status}: {host} refuses the login")));
                }
                (None, 200..=299) if is_service => {
                    return Err(denied(format!(
                        "{host} asks for something else: sign in there with a browser, accept the licences, and approve the application of {}",
                        data.host_str().unwrap_or_default()
                    )));
                }
                (None, 200..=299) => return Ok(()),
                (None, 400..=499) => return Err(denied(format!("{status} of {host} during the login"))),
                (None, _) => {
                    return Err(StoreError::unavailable(
                        &name,
                        format!("{status} of {host} during the login"),
                    ));
                }
            }
        }
        Err(denied(format!("more than {MAX_REDIRECTS} redirects during the login")))
    }
}

/// Returns the target of a redirect; `None` for other responses, and for one without a target.
fn redirect(url: &Url, response: &HttpResponse) -> Option<Url> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let target = response.headers().get(header::LOCATION)?.to_str().ok()?;
    url.join(target).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Returns the header that logs in at the login service, and where its content comes from.
fn login(service: &Url) -> Option<(HeaderValue, &'static str)> {
    let from_variables = || Some((variable("EARTHDATA_USERNAME")?, variable("EARTHDATA_PASSWORD")?));
    let (value, source) = if let Some((user, password)) = from_variables() {
        (basic(&user, &password), "EARTHDATA_USERNAME")
    } else if let Some((user, password)) = service.host_str().and_then(netrc::login) {
        (basic(&user, &password), ".netrc")
    } else {
        (bearer(&variable("EARTHDATA_TOKEN")?).ok(), "EARTHDATA_TOKEN")
    };
    Some((value?, source))
}

fn basic(user: &str, password: &str) -> Option<HeaderValue> {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    let mut value = HeaderValue::from_str(&format!("Basic {text}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Returns the header with a bearer token.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, StoreError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| StoreError::Option {
        key: "bearer token".to_owned(),
        reason: "holds characters that no header may hold".to_owned(),
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Wraps an error of this crate for `object_store`; [`crate::error::of_ours`] unwraps it.
fn ours(error: StoreError) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, error)
}

fn invalid(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> HttpError {
    let reason: Box<dyn std::error::Error + Send + Sync> = reason.into();
    HttpError::new(HttpErrorKind::Unknown, std::io::Error::other(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn hosts_of_nasa_are_recognized_by_whole_names() {
        for host in
            ["urs.earthdata.nasa.gov", "data.lpdaac.earthdatacloud.nasa.gov", "datapool.asf.alaska.edu"]
        {
            assert!(domain(&url(&format!("https://{host}/a"))).is_some(), "{host}");
        }
        for host in ["notnasa.gov", "nasa.gov.example.org", "nasa.gov@example.org", "example.org/nasa.gov"] {
            assert!(domain(&url(&format!("https://{host}/a"))).is_none(), "{host}");
        }
        assert!(is_private(&url("https://host/")) && is_private(&url("http://127.0.0.1:80/")));
        assert!(!is_private(&url("http://host/")) && !is_private(&url("http://127.0.0.1.example.org/")));
    }

    #[test]
    fn endpoints_of_signatures_have_the_account_and_container() {
        let template = "https://host/token/{account}/{container}";
        let found = sas_endpoint(template, "account", "container").unwrap();
        assert_eq!(found.as_str(), "https://host/token/account/container");
        assert!(sas_endpoint("http://host/token", "", "").is_err(), "a token would be sent in the clear");
        assert!(sas_endpoint("token", "", "").is_err());
    }
}
