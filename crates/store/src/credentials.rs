//! Temporary credentials that a provider issues, and that are renewed before they expire.

use std::{
    fmt, io,
    process::Stdio,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use chrono::DateTime;
use futures::future::BoxFuture;
use object_store::{
    CredentialProvider, aws::AwsCredential, azure::AzureCredential, client::HttpClient,
    client::HttpRequestBody,
};
use reqwest::Method;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt};
use url::Url;

use crate::{
    Identity, StoreError,
    clients::Seen,
    error,
    link::{Backoff, Tried},
    meter::Meter,
    web,
};

/// Maximum length of a provider's response in bytes.
const MAX_RESPONSE: u64 = 64 << 10;
/// Maximum time for which a provider is waited for.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// How long before their expiry credentials are renewed, at most; at most a quarter of their lifetime.
const MARGIN: Duration = Duration::from_secs(300);
/// Lifetime of credentials without an expiry.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);
/// Time for which a provider that failed is not called again while the credentials are still valid.
const PAUSE: Duration = Duration::from_secs(1);

/// Credentials, and for how long they are valid.
pub(crate) struct Issued<T> {
    pub(crate) credential: T,
    pub(crate) lifetime: Duration,
}

/// Credentials that were issued, with the times of their renewal and expiry.
struct Current<T> {
    credential: Arc<T>,
    renewal: SystemTime,
    expiry: SystemTime,
}

/// Credentials of a provider. All requests share them, and one of them at a time renews them.
pub(crate) struct Renewed<P: Provider> {
    provider: P,
    current: RwLock<Option<Current<P::Credential>>>,
    renewing: tokio::sync::Mutex<()>,
}

/// Issues credentials.
pub(crate) trait Provider: fmt::Debug + Send + Sync + 'static {
    type Credential: Send + Sync + 'static;

    fn issue(&self) -> impl Future<Output = Result<Issued<Self::Credential>, StoreError>> + Send;
}

impl<P: Provider> fmt::Debug for Renewed<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Renewed").field(&self.provider).finish()
    }
}

impl<P: Provider> Renewed<P> {
    pub(crate) fn new(provider: P) -> Self {
        Self { provider, current: RwLock::new(None), renewing: tokio::sync::Mutex::default() }
    }

    /// Returns valid credentials, and renews them first if they expire soon.
    pub(crate) async fn get(&self) -> Result<Arc<P::Credential>, StoreError> {
        let current = |is_usable: fn(&Current<P::Credential>) -> bool| {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            current
                .as_ref()
                .filter(|current| is_usable(current))
                .map(|current| Arc::clone(&current.credential))
        };
        let is_fresh = |current: &Current<_>| SystemTime::now() < current.renewal;
        if let Some(credential) = current(is_fresh) {
            return Ok(credential);
        }
        let _renewing = self.renewing.lock().await;
        if let Some(credential) = current(is_fresh) {
            return Ok(credential);
        }
        match self.provider.issue().await {
            Ok(Issued { credential, lifetime }) => {
                let (now, credential) = (SystemTime::now(), Arc::new(credential));
                let current = Current {
                    credential: Arc::clone(&credential),
                    renewal: now + lifetime.saturating_sub(MARGIN.min(lifetime / 4)),
                    expiry: now + lifetime,
                };
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(current);
                Ok(credential)
            }
            Err(error) => {
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                let valid = current.as_mut().filter(|current| SystemTime::now() < current.expiry);
                let Some(valid) = valid else { return Err(error) };
                tracing::warn!("{error}; the previous credentials are still valid");
                valid.renewal = SystemTime::now() + PAUSE;
                Ok(Arc::clone(&valid.credential))
            }
        }
    }
}

impl<P: Provider> CredentialProvider for Renewed<P> {
    type Credential = P::Credential;

    fn get_credential<'service, 'call>(
        &'service self,
    ) -> BoxFuture<'call, object_store::Result<Arc<Self::Credential>>>
    where
        'service: 'call,
        Self: 'call,
    {
        Box::pin(async { self.get().await.map_err(error::foreign) })
    }
}

/// A URL that issues credentials.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) client: HttpClient,
    pub(crate) url: Url,
}

impl Endpoint {
    /// Returns the response of the endpoint, parsed as JSON, and the server's time. Retries transient failures.
    async fn get<T: for<'de> Deserialize<'de>>(&self) -> Result<(T, SystemTime), StoreError> {
        let name = error::without_query(self.url.as_str());
        let mut backoff = Backoff::new(5, MAX_WAIT);
        let request = async {
            loop {
                let seen = Seen::default();
                match self.once(name, &seen).await {
                    Ok(answer) => break Ok(answer),
                    Err(Tried::Final(error)) => break Err(error),
                    Err(Tried::Passing(error)) => backoff.wait(error, &seen, &Meter::default()).await?,
                }
            }
        };
        let timeout = |_| StoreError::unavailable(name, "no response of the provider of credentials in 60 s");
        tokio::time::timeout(MAX_WAIT, request).await.map_err(timeout)?
    }

    async fn once<T: for<'de> Deserialize<'de>>(
        &self,
        name: &str,
        seen: &Seen,
    ) -> Result<(T, SystemTime), Tried> {
        let request = (Method::GET, HttpRequestBody::empty());
        let accept = [("accept", "application/json")].into_iter();
        let response = web::send(&self.client, &self.url, name, request, accept, seen).await?;
        let time = response.headers().get("date").and_then(|date| date.to_str().ok());
        let time = time.and_then(|time| DateTime::parse_from_rfc2822(time).ok()).map(SystemTime::from);
        let body = web::read_all(response, name, MAX_RESPONSE).await?;
        let parsed = serde_json::from_slice(&body.unwrap_or_default());
        // The text of the error could repeat a part of the credentials.
        let refused = |_| {
            Tried::Final(StoreError::unavailable(
                name,
                "the response is not one of a provider of credentials",
            ))
        };
        Ok((parsed.map_err(refused)?, time.unwrap_or_else(SystemTime::now)))
    }
}

/// Returns the time from now to an expiry such as `2026-04-12T15:17:54Z`.
fn lifetime(expiry: Option<&str>, now: SystemTime) -> Duration {
    let expiry = expiry.map(|text| text.replacen(' ', "T", 1));
    let expiry = expiry.and_then(|text| DateTime::parse_from_rfc3339(&text).ok()).map(SystemTime::from);
    expiry.map_or(DEFAULT_LIFETIME, |expiry| expiry.duration_since(now).unwrap_or_default())
}

/// An endpoint of temporary S3 credentials, as the data centres of NASA have them.
#[derive(Debug)]
pub(crate) struct S3Endpoint(pub(crate) Endpoint);

/// Keys as such endpoints spell them, or as the AWS CLI does.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Keys {
    #[serde(alias = "AccessKeyId")]
    access_key_id: String,
    #[serde(alias = "SecretAccessKey")]
    secret_access_key: String,
    #[serde(alias = "SessionToken")]
    session_token: Option<String>,
    #[serde(alias = "Expiration")]
    expiration: Option<String>,
}

impl Keys {
    fn issued(self, lifetime: Duration) -> Issued<AwsCredential> {
        let Self { access_key_id, secret_access_key, session_token, .. } = self;
        let credential =
            AwsCredential { key_id: access_key_id, secret_key: secret_access_key, token: session_token };
        Issued { credential, lifetime }
    }
}

impl Provider for S3Endpoint {
    type Credential = AwsCredential;

    async fn issue(&self) -> Result<Issued<AwsCredential>, StoreError> {
        let (keys, now) = self.0.get::<Keys>().await?;
        let lifetime = lifetime(keys.expiration.as_deref(), now);
        Ok(keys.issued(lifetime))
    }
}

/// An endpoint of shared access signatures for a container, as the Planetary Computer has one.
#[derive(Debug)]
pub(crate) struct SasEndpoint(pub(crate) Endpoint);

/// Its response.
#[derive(Deserialize)]
struct SasResponse {
    token: String,
    #[serde(rename = "msft:expiry")]
    expiry: Option<String>,
}

impl Provider for SasEndpoint {
    type Credential = AzureCredential;

    async fn issue(&self) -> Result<Issued<AzureCredential>, StoreError> {
        let (response, now) = self.0.get::<SasResponse>().await?;
        let token = response.token.trim_start_matches('?').as_bytes();
        let query: Vec<(String, String)> = url::form_urlencoded::parse(token).into_owned().collect();
        let signed = query.iter().find(|(key, _)| key == "se").map(|(_, value)| value.as_str());
        let lifetime = lifetime(response.expiry.as_deref().or(signed), now);
        Ok(Issued { credential: AzureCredential::SASToken(query), lifetime })
    }
}

/// An AWS profile. The AWS CLI provides its credentials, whether the profile has keys, signs in with SSO, assumes a role or
/// runs a program.
#[derive(Debug)]
pub(crate) struct Profile(pub(crate) String);

impl Profile {
    /// Runs the AWS CLI, and returns what it prints.
    async fn export(&self) -> Result<Keys, StoreError> {
        let Self(profile) = self;
        let failed = |reason: String| StoreError::Denied {
            name: "s3://".to_owned(),
            reason,
            identity: Some(Identity::Profile(profile.clone())),
        };
        let mut command = tokio::process::Command::new("aws");
        command.args(["configure", "export-credentials", "--format", "process", "--profile", profile]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                failed("profiles need the AWS CLI (`aws`, version 2), which is not installed".to_owned())
            }
            _ => failed(format!("cannot run the AWS CLI: {error}")),
        })?;
        let read = async |pipe: Option<&mut (dyn AsyncRead + Unpin + Send)>| {
            let mut bytes = Vec::new();
            if let Some(pipe) = pipe {
                let _ = pipe.take(MAX_RESPONSE).read_to_end(&mut bytes).await;
            }
            bytes
        };
        let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
        let run = async {
            let out = read(stdout.as_mut().map(|pipe| pipe as _));
            let err = read(stderr.as_mut().map(|pipe| pipe as _));
            let (out, err) = futures::future::join(out, err).await;
            (child.wait().await, out, err)
        };
        let timeout = |_| failed("the AWS CLI printed no credentials in 60 s".to_owned());
        let (status, out, err) = tokio::time::timeout(MAX_WAIT, run).await.map_err(timeout)?;
        if !status.is_ok_and(|status| status.success()) {
            let message = error::one_line(&String::from_utf8_lossy(&err));
            return Err(failed(format!("the AWS CLI has no credentials: {message}")));
        }
        // The text of the error could repeat a part of the credentials.
        let refused = |_| failed("the AWS CLI printed something else than credentials".to_owned());
        serde_json::from_slice(&out).map_err(refused)
    }
}

impl Provider for Profile {
    type Credential = AwsCredential;

    async fn issue(&self) -> Result<Issued<AwsCredential>, StoreError> {
        let keys = self.export().await?;
        let lifetime = match &keys.expiration {
            Some(expiration) => lifetime(Some(expiration), SystemTime::now()),
            // Keys that do not expire.
            None => Duration::from_secs(3600),
        };
        Ok(keys.issued(lifetime))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Debug, Default)]
    struct Counter {
        count: AtomicU32,
        lifetime: Duration,
    }

    impl Provider for Counter {
        type Credential = u32;

        async fn issue(&self) -> Result<Issued<u32>, StoreError> {
            let credential = self.count.fetch_add(1, Ordering::Relaxed);
            let issued = Issued { credential, lifetime: self.lifetime };
            if credential == 1 { Err(StoreError::unavailable("provider", "down")) } else { Ok(issued) }
        }
    }

    #[test]
    fn credentials_are_renewed_before_they_expire_and_kept_while_they_are_valid() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let renewed = Renewed::new(Counter { lifetime: Duration::from_secs(3600), ..Counter::default() });
            let all = futures::future::join_all((0..100).map(|_| renewed.get())).await;
            assert!(all.into_iter().all(|one| one == Ok(Arc::new(0))));
            let renewed =
                Renewed::new(Counter { lifetime: Duration::from_millis(400), ..Counter::default() });
            assert_eq!(renewed.get().await.as_deref(), Ok(&0));
            tokio::time::sleep(Duration::from_millis(320)).await;
            assert_eq!(
                renewed.get().await.as_deref(),
                Ok(&0),
                "the provider fails, but the old ones are valid"
            );
            tokio::time::sleep(Duration::from_millis(1100)).await;
            assert_eq!(renewed.get().await.as_deref(), Ok(&2));
        });
    }

    #[test]
    fn lifetimes_are_differences_to_the_time_of_the_server() {
        let now = SystemTime::from(DateTime::parse_from_rfc3339("2026-04-12T15:00:00Z").unwrap());
        let seconds = |expiry| lifetime(expiry, now).as_secs();
        assert_eq!(seconds(Some("2026-04-12T16:00:00Z")), 3600);
        assert_eq!(seconds(Some("2026-04-12 16:00:00+00:00")), 3600);
        assert_eq!(seconds(Some("2026-04-12T14:00:00Z")), 0);
        assert_eq!(seconds(Some("soon")), DEFAULT_LIFETIME.as_secs());
        assert_eq!(seconds(None), DEFAULT_LIFETIME.as_secs());
    }
}
