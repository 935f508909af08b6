//! The region of a bucket of S3, which S3 says itself when it is asked elsewhere.

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

/// Whether the request that failed is to be sent again, since it is known now where the bucket is. Not where someone said
/// a region, or where the answer is the same once more.
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

/// Asks once where a bucket is that will be written to, unless someone said it.
pub(crate) async fn settle(location: &Location, options: &StoreOptions) -> Result<(), StoreError> {
    let Location::Bucket { service: Service::S3, bucket, .. } = location else { return Ok(()) };
    let pool = options.pool();
    if profile::says_region(options) || pool.knows_region(bucket) {
        return Ok(());
    }
    let head = GetOptions { head: true, ..GetOptions::default() };
    // Which object does not matter, nor whether there is one.
    let any = Location::Bucket { service: Service::S3, bucket: bucket.clone(), key: "region".to_owned() };
    let answer = Link::new(&any, options)?.get(head, &Meter::default(), |_| Ok(())).await;
    match answer {
        Err(Failure::Other(error @ StoreError::Region { .. })) => drop(learned(location, &error, options)),
        _ => pool.set_region(bucket, None),
    }
    Ok(())
}

/// Where buckets of S3 were found to be, by their urls, such as `s3://name`.
pub fn known_regions(options: &StoreOptions) -> BTreeMap<String, String> {
    options.pool().regions()
}

/// Settings beside those of the options and the environment, by the keys of `object_store`: what the profile of the AWS
/// command line says, where a bucket of S3 was found to be, what a connection string of Azure says. For those who reach
/// stores by other ways than ours. Keys of S3 come for urls of S3 alone.
///
/// # Errors
/// [`StoreError::Denied`] where the profile's credentials are of a kind that is not known here.
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
