//! Dates as text.

use super::{
    Scalar,
    calendar::{Calendar, TimeUnits},
};

const DAY: i128 = 86_400_000_000_000;

/// Returns units of time and their calendar in canonical form; `None` for other units.
pub(crate) fn time_units(units: &str, calendar: Option<&str>) -> Option<(String, &'static str)> {
    let (known, parsed) = (Calendar::of(calendar)?, TimeUnits::parse(units, calendar)?);
    let since = date(known, parsed.reference).unwrap_or_else(|| parsed.since.clone());
    Some((format!("{} since {since}", parsed.unit.name), name(known)))
}

/// Decodes a number in units of time: returns a number that orders dates of all calendars, and the date.
pub(crate) fn decode(number: Number, units: &str, calendar: Option<&str>) -> Option<(i128, String)> {
    let (known, parsed) = (Calendar::of(calendar)?, TimeUnits::parse(units, calendar)?);
    let offset = match number {
        Number::Whole(number) => number.checked_mul(parsed.unit.nanoseconds)?,
        Number::Float(number) => milliseconds(number, parsed.unit.nanoseconds)?,
    };
    let time = parsed.reference.checked_add(offset)?;
    let (year, month, day) = civil(known, time)?;
    let days = i128::from((year * 12 + month) * 31 + day);
    Some((days * DAY + time.rem_euclid(DAY), date(known, time)?))
}

/// Returns the date of a coordinate in units of time.
pub(crate) fn date_of(value: &Scalar, units: &str, calendar: Option<&str>) -> Option<String> {
    let number = match value {
        Scalar::Int(number) => Number::Whole((*number).into()),
        Scalar::Unsigned(number) => Number::Whole((*number).into()),
        Scalar::Float(number) => Number::Float(*number),
        Scalar::Text(_) => return None,
    };
    decode(number, units, calendar).map(|(_, date)| date)
}

/// A number of a coordinate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Number {
    Whole(i128),
    Float(f64),
}

/// Returns nanoseconds, rounded to the millisecond: finer differences are rounding errors of the float.
fn milliseconds(number: f64, unit: i128) -> Option<i128> {
    #[expect(clippy::cast_precision_loss, reason = "lengths of units are whole powers of small numbers")]
    let milliseconds = (number * (unit as f64 / 1e6)).round();
    let sane = milliseconds.is_finite() && milliseconds.abs() < 1e18;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within range")]
    sane.then_some(milliseconds as i128 * 1_000_000)
}

fn name(calendar: Calendar) -> &'static str {
    match calendar {
        Calendar::Standard => "standard",
        Calendar::Gregorian => "proleptic_gregorian",
        Calendar::Julian => "julian",
        Calendar::NoLeap => "noleap",
        Calendar::AllLeap => "all_leap",
        Calendar::Days360 => "360_day",
    }
}

/// `2001-02-03`, `2001-02-03T04:05`, `2001-02-03T04:05:06.5`; nothing past the years 1 to 9,999.
fn date(calendar: Calendar, time: i128) -> Option<String> {
    let (year, month, day) = civil(calendar, time)?;
    Some(format!("{year:04}-{month:02}-{day:02}{}", clock(time.rem_euclid(DAY))))
}

/// Returns year, month and day.
fn civil(calendar: Calendar, time: i128) -> Option<(i64, i64, i64)> {
    let days = i64::try_from(time.div_euclid(DAY)).ok()?;
    let first = |year, month| calendar.day(year, month, 1).filter(|first| *first <= days);
    let (mut year, mut after) = (1_i64, 10_000_i64);
    first(year, 1)?;
    while after - year > 1 {
        let middle = (year + after) / 2;
        if first(middle, 1).is_some() { year = middle } else { after = middle }
    }
    let month = (1..=12).rev().find(|month| first(year, *month).is_some())?;
    let day = (1..=31).find(|day| calendar.day(year, month, *day) == Some(days))?;
    Some((year, month, day))
}

/// Returns the time of day in the shortest form.
fn clock(time: i128) -> String {
    let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000);
    let minutes = format!("T{:02}:{:02}", seconds / 3600, seconds / 60 % 60);
    match (seconds, rest) {
        (0, 0) => String::new(),
        (_, 0) if seconds % 60 == 0 => minutes,
        (_, 0) => format!("{minutes}:{:02}", seconds % 60),
        _ => {
            let fraction = format!("{rest:09}");
            format!("{minutes}:{:02}.{}", seconds % 60, fraction.trim_end_matches('0'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As cftime 1.6 has it: `cftime.num2date(n, units, calendar)`.
    #[test]
    fn dates_of_all_calendars() {
        let said = |number, units, calendar| decode(number, units, calendar).map(|(_, date)| date).unwrap();
        let days = |number, calendar| said(Number::Whole(number), "days since 2000-01-01", Some(calendar));
        assert_eq!(days(59, "standard"), "2000-02-29");
        assert_eq!(days(59, "noleap"), "2000-03-01");
        assert_eq!(days(59, "360_day"), "2000-02-30");
        assert_eq!(days(59, "all_leap"), "2000-02-29");
        assert_eq!(days(-1, "julian"), "1999-12-31");
        assert_eq!(said(Number::Whole(1), "days since 1582-10-04", None), "1582-10-15");
        assert_eq!(
            said(Number::Whole(1), "days since 1582-10-04", Some("proleptic_gregorian")),
            "1582-10-05"
        );
        assert_eq!(
            said(Number::Whole(1_000_006), "hours since 1900-01-01 00:00:00.0", None),
            "2014-01-29T22:00"
        );
        assert_eq!(said(Number::Float(0.1), "days since 2000-01-01T12:00Z", None), "2000-01-01T14:24");
        assert_eq!(said(Number::Float(1.5), "seconds since 1970-01-01", None), "1970-01-01T00:00:01.5");
    }

    #[test]
    fn units_that_mean_the_same_are_equal() {
        let one = time_units("hours since 1900-1-1", Some("gregorian")).unwrap();
        assert_eq!(one, time_units("hour since 1900-01-01T00:00:00Z", None).unwrap());
        assert_eq!(one, ("hours since 1900-01-01".to_owned(), "standard"));
        assert_eq!(time_units("months since 2000-01-01", None), None);
        assert_eq!(time_units("K", None), None);
    }
}
