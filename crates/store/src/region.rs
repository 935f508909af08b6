//! Detection of the region of an S3 bucket, which S3 reports in response to a request to another region.

use std::env;

use object_store::GetOptions;

use crate::{
    StoreError, StoreOptions,
    link::{Failure, Link},
    location::{Location, Service},
    meter::Meter,
};

/// Sends a request, and sends it again if the bucket turns out to be in another region than was known before.
pub(crate) async fn following<T, F: Future<Output = Result<T, Failure>>>(
    location: &Location,
    options: &StoreOptions,
    request: impl Fn() -> F,
) -> Result<T, Failure> {
    let known = of(location, options);
    match request().await {
        Err(Failure::Other(error)) if follow(location, &error, known.as_deref(), options) => request().await,
        answer => answer,
    }
}

/// Returns the detected region of a location's bucket.
pub(crate) fn of(location: &Location, options: &StoreOptions) -> Option<String> {
    match location {
        Location::Bucket { service: Service::S3, bucket, .. } => options.pool().region(bucket),
        _ => None,
    }
}

/// Records the region that a failed request reported, and returns whether to send the request again: it was sent when
/// another region was known, `used`. Does not override a configured region.
pub(crate) fn follow(
    location: &Location,
    error: &StoreError,
    used: Option<&str>,
    options: &StoreOptions,
) -> bool {
    let (Location::Bucket { service: Service::S3, bucket, .. }, StoreError::Region { region, .. }) =
        (location, error)
    else {
        return false;
    };
    if is_configured(location, options) || used == Some(region) {
        return false;
    }
    tracing::info!("{bucket} is in the region {region}");
    options.pool().set_region(bucket, Some(region));
    true
}

/// Detects the region of a bucket before it is written to, once, unless a region is configured.
pub(crate) async fn settle(location: &Location, options: &StoreOptions) -> Result<(), StoreError> {
    let Location::Bucket { service: Service::S3, bucket, .. } = location else { return Ok(()) };
    let pool = options.pool();
    if is_configured(location, options) || pool.knows_region(bucket) {
        return Ok(());
    }
    let head = GetOptions { head: true, ..GetOptions::default() };
    // Any key serves; the object need not exist.
    let any = Location::Bucket { service: Service::S3, bucket: bucket.clone(), key: "region".to_owned() };
    let answer = Link::new(&any, options)?.get(head, &Meter::new(options), |_| Ok(())).await;
    match answer {
        Err(Failure::Other(error @ StoreError::Region { .. })) => {
            follow(location, &error, None, options);
        }
        _ if pool.knows_region(bucket) => {}
        _ => pool.set_region(bucket, None),
    }
    Ok(())
}

/// Returns the detected region of the S3 bucket of a URL.
pub fn known_region(url: &str, options: &StoreOptions) -> Option<String> {
    of(&Location::parse_prefix(url).ok()?, options)
}

/// Returns whether the options or the environment set a region.
fn is_configured(location: &Location, options: &StoreOptions) -> bool {
    const NAMES: [&str; 4] = ["aws_region", "aws_default_region", "region", "default_region"];
    let is_region = |key: &str| NAMES.contains(&key.to_ascii_lowercase().as_str());
    options.access_to(location).1.values.iter().any(|(key, _)| is_region(key))
        || NAMES.iter().any(|name| {
            env::var(name.to_ascii_uppercase())
                .is_ok_and(|region| name.starts_with("aws") && !region.is_empty())
        })
}
