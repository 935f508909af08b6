//! A reader with the packages and settings that its user has: `zarr-python+imagecodecs`.

use std::{fmt, str::FromStr};

use super::{Compatibility, Need, Reader};

/// A reader with the packages and settings that are available to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// The reader.
    pub reader: Reader,
    /// Available packages and settings.
    pub has: Vec<Need>,
}

/// Text that names no reader.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected {}", self.expected())]
pub struct ClientError;

impl ClientError {
    /// Returns what a reader is, as a noun phrase.
    pub fn expected(&self) -> &'static str {
        "virtualize, zarr-python, zarrs, zarrita or gdal, each with + and what it has: numcodecs, imagecodecs, cast-value-rs, \
         array.rectilinear_chunks or Float16Array"
    }
}

impl Client {
    /// Returns why it does not decode an array; `None` if it does. `compatibility` is that of its reader.
    pub fn obstacle(&self, compatibility: &Compatibility) -> Option<String> {
        match compatibility {
            Compatibility::Yes => None,
            Compatibility::No(because) => Some(because.clone()),
            Compatibility::Needs(needs) => {
                let missing: Vec<_> = needs.iter().filter(|need| !self.has.contains(need)).collect();
                let names: Vec<_> = missing.into_iter().map(|need| need.name()).collect();
                (!names.is_empty()).then(|| format!("needs {}", names.join(" and ")))
            }
        }
    }
}

/// Parses `reader+need+…`, ignoring case. imagecodecs brings numcodecs.
impl FromStr for Client {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('+').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let reader = Reader::ALL.into_iter().find(|reader| reader.name().eq_ignore_ascii_case(name));
        let need = |name: &str| Need::ALL.into_iter().find(|need| need.name().eq_ignore_ascii_case(name));
        let mut has = parts.map(|name| need(name).ok_or(ClientError)).collect::<Result<Vec<_>, _>>()?;
        if has.contains(&Need::Imagecodecs) {
            has.push(Need::Numcodecs);
        }
        has.sort_unstable();
        has.dedup();
        Ok(Self { reader: reader.ok_or(ClientError)?, has })
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reader)?;
        self.has.iter().try_for_each(|need| write!(f, "+{}", need.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_readers_with_what_they_have() {
        let client: Client = "zarr-python+imagecodecs".parse().unwrap();
        assert_eq!(client.has, [Need::Numcodecs, Need::Imagecodecs]);
        assert_eq!(client.obstacle(&Compatibility::Needs(vec![Need::Numcodecs])), None);
        assert_eq!("zarrita+float16array".parse::<Client>().unwrap().has, [Need::Float16Array]);
        let alone: Client = "zarr-python".parse().unwrap();
        assert_eq!(alone.obstacle(&Compatibility::Needs(vec![Need::Numcodecs])).unwrap(), "needs numcodecs");
        for text in ["", "xarray", "zarrs+", "zarrs+zarr"] {
            assert_eq!(text.parse::<Client>(), Err(ClientError), "{text}");
        }
    }
}
