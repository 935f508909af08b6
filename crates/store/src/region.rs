//! Detection of the region of an S3 bucket, which S3 reports in response to a request to another region.

use std::collections::BTreeMap;

use object_store::GetOptions;

use crate::{
    StoreError, StoreOptions,
    connect::connection,
    link::{Failure, Link},
    location::{Location, Service},
    meter::Meter,
    profile,
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
    if profile::says_region(options) || used == Some(region) {
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
    if profile::says_region(options) || pool.knows_region(bucket) {
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

/// Returns the detected regions of S3 buckets, by URL, such as `s3://name`.
pub fn known_regions(options: &StoreOptions) -> BTreeMap<String, String> {
    options.pool().regions()
}

/// Returns settings beyond those of the options and the environment, by the keys of `object_store`: those of the AWS
/// profile, the detected region of an S3 bucket, and those of an Azure connection string. For callers that access
/// stores without this crate. AWS credentials are returned for S3 URLs only.
///
/// # Errors
/// [`StoreError::Denied`] if the profile's credentials are of an unsupported kind.
pub async fn other_settings(url: &str, options: &StoreOptions) -> Result<Vec<(String, String)>, StoreError> {
    let azure = connection(options)?.into_iter().map(|(key, value)| (key.as_ref().to_owned(), value));
    let Ok(location @ Location::Bucket { service: Service::S3, .. }) = Location::parse_prefix(url) else {
        let public = |(key, _): &(String, String)| matches!(key.as_str(), "aws_region" | "aws_endpoint");
        let profile = profile::settings(url, options).unwrap_or_default();
        return Ok(profile.into_iter().filter(public).chain(azure).collect());
    };
    let Location::Bucket { bucket, .. } = &location else { return Ok(Vec::new()) };
    let mut settings = profile::settings(bucket, options)?;
    settle(&location, options).await?;
    if let Some(region) = options.pool().region(bucket) {
        settings.retain(|(key, _)| key != "aws_region");
        settings.push(("aws_region".to_owned(), region));
    }
    settings.extend(azure);
    Ok(settings)
}
