//! Requests as the readers of Icechunk send them.

use chrono::DateTime;
use object_store::{GetOptions, GetRange};

use crate::{
    StoreError, StoreOptions,
    link::{Failure, Link},
    location::Location,
    meter::Meter,
    region,
};

/// What a reader demands of the file of which it requests a range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    /// This value of `If-Match`, which may lack the quotes of an entity tag.
    Tag(String),
    /// That it was not modified after this time, in seconds since 1970-01-01T00:00:00Z.
    NotModifiedSince(i64),
}

/// Requests a byte of a file as a reader of Icechunk does.
///
/// # Errors
/// [`StoreError::Changed`] if the store does not accept the condition, [`StoreError::Unreadable`] if the response lacks
/// what the reader needs, and errors of the store.
pub async fn probe(
    url: &str,
    offset: u64,
    condition: Option<&Condition>,
    options: &StoreOptions,
) -> Result<(), StoreError> {
    if let Some(allowed) = &options.allowed {
        allowed.check(url)?;
    }
    let location = Location::parse(url)?;
    if let (Location::Local(_), _) | (_, Some(_)) = (&location, &options.through) {
        return Ok(());
    }
    if let Some(allowed) = &options.allowed {
        allowed.check_location(&location)?;
    }
    let mut request = GetOptions {
        range: Some(GetRange::Bounded(offset..offset.saturating_add(1))),
        ..GetOptions::default()
    };
    match condition {
        Some(Condition::Tag(tag)) => request.if_match = Some(tag.clone()),
        Some(Condition::NotModifiedSince(seconds)) => {
            request.if_unmodified_since = DateTime::from_timestamp(*seconds, 0);
        }
        None => {}
    }
    let (meter, request, place) = (&Meter::new(options), &request, &location);
    let answer = region::following(&location, options, || async move {
        let link = Link::new(place, options)?;
        link.get(request.clone(), meter, |_| Ok(())).await?;
        Ok(link.is_complete())
    });
    let name = location.name();
    match answer.await {
        Ok(true) => Ok(()),
        Ok(false) => {
            let reason =
                "the server sends ranges without their length or the size of the file, which Icechunk needs";
            Err(StoreError::Unreadable { name, reason })
        }
        Err(Failure::NoRanges) => Err(StoreError::without_ranges(name)),
        // A store may find the condition malformed.
        Err(Failure::Other(StoreError::Unavailable { reason, .. }))
            if reason.starts_with("400") && condition.is_some() =>
        {
            Err(StoreError::Changed { name, reason })
        }
        Err(Failure::Other(error) | Failure::PastEnd(error)) => Err(error),
    }
}
