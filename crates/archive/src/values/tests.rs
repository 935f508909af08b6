//! Dates and reference times as cftime 1.6.6 has them: `cftime.date2num(date, "days since 2000-01-01", calendar)`.

use super::calendar::{Calendar, TimeUnits, UNITS};

/// Year, month and day.
type Date = (i64, i64, i64);

/// Dates, and their numbers.
type Dates = &'static [(Date, Option<i64>)];

/// Days since 2000-01-01; nothing for dates that the calendar does not have.
const DAYS: [(&str, Dates); 6] = [
    (
        "standard",
        &[
            ((1582, 10, 4), Some(-152_385)),
            ((1582, 10, 5), None),
            ((1582, 10, 14), None),
            ((1582, 10, 15), Some(-152_384)),
            ((1600, 2, 29), Some(-146_038)),
            ((1700, 2, 28), Some(-109_514)),
            ((1700, 2, 29), None),
            ((1700, 3, 1), Some(-109_513)),
            ((1899, 12, 31), Some(-36_525)),
            ((1900, 1, 1), Some(-36_524)),
            ((1900, 3, 1), Some(-36_465)),
            ((1999, 12, 31), Some(-1)),
            ((2000, 2, 29), Some(59)),
            ((2024, 12, 30), Some(9_130)),
            ((2100, 3, 1), Some(36_584)),
            ((1, 1, 1), Some(-730_121)),
            ((4, 2, 29), Some(-728_967)),
            ((9999, 12, 30), Some(2_921_938)),
        ],
    ),
    (
        "proleptic_gregorian",
        &[
            ((1582, 10, 4), Some(-152_395)),
            ((1582, 10, 15), Some(-152_384)),
            ((1700, 2, 29), None),
            ((1, 1, 1), Some(-730_119)),
            ((4, 2, 29), Some(-728_965)),
            ((400, 12, 30), Some(-584_024)),
            ((2100, 3, 1), Some(36_584)),
        ],
    ),
    (
        "julian",
        &[
            ((1582, 10, 15), Some(-152_387)),
            ((1700, 2, 28), Some(-109_517)),
            ((1700, 3, 1), Some(-109_515)),
            ((1900, 2, 28), Some(-36_467)),
            ((1900, 3, 1), Some(-36_465)),
            ((2100, 3, 1), Some(36_585)),
            ((1, 1, 1), Some(-730_134)),
            ((9999, 12, 30), Some(2_921_998)),
        ],
    ),
    (
        "noleap",
        &[
            ((1582, 10, 4), Some(-152_294)),
            ((2000, 2, 29), None),
            ((2000, 3, 1), Some(59)),
            ((2025, 1, 1), Some(9_125)),
            ((2100, 3, 1), Some(36_559)),
            ((1, 1, 1), Some(-729_635)),
        ],
    ),
    (
        "all_leap",
        &[
            ((1700, 2, 28), Some(-109_742)),
            ((1700, 3, 1), Some(-109_740)),
            ((2023, 12, 30), Some(8_782)),
            ((2025, 1, 1), Some(9_150)),
            ((1, 1, 1), Some(-731_634)),
        ],
    ),
    (
        "360_day",
        &[
            ((1899, 12, 31), None),
            ((1900, 2, 28), Some(-35_943)),
            ((1900, 3, 1), Some(-35_940)),
            ((2000, 2, 29), Some(58)),
            ((2000, 2, 30), Some(59)),
            ((2024, 12, 30), Some(8_999)),
            ((2025, 1, 1), Some(9_000)),
            ((1, 1, 1), Some(-719_640)),
        ],
    ),
];

#[test]
fn days_of_all_calendars() {
    for (name, dates) in DAYS {
        let calendar = Calendar::of(Some(name)).unwrap();
        let first = calendar.day(2000, 1, 1).unwrap();
        for ((year, month, day), expected) in dates {
            let found = calendar.day(*year, *month, *day).map(|day| day - first);
            assert_eq!(found, *expected, "{name} {year}-{month}-{day}");
        }
    }
}

#[test]
fn days_follow_each_other() {
    for (name, _) in DAYS {
        let calendar = Calendar::of(Some(name)).unwrap();
        let mut last = None;
        for year in 1580..1605 {
            for month in 1..=12 {
                for number in (1..=31).filter_map(|day| calendar.day(year, month, day)) {
                    assert!(last.is_none_or(|last| last + 1 == number), "{name} {year}-{month}");
                    last = Some(number);
                }
            }
        }
    }
}

/// Microseconds from 2000-01-01 to the reference time, `cftime.date2num(cftime.num2date(0, units, calendar), …)`.
const REFERENCES: [(&str, &str, Option<i128>); 20] = [
    ("hours since 1900-1-1", "standard", Some(-3_155_673_600_000_000)),
    ("hours since 1900-1-1", "noleap", Some(-3_153_600_000_000_000)),
    ("hours since 1900-1-1", "360_day", Some(-3_110_400_000_000_000)),
    ("seconds since 1970-01-01T00:00:00Z", "standard", Some(-946_684_800_000_000)),
    ("seconds since 1970-01-01T00:00:00Z", "noleap", Some(-946_080_000_000_000)),
    ("minutes since 1582-10-15 06:30:00", "standard", Some(-13_165_954_200_000_000)),
    ("minutes since 1582-10-15 06:30:00", "360_day", Some(-12_976_911_000_000_000)),
    ("days since 2000-02-29 12:00:00.5", "standard", Some(5_140_800_500_000)),
    ("days since 2000-02-29 12:00:00.5", "noleap", None),
    ("days since 2000-02-29 12:00:00.5", "360_day", Some(5_054_400_500_000)),
    ("hours since 1999-12-31 23:00:00 -01:30", "standard", Some(1_800_000_000)),
    ("hours since 1999-12-31 23:00:00 -01:30", "360_day", None),
    ("days since 0001-01-01", "standard", Some(-63_082_454_400_000_000)),
    ("days since 0001-01-01", "noleap", Some(-63_040_464_000_000_000)),
    ("milliseconds since 2000-01-01 +05:30", "standard", Some(-19_800_000_000)),
    ("milliseconds since 2000-01-01 12:00-0600", "noleap", Some(64_800_000_000)),
    ("days since 1850-01-01 UTC", "standard", Some(-4_733_510_400_000_000)),
    ("hours since 2001-1-1 00:00:0.0", "standard", Some(31_622_400_000_000)),
    ("hours since 2001-1-1 00:00:0.0", "noleap", Some(31_536_000_000_000)),
    ("hours since 2001-1-1 00:00:0.0", "360_day", Some(31_104_000_000_000)),
];

#[test]
fn reference_times() {
    for (units, calendar, expected) in REFERENCES {
        let epoch = TimeUnits::parse("days since 2000-01-01", Some(calendar)).unwrap().reference;
        let found = TimeUnits::parse(units, Some(calendar)).map(|parsed| parsed.reference - epoch);
        assert_eq!(found, expected.map(|microseconds| microseconds * 1000), "{units} {calendar}");
    }
}

#[test]
fn units_that_are_not_understood() {
    for units in [
        "months since 2000-01-01",
        "years since 2000-01-01",
        "days",
        "days from 2000-01-01",
        "days since 2000-13-01",
        "days since 2000-02-30",
        "days since 0000-01-01",
        "days since 2000-01-01 24:00",
        "days since 2000-01-01 00:60",
        // Of these, xarray 2026.9 and cftime 1.6.6 make different times, or ignore a part.
        "days since 2000-01-01 00:00:00.1234567",
        "days since 2000-01-01 00:00 +5:30",
        "days since 2000-01-01 -6:00",
        "days since 2000-01-01 -6",
        "days since 2000-01-01 12",
        "days since 2000-01-01T12Z",
        "days since 2000-01-01  12:00",
        "days since 2000-01-01 12:00  -06:00",
        "days since 2000-01-01 +530",
        "days since 2000-01-01 +99:00",
        "days since -1-01-01",
        "fortnights since 2000-01-01",
        "",
    ] {
        assert_eq!(TimeUnits::parse(units, None), None, "{units}");
    }
    assert_eq!(TimeUnits::parse("days since 2000-01-01", Some("none")), None);
    assert_eq!(Calendar::of(Some(" Gregorian ")), Calendar::of(None));
}

#[test]
fn units_are_from_the_longest_to_the_shortest() {
    for pair in UNITS.windows(2) {
        assert_eq!(pair[0].nanoseconds % pair[1].nanoseconds, 0);
        assert!(pair[0].nanoseconds > pair[1].nanoseconds);
    }
}
