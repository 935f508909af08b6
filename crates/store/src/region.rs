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

/// Records the region that a failed request reported, and returns whether to retry the request. Does not override a
/// configured region, and returns false if the region was known already.
pub(crate) fn learned(location: &Location, error: &StoreError, options: &StoreOptions) -> bool {
    let (Location::Bucket { service: Service::S3, bucket, .. }, StoreError::Region { region, .. }) =
        (location, error)
    else {
        return false;
    };
    if profile::says_region(options) {
        return false;
    }
    let pool = options.pool();
    let new = pool.region(bucket).as_deref() != Some(region);
    if new {
        tracing::info!("{bucket} is in the region {region}");
        pool.set_region(bucket, Some(region));
    }
    new
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
        Err(Failure::Other(error @ StoreError::Region { .. })) => drop(learned(location, &error, options)),
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
