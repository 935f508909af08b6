//! Access to the values of a directory by tag, with checks of type and range.

use std::{borrow::Cow, collections::BTreeMap};

use super::tag;
use crate::{Error, Structure, model::Value};

/// Values of a directory by tag.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    /// Offset of the directory.
    pub(crate) offset: u64,
    /// Readable values.
    pub(crate) values: BTreeMap<u16, Value>,
    /// The second ImageDescription.
    pub(crate) second_description: Option<String>,
    /// Errors of the tags that could not be read.
    pub(crate) unreadable: BTreeMap<u16, Error>,
}

impl Fields {
    /// Creates a directory without values.
    pub(crate) fn empty(offset: u64) -> Self {
        Self { offset, values: BTreeMap::new(), second_description: None, unreadable: BTreeMap::new() }
    }

    /// Creates an error for a tag.
    pub(crate) fn malformed(&self, tag: u16, problem: impl Into<String>) -> Error {
        Error::malformed(Structure::Tag(tag), self.offset, problem)
    }

    /// Creates an error for a missing tag.
    pub(crate) fn missing(&self, tag: u16) -> Error {
        self.malformed(tag, "missing")
    }

    /// Returns a value, if the tag exists.
    pub(crate) fn value(&self, tag: u16) -> Result<Option<&Value>, Error> {
        match self.unreadable.get(&tag) {
            Some(error) => Err(error.clone()),
            None => Ok(self.values.get(&tag)),
        }
    }

    /// Returns non-negative integers of any width. Like libtiff, treats an empty value as absent, unless the layout of
    /// the image depends on the tag.
    pub(crate) fn integers(&self, tag: u16) -> Result<Option<Cow<'_, [u64]>>, Error> {
        let Some(value) = self.value(tag)? else { return Ok(None) };
        let numbers = match value {
            Value::Unsigned(numbers) => Cow::Borrowed(&numbers[..]),
            Value::Signed(numbers) => Cow::Owned(self.non_negative(tag, numbers)?),
            other => return Err(self.malformed(tag, format!("{}, expected integers", describe(other)))),
        };
        match numbers.is_empty() {
            true if tag::determines_layout(tag) => Err(self.malformed(tag, "no value, expected one")),
            true => Ok(None),
            false => Ok(Some(numbers)),
        }
    }

    /// Removes and returns non-negative integers; empty if the tag is absent.
    pub(crate) fn take_unsigned(&mut self, tag: u16) -> Result<Vec<u64>, Error> {
        self.value(tag)?;
        match self.values.remove(&tag) {
            None => Ok(Vec::new()),
            Some(Value::Unsigned(numbers)) if numbers.is_empty() => {
                Err(self.malformed(tag, "no value, expected one"))
            }
            Some(Value::Unsigned(numbers)) => Ok(numbers),
            Some(Value::Signed(numbers)) => self.non_negative(tag, &numbers),
            Some(other) => {
                Err(self.malformed(tag, format!("{}, expected unsigned integers", describe(&other))))
            }
        }
    }

    fn non_negative(&self, tag: u16, numbers: &[i64]) -> Result<Vec<u64>, Error> {
        let convert = |&number: &i64| {
            u64::try_from(number).map_err(|_| self.malformed(tag, format!("{number}, expected 0 or more")))
        };
        numbers.iter().map(convert).collect()
    }

    /// Returns non-negative integers of at most 16 bits.
    pub(crate) fn shorts(&self, tag: u16) -> Result<Option<Vec<u16>>, Error> {
        let Some(numbers) = self.integers(tag)? else { return Ok(None) };
        numbers.iter().map(|&number| self.narrow(tag, number)).collect::<Result<_, _>>().map(Some)
    }

    /// Returns one integer. Old writers repeat the compression for each sample, which is accepted if all are equal. libtiff
    /// ignores other tags with several values.
    pub(crate) fn integer(&self, tag: u16) -> Result<Option<u64>, Error> {
        let Some(numbers) = self.integers(tag)? else { return Ok(None) };
        match numbers.first() {
            Some(&first) if numbers.len() == 1 => Ok(Some(first)),
            Some(&first) if tag == tag::COMPRESSION && numbers.iter().all(|&number| number == first) => {
                Ok(Some(first))
            }
            _ => Err(self.malformed(tag, format!("{} values, expected 1", numbers.len()))),
        }
    }

    /// Returns whether a tag that must be 1 or 2, and is 1 by default, is 2.
    pub(crate) fn one_or_two(&self, tag: u16) -> Result<bool, Error> {
        match self.integer(tag)? {
            None | Some(1) => Ok(false),
            Some(2) => Ok(true),
            Some(other) => Err(self.malformed(tag, format!("{other}, expected 1 or 2"))),
        }
    }

    /// Returns one integer of the requested type.
    pub(crate) fn narrowed<T: TryFrom<u64>>(&self, tag: u16) -> Result<Option<T>, Error> {
        self.integer(tag)?.map(|number| self.narrow(tag, number)).transpose()
    }

    fn narrow<T: TryFrom<u64>>(&self, tag: u16, number: u64) -> Result<T, Error> {
        let problem = || self.malformed(tag, format!("{number}, out of range"));
        T::try_from(number).map_err(|_| problem())
    }

    /// Returns one number per sample: a single stored value applies to all, and `default` if there is none. Like
    /// libtiff, accepts more values than samples and rejects other counts.
    pub(crate) fn per_sample(&self, tag: u16, samples: u16, default: u16) -> Result<Vec<u16>, Error> {
        let wanted = usize::from(samples);
        let mut numbers = self.shorts(tag)?.unwrap_or_else(|| vec![default]);
        let first = numbers.first().copied().unwrap_or(default);
        if (2..wanted).contains(&numbers.len()) {
            let problem = format!("{} values, expected 1 or {samples}", numbers.len());
            return Err(self.malformed(tag, problem));
        }
        numbers.resize(wanted, first);
        Ok(numbers)
    }

    /// Returns numbers of any type as floats; `None` if the tag is absent or not numeric.
    #[expect(clippy::cast_precision_loss, reason = "rounds to the nearest, as libtiff does")]
    pub(crate) fn floats(&self, tag: u16) -> Option<Vec<f64>> {
        match self.values.get(&tag)? {
            Value::Unsigned(numbers) => Some(numbers.iter().map(|&number| number as f64).collect()),
            Value::Signed(numbers) => Some(numbers.iter().map(|&number| number as f64).collect()),
            Value::Float(numbers) => Some(numbers.clone()),
            Value::Rational(pairs) => {
                Some(pairs.iter().map(|&(over, under)| f64::from(over) / f64::from(under)).collect())
            }
            Value::SignedRational(pairs) => {
                Some(pairs.iter().map(|&(over, under)| f64::from(over) / f64::from(under)).collect())
            }
            _ => None,
        }
    }

    /// Returns the text of a tag, its strings joined by NULs. Bytes count as text.
    pub(crate) fn text(&self, tag: u16) -> Option<String> {
        match self.values.get(&tag)? {
            Value::Text(strings) => Some(strings.join("\0")),
            Value::Bytes(bytes) => Some(trimmed(bytes)),
            Value::Unsigned(numbers) => bytes(numbers).map(|bytes| trimmed(&bytes)),
            Value::Signed(numbers) => bytes(numbers).map(|bytes| trimmed(&bytes)),
            _ => None,
        }
    }
}

/// Returns the numbers as bytes, if all of them are.
fn bytes<T: Copy>(numbers: &[T]) -> Option<Vec<u8>>
where
    u8: TryFrom<T>,
{
    numbers.iter().map(|&number| u8::try_from(number).ok()).collect()
}

fn trimmed(bytes: &[u8]) -> String {
    super::value::to_utf8(bytes).trim_end_matches('\0').to_owned()
}

fn describe(value: &Value) -> &'static str {
    match value {
        Value::Unsigned(_) => "integers",
        Value::Signed(_) => "signed integers",
        Value::Float(_) => "floats",
        Value::Rational(_) | Value::SignedRational(_) => "rationals",
        Value::Text(_) => "text",
        Value::Bytes(_) => "undefined bytes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(value: Value) -> Fields {
        Fields { values: [(258, value)].into(), ..Fields::empty(8) }
    }

    /// libtiff converts any number, such as a ReferenceBlackWhite of LONG.
    #[test]
    fn numbers_of_any_type_are_floats() {
        assert_eq!(fields(Value::Unsigned(vec![16, 235])).floats(258), Some(vec![16.0, 235.0]));
        assert_eq!(fields(Value::Signed(vec![-1])).floats(258), Some(vec![-1.0]));
        assert_eq!(fields(Value::Text(vec![])).floats(258), None);
    }

    #[test]
    fn one_value_applies_to_all_samples() {
        let bits = |numbers: &[u64]| fields(Value::Unsigned(numbers.to_vec())).per_sample(258, 3, 1).ok();
        assert_eq!(bits(&[8]), Some(vec![8, 8, 8]));
        assert_eq!(bits(&[5, 6, 5, 9]), Some(vec![5, 6, 5]));
        assert_eq!(bits(&[8, 8]), None);
        assert_eq!(bits(&[5, 6]), None);
        assert_eq!(bits(&[]), None);
        assert_eq!(bits(&[70_000]), None);
    }

    /// libtiff ignores a FillOrder (266) with several values.
    #[test]
    fn only_compressions_are_repeated() {
        let integer = |tag, numbers: &[u64]| {
            let values = [(tag, Value::Unsigned(numbers.to_vec()))].into();
            Fields { values, ..Fields::empty(8) }.integer(tag)
        };
        assert_eq!((integer(266, &[2]).unwrap(), integer(259, &[5, 5]).unwrap()), (Some(2), Some(5)));
        assert!(integer(266, &[2, 2]).is_err() && integer(259, &[5, 1]).is_err());
    }

    #[test]
    fn empty_values_are_absent_unless_they_determine_the_layout() {
        let empty = |tag| Fields { values: [(tag, Value::Unsigned(vec![]))].into(), ..Fields::empty(8) };
        assert_eq!(empty(274).integer(274).unwrap(), None);
        let error = empty(284).integer(284).unwrap_err();
        assert_eq!(error.to_string(), "tag 284 (PlanarConfiguration) at 0x8: no value, expected one");
        // GDAL takes all strips of such a table for missing.
        assert!(empty(279).take_unsigned(279).is_err());
    }

    #[test]
    fn errors_name_wrong_types() {
        let error = fields(Value::Text(vec!["8".into()])).integer(258).unwrap_err();
        assert_eq!(error.to_string(), "tag 258 (BitsPerSample) at 0x8: text, expected integers");
        let error = fields(Value::Signed(vec![-1])).integer(258).unwrap_err();
        assert_eq!(error.to_string(), "tag 258 (BitsPerSample) at 0x8: -1, expected 0 or more");
        assert_eq!(fields(Value::Signed(vec![7])).integer(258).unwrap(), Some(7));
    }
}
