//! Dates of the CF calendars as numbers of days, and reference times of time units (CF conventions, section 4.4).

use super::Scalar;

/// A calendar of the CF conventions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Calendar {
    /// Julian before 1582-10-15, Gregorian from then on.
    Standard,
    /// Gregorian at all times.
    Gregorian,
    /// Julian at all times.
    Julian,
    /// No leap years.
    NoLeap,
    /// Leap years only.
    AllLeap,
    /// Twelve months of 30 days.
    Days360,
}

/// Days before each month in years without a leap day.
const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
const LENGTH: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

impl Calendar {
    /// Returns the calendar that the attribute `calendar` names; [`Calendar::Standard`] without one.
    pub(crate) fn of(name: Option<&str>) -> Option<Self> {
        Some(match name.unwrap_or("standard").trim().to_ascii_lowercase().as_str() {
            "standard" | "gregorian" => Self::Standard,
            "proleptic_gregorian" => Self::Gregorian,
            "julian" => Self::Julian,
            "noleap" | "365_day" => Self::NoLeap,
            "all_leap" | "366_day" => Self::AllLeap,
            "360_day" => Self::Days360,
            _ => return None,
        })
    }

    /// Returns the number of a day, counted from a day that is the same for all dates of the calendar. Returns `None` for
    /// dates that the calendar does not have, and for years before 1, since conventions differ on a year 0.
    pub(crate) fn day(self, year: i64, month: i64, day: i64) -> Option<i64> {
        let leap = match self {
            Self::Standard if (year, month, day) >= (1582, 10, 15) => {
                return Self::Gregorian.day(year, month, day);
            }
            Self::Standard if (year, month, day) > (1582, 10, 4) => return None,
            // Julian dates of the 15th of October 1582 and later are ten days ahead: 1582-10-05 is 1582-10-15.
            Self::Standard => return Self::Julian.day(year, month, day).map(|julian| julian - 2),
            Self::Gregorian => year % 4 == 0 && (year % 100 != 0 || year % 400 == 0),
            Self::Julian => year % 4 == 0,
            Self::AllLeap => true,
            Self::NoLeap | Self::Days360 => false,
        };
        let at = usize::try_from(month.checked_sub(1)?).ok()?;
        let length = match self {
            Self::Days360 => 30,
            _ => LENGTH.get(at)? + i64::from(leap && month == 2),
        };
        if !(1..=9_999_999).contains(&year) || !(1..=12).contains(&month) || !(1..=length).contains(&day) {
            return None;
        }
        let before = BEFORE.get(at)? + i64::from(leap && month > 2) + day - 1;
        let past = year - 1;
        Some(match self {
            Self::Gregorian | Self::Standard => past * 365 + past / 4 - past / 100 + past / 400 + before,
            Self::Julian => past * 365 + past / 4 + before,
            Self::NoLeap => past * 365 + before,
            Self::AllLeap => past * 366 + before,
            Self::Days360 => past * 360 + (month - 1) * 30 + day - 1,
        })
    }
}

/// A unit of time of a fixed length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Unit {
    /// Nanoseconds.
    pub(crate) nanoseconds: i128,
    /// Its name in units that are written.
    pub(crate) name: &'static str,
}

/// From the longest to the shortest.
pub(crate) const UNITS: [Unit; 7] = [
    Unit { nanoseconds: 86_400_000_000_000, name: "days" },
    Unit { nanoseconds: 3_600_000_000_000, name: "hours" },
    Unit { nanoseconds: 60_000_000_000, name: "minutes" },
    Unit { nanoseconds: 1_000_000_000, name: "seconds" },
    Unit { nanoseconds: 1_000_000, name: "milliseconds" },
    Unit { nanoseconds: 1_000, name: "microseconds" },
    Unit { nanoseconds: 1, name: "nanoseconds" },
];

/// Parsed units such as `hours since 1900-01-01 00:00:00`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TimeUnits {
    /// The unit.
    pub(crate) unit: Unit,
    /// Reference time as it is written.
    pub(crate) since: String,
    /// Reference time in nanoseconds since the calendar's first day.
    pub(crate) reference: i128,
}

/// Returns whether units count from a reference time.
pub(crate) fn is_time(units: &str) -> bool {
    units.to_ascii_lowercase().contains(" since ")
}

impl TimeUnits {
    /// Parses units. Returns `None` if the unit has no fixed length (months, years), or the reference time is invalid.
    pub(crate) fn parse(units: &str, calendar: Option<&str>) -> Option<Self> {
        let calendar = Calendar::of(calendar)?;
        let mut words = units.split_whitespace();
        let unit = unit(words.next()?)?;
        if !words.next()?.eq_ignore_ascii_case("since") {
            return None;
        }
        let since = words.collect::<Vec<_>>().join(" ");
        // Readers differ on text that follows two blanks.
        if !units.trim_end().ends_with(&since) {
            return None;
        }
        let reference = reference(&since, calendar)?;
        Some(Self { unit, since, reference })
    }
}

fn unit(word: &str) -> Option<Unit> {
    let at = match word.to_ascii_lowercase().as_str() {
        "d" | "day" | "days" => 0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 1,
        "min" | "mins" | "minute" | "minutes" => 2,
        "s" | "sec" | "secs" | "second" | "seconds" => 3,
        "ms" | "msec" | "msecs" | "millisec" | "millisecs" | "millisecond" | "milliseconds" => 4,
        "us" | "microsec" | "microsecs" | "microsecond" | "microseconds" => 5,
        "ns" | "nanosec" | "nanosecs" | "nanosecond" | "nanoseconds" => 6,
        _ => return None,
    };
    UNITS.get(at).copied()
}

/// Parses `1900-1-1`, `1900-01-01 00:00:0.0`, `1900-01-01T00:00:00Z`, `… +01:00` or `… UTC` as nanoseconds. Returns `None` for
/// texts that pandas and cftime read as different times: zones whose hours have one digit, hours without minutes, digits past
/// microseconds.
pub(crate) fn reference(text: &str, calendar: Calendar) -> Option<i128> {
    let (date, rest) = text.split_once(['T', 't', ' ']).unwrap_or((text, ""));
    let mut parts = date.split('-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() {
        return None;
    }
    let (clock, zone) = zone(rest.trim())?;
    let seconds = i128::from(calendar.day(year, month, day)?) * 86_400 - i128::from(zone);
    Some(seconds * 1_000_000_000 + time_of_day(clock)?)
}

/// Parses a time as nanoseconds since 1970-01-01T00:00:00Z (proleptic Gregorian): a date, `2021-06-01T10:10:31.024Z` (RFC 3339),
/// `20210601T101031Z` (ISO 8601), `2021:06:01 10:10:31` (TIFF). A time without a zone is in UTC.
pub(crate) fn parse_time(text: &str) -> Option<i128> {
    let text = text.trim();
    let (date, rest) = text.split_once(['T', 't', ' ']).unwrap_or((text, ""));
    let (clock, zone) = zone(rest.trim())?;
    let (year, month, day) = match (date.len(), date.get(4..5)?) {
        (8, _) if !clock.is_empty() => (date.get(..4)?, date.get(4..6)?, date.get(6..)?),
        (10, "-") if date.get(7..8) == Some("-") => (date.get(..4)?, date.get(5..7)?, date.get(8..)?),
        (10, ":") if date.get(7..8) == Some(":") && !clock.is_empty() => {
            (date.get(..4)?, date.get(5..7)?, date.get(8..)?)
        }
        _ => return None,
    };
    let (whole, fraction) = clock.split_once(['.', ',']).unwrap_or((clock, ""));
    let compact = whole.len() >= 4 && whole.bytes().all(|byte| byte.is_ascii_digit());
    let whole = match whole.split_at_checked(4).filter(|_| compact) {
        Some((minutes, seconds)) => {
            let seconds = if seconds.is_empty() { "00" } else { seconds };
            format!("{}:{}:{seconds}", minutes.get(..2)?, minutes.get(2..)?)
        }
        None => whole.to_owned(),
    };
    let written = whole.is_empty() || (whole.contains(':') && whole.split(':').all(|part| part.len() == 2));
    let fraction = fraction.trim_end_matches('0');
    let has_seconds = whole.len() == 8 || fraction.is_empty();
    let nanoseconds = match u32::try_from(fraction.len()).ok()? {
        0 => 0,
        length => digits(fraction)? * 10_i64.pow(9_u32.checked_sub(length)?),
    };
    let epoch = Calendar::Gregorian.day(1970, 1, 1)?;
    let days = Calendar::Gregorian.day(digits(year)?, digits(month)?, digits(day)?)? - epoch;
    let seconds = i128::from(days) * 86_400 - i128::from(zone);
    let time = seconds * 1_000_000_000 + time_of_day(&whole)? + i128::from(nanoseconds);
    (written && has_seconds).then_some(time)
}

/// Splits off the zone. Returns the clock, and the offset of the zone in seconds east of Greenwich. A zone without a sign is
/// zero: `00:00:00 0:00`. With a colon, pandas reads such a zone instead of the clock, so that the clock must be midnight.
fn zone(text: &str) -> Option<(&str, i64)> {
    let is_zero =
        |zone: &str| (1..=5).contains(&zone.len()) && zone.bytes().all(|byte| matches!(byte, b'0' | b':'));
    if let Some((clock, zone)) = text.rsplit_once(' ')
        && clock.contains(':')
        && is_zero(zone)
    {
        let agree = !zone.contains(':') || time_of_day(clock.trim()) == Some(0);
        return agree.then_some((clock.trim(), 0));
    }
    for name in ["UTC", "GMT", "Z", "z", "utc", "gmt"] {
        if let Some(clock) = text.strip_suffix(name) {
            return Some((clock.trim(), 0));
        }
    }
    let Some(at) = text.rfind(['+', '-']) else { return Some((text, 0)) };
    let (clock, zone) = text.split_at_checked(at)?;
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let zone = zone.get(1..)?;
    if is_zero(zone) {
        return Some((clock.trim(), 0));
    }
    let (hours, minutes) = match (zone.split_once(':'), zone.len()) {
        (Some((hours, minutes)), _) => (hours, minutes),
        (None, 4) => zone.split_at_checked(2)?,
        (None, _) => (zone, "0"),
    };
    let written = hours.len() == 2 && (minutes.len() == 2 || zone.len() == 2);
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    let sane = written && hours <= 14 && minutes < 60;
    sane.then_some((clock.trim(), sign * (hours * 3600 + minutes * 60)))
}

/// Returns the nanoseconds since midnight.
fn time_of_day(clock: &str) -> Option<i128> {
    if clock.is_empty() {
        return Some(0);
    }
    let mut parts = clock.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next().unwrap_or("0"));
    let (whole, fraction) = second.split_once('.').unwrap_or((second, ""));
    let (hour, minute, whole) = (digits(hour)?, digits(minute)?, digits(whole)?);
    let sane = parts.next().is_none() && hour < 24 && minute < 60 && whole < 60;
    let seconds = i128::from(hour * 3600 + minute * 60 + whole);
    sane.then_some(seconds * 1_000_000_000 + nanoseconds(fraction)?)
}

/// Returns the digits after the decimal point as nanoseconds; `None` if there are more than six, trailing zeros aside.
fn nanoseconds(fraction: &str) -> Option<i128> {
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        return Some(0);
    }
    let power = u32::try_from(fraction.len()).ok().filter(|len| *len <= 6)?;
    let power = 9_u32.checked_sub(power)?;
    Some(i128::from(digits(fraction)?) * 10_i128.pow(power))
}

/// Parses a number of up to 9 digits.
pub(crate) fn digits(text: &str) -> Option<i64> {
    let plain = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

const DAY: i128 = 86_400_000_000_000;

/// Returns units of time and their calendar in canonical form; `None` for other units.
pub(crate) fn time_units(units: &str, calendar: Option<&str>) -> Option<(String, &'static str)> {
    let (known, parsed) = (Calendar::of(calendar)?, TimeUnits::parse(units, calendar)?);
    let since = date(known, parsed.reference).unwrap_or_else(|| parsed.since.clone());
    Some((format!("{} since {since}", parsed.unit.name), name(known)))
}

/// Decodes a coordinate in units of time: returns a number that orders dates of all calendars, and the date.
pub(crate) fn decode(value: &Scalar, units: &str, calendar: Option<&str>) -> Option<(i128, String)> {
    let (known, parsed) = (Calendar::of(calendar)?, TimeUnits::parse(units, calendar)?);
    let offset = match value {
        Scalar::Float(number) => milliseconds(*number, parsed.unit.nanoseconds)?,
        whole => whole.to_i128()?.checked_mul(parsed.unit.nanoseconds)?,
    };
    let time = parsed.reference.checked_add(offset)?;
    let (year, month, day) = civil(known, time)?;
    let days = i128::from((year * 12 + month) * 31 + day);
    Some((days * DAY + time.rem_euclid(DAY), date(known, time)?))
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

/// `2001-02-03`, `2001-02-03T04:05`, `2001-02-03T04:05:06.5`; `None` past the years 1 to 9,999.
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
        let date_of =
            |number: Scalar, units, calendar| decode(&number, units, calendar).map(|(_, date)| date).unwrap();
        let days = |number, calendar| date_of(Scalar::Int(number), "days since 2000-01-01", Some(calendar));
        assert_eq!(days(59, "standard"), "2000-02-29");
        assert_eq!(days(59, "noleap"), "2000-03-01");
        assert_eq!(days(59, "360_day"), "2000-02-30");
        assert_eq!(days(59, "all_leap"), "2000-02-29");
        assert_eq!(days(-1, "julian"), "1999-12-31");
        assert_eq!(date_of(Scalar::Int(1), "days since 1582-10-04", None), "1582-10-15");
        assert_eq!(
            date_of(Scalar::Int(1), "days since 1582-10-04", Some("proleptic_gregorian")),
            "1582-10-05"
        );
        assert_eq!(
            date_of(Scalar::Int(1_000_006), "hours since 1900-01-01 00:00:00.0", None),
            "2014-01-29T22:00"
        );
        assert_eq!(date_of(Scalar::Float(0.1), "days since 2000-01-01T12:00Z", None), "2000-01-01T14:24");
        assert_eq!(date_of(Scalar::Float(1.5), "seconds since 1970-01-01", None), "1970-01-01T00:00:01.5");
    }

    /// As `datetime.fromisoformat` of Python 3.11 reads them; the one with colons as TIFF 6.0 defines it.
    #[test]
    fn times_of_all_sources() {
        for (text, expected) in [
            ("2021-06-01T10:10:31.024000Z", 1_622_542_231_024_000_000),
            ("2021-06-01T10:10:31Z", 1_622_542_231_000_000_000),
            ("2021-06-01 12:10:31.5+02:00", 1_622_542_231_500_000_000),
            ("2021-06-01T10:10:31.0247610Z", 1_622_542_231_024_761_000),
            ("2021-06-01T10:10:31.024761001Z", 1_622_542_231_024_761_001),
            ("2021-06-01", 1_622_505_600_000_000_000),
            ("2021-06-01T10:10", 1_622_542_200_000_000_000),
            ("20210601T101031Z", 1_622_542_231_000_000_000),
            ("20210601T1010", 1_622_542_200_000_000_000),
            ("2021:06:01 10:10:31", 1_622_542_231_000_000_000),
            ("1969-12-31T23:59:59.5Z", -500_000_000),
        ] {
            assert_eq!(parse_time(text), Some(expected), "{text}");
        }
        for text in [
            "v1",
            "",
            "20210601",
            "2021",
            "2021-06",
            "2021-02-29",
            "2021-06-01T25:00:00Z",
            "2021-06-01T1:00:00Z",
            "2021-06-01T10:10.5Z",
            "2021:06:01",
            "0000:00:00 00:00:00",
            "2021-06-01T10:10:31.0000000001Z",
            "2021-06-01T10:10:31 Europe/Rome",
            "2021-06-01Tä",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn units_that_mean_the_same_are_equal() {
        let one = time_units("hours since 1900-1-1", Some("gregorian")).unwrap();
        assert_eq!(one, time_units("hour since 1900-01-01T00:00:00Z", None).unwrap());
        assert_eq!(one, ("hours since 1900-01-01".to_owned(), "standard"));
        // ARM, for one. Where xarray reads `12:00 0:00` depends on whether pandas or cftime decodes it.
        for zone in [" 0:00", " 00:00", " +0:00", "-0", " 0", " +00:0"] {
            assert_eq!(
                one,
                time_units(&format!("hours since 1900-01-01 00:00{zone}"), None).unwrap(),
                "{zone}"
            );
        }
        assert!(time_units("hours since 1900-01-01 12:00 +0:00", None).is_some());
        assert_eq!(time_units("hours since 1900-01-01 12:00 0:00", None), None);
        assert_eq!(time_units("hours since 1900-01-01 12:00 +1:00", None), None);
        assert_eq!(time_units("months since 2000-01-01", None), None);
        assert_eq!(time_units("K", None), None);
    }
}
