//! What the table holds about each codec.

use serde_json::{Map, Value, json};

use super::{CodecKind, Implementation, TABLE};
use crate::{
    Codec, DataType, Endian, ZarrFormat,
    chunk_reader::{Need, Reader},
};

/// An entry of the table. The constructors ([`Definition::array_to_array`], …) set what is common to codecs of a kind;
/// each codec's file overrides the rest.
pub(crate) struct Definition {
    /// Registered names, which are the same in both formats but for the prefix of [`Registry::Numcodecs`]. More than
    /// one where codecs differ in nothing else.
    pub(crate) names: &'static [&'static str],
    /// Names of v3 that are parsed and never written.
    pub(crate) v3_aliases: &'static [&'static str],
    /// Where the names are registered.
    pub(crate) registry: Registry,
    /// Input and output.
    pub(crate) kind: CodecKind,
    /// Whether v3 has it as array → bytes, in place of `bytes`, where v2 has it as a filter.
    pub(crate) replaces_bytes: bool,
    /// Whether it computes with the values of numbers.
    pub(crate) is_arithmetic: bool,
    /// What `crates/codec` implements.
    pub(crate) implementation: Implementation,
    /// Encodes the configuration for a format: an object, or `Null` where v3's entry has no member `configuration`.
    /// `None` where the format cannot express it.
    pub(crate) configuration: fn(&Codec, ZarrFormat) -> Option<Value>,
    /// Parses a document's entry; `None` where it does not fit the codec's model.
    pub(crate) parse: fn(&Encoded<'_>) -> Option<Codec>,
    /// Members of a configuration that a parsed codec may encode in another way, because they are of no effect or
    /// because [`Definition::parse`] checks them. All others must come out as they were; else the entry is
    /// [`Codec::Foreign`].
    pub(crate) unchecked_members: &'static [&'static str],
    /// Effect on the number of bytes.
    pub(crate) encoded_length: EncodedLength,
    /// Whether a prefix of encoded bytes decodes to a prefix of what all of them decode to.
    pub(crate) decodes_prefixes: bool,
    /// Largest expansion of a chunk that clients decode, in decoded bytes per stored byte.
    pub(crate) max_client_ratio: Option<u64>,
    /// Sets the parameters that only v2 encodes, by the data type (a NumPy string) and the shape of the chunk at the
    /// codec's position of the chain.
    pub(crate) complete: fn(&mut Codec, Option<&str>, &[u64]),
    /// The codec's name and configuration in the Python package `virtualize`; `None` for codecs that zarr-python or
    /// numcodecs decode, and for those that are not decoded here.
    pub(crate) own: Option<OwnName>,
    /// Adapts the parameters to chunks with so many more axes of length 1 in front.
    pub(crate) add_leading_axes: fn(&mut Codec, usize),
    /// Whether only encoders need the configuration: streams hold all that decoding them takes.
    pub(crate) is_self_describing: bool,
    /// Readers other than zarr-python that decode it. zarr-python's support follows from the registry.
    pub(crate) readers: &'static [Reader],
    /// What zarr-python needs besides what the registry implies.
    pub(crate) zarr_python_needs: Option<Need>,
    /// Why a reader of [`Definition::readers`] refuses this use of it.
    pub(crate) limitation: fn(&CodecUse<'_>, Reader) -> Option<String>,
    /// Describes what it does, in words for a message.
    pub(crate) describe: fn(&Codec) -> String,
    /// Codecs that tests encode, parse, convert and decode.
    pub(crate) examples: fn() -> Vec<Codec>,
}

/// A codec as the Python package `virtualize` registers it: always bytes → bytes, with the same name and configuration in
/// Zarr v2 and v3, and with all parameters that its decoder needs ([`Codec::Own`]).
pub(crate) struct OwnName {
    /// Registered name, which starts with [`OwnName::PREFIX`].
    pub(crate) name: &'static str,
    /// Encodes the configuration: an object, or `Null` for none. `None` where the parameters make no sense.
    pub(crate) configuration: fn(&Codec) -> Option<Value>,
    /// Parses a document's entry into the codec, which is not [`Codec::Own`].
    pub(crate) parse: fn(&Encoded<'_>) -> Option<Codec>,
}

impl OwnName {
    /// Prefix of all names of the package.
    pub(crate) const PREFIX: &str = "virtualize.";

    /// Returns the registered codec of a name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        TABLE.iter().filter_map(|definition| definition.own.as_ref()).find(|own| own.name == name)
    }

    /// A codec without parameters.
    pub(super) const fn plain(name: &'static str, parse: fn(&Encoded<'_>) -> Option<Codec>) -> Self {
        Self { name, configuration: |_| Some(Value::Null), parse }
    }
}

/// Effect of encoding on the number of bytes.
#[derive(Clone, Copy)]
pub(crate) enum EncodedLength {
    /// None.
    Same,
    /// So many bytes more.
    Longer(u64),
    /// Computed from the configuration and the number of bytes; `None` where it passes 64 bits.
    Computed(fn(&Codec, u64) -> Option<u64>),
    /// Depends on the content.
    Varies,
}

/// Where a codec's names are registered, which decides how v3 spells them and what zarr-python needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Registry {
    /// The Zarr v3 specification and zarr-extensions.
    Core,
    /// numcodecs: v2 uses the bare name, v3 the prefix `numcodecs.`.
    Numcodecs,
    /// imagecodecs, whose names start with `imagecodecs_` in both formats.
    Imagecodecs,
    /// None: no client knows it.
    Internal,
    /// Any: [`Codec::Foreign`].
    Unknown,
}

impl Registry {
    /// Prefix of numcodecs' names in v3.
    pub(crate) const NUMCODECS_PREFIX: &str = "numcodecs.";

    /// Returns a registered name as v3 writes it.
    pub(crate) fn v3_name(self, name: &str) -> String {
        match self {
            Self::Numcodecs => format!("{}{name}", Self::NUMCODECS_PREFIX),
            _ => name.to_owned(),
        }
    }
}

impl Definition {
    const fn new(kind: CodecKind, registry: Registry, names: &'static [&'static str]) -> Self {
        Self {
            names,
            v3_aliases: &[],
            registry,
            kind,
            replaces_bytes: false,
            is_arithmetic: false,
            implementation: Implementation::Complete,
            configuration: |_, _| Some(Value::Null),
            parse: |_| None,
            unchecked_members: &[],
            encoded_length: EncodedLength::Same,
            decodes_prefixes: false,
            max_client_ratio: None,
            complete: |_, _, _| {},
            own: None,
            add_leading_axes: |_, _| {},
            is_self_describing: false,
            readers: &[],
            zarr_python_needs: None,
            limitation: |_, _| None,
            describe: |codec| codec.name().unwrap_or_default().to_owned(),
            examples: Vec::new,
        }
    }

    /// An array → array codec, which keeps the number of bytes.
    pub(super) const fn array_to_array(registry: Registry, names: &'static [&'static str]) -> Self {
        Self { decodes_prefixes: true, ..Self::new(CodecKind::ArrayToArray, registry, names) }
    }

    /// An array → bytes codec that writes elements one after another.
    pub(super) const fn array_to_bytes(registry: Registry, names: &'static [&'static str]) -> Self {
        Self { decodes_prefixes: true, ..Self::new(CodecKind::ArrayToBytes, registry, names) }
    }

    /// An array → bytes codec of a client, not implemented here.
    pub(super) const fn image(names: &'static [&'static str]) -> Self {
        Self {
            implementation: Implementation::None,
            encoded_length: EncodedLength::Varies,
            ..Self::new(CodecKind::ArrayToBytes, Registry::Imagecodecs, names)
        }
    }

    /// A bytes → bytes codec that keeps the number of bytes.
    pub(super) const fn bytes_to_bytes(registry: Registry, names: &'static [&'static str]) -> Self {
        Self::new(CodecKind::BytesToBytes, registry, names)
    }

    /// A bytes → bytes codec whose output depends on the content in length.
    pub(super) const fn compressor(registry: Registry, names: &'static [&'static str]) -> Self {
        Self { encoded_length: EncodedLength::Varies, ..Self::bytes_to_bytes(registry, names) }
    }

    /// A bytes → bytes codec that neither format can express; chunks are decoded here.
    pub(super) const fn internal() -> Self {
        Self {
            configuration: |_, _| None,
            implementation: Implementation::DecoderOnly,
            ..Self::compressor(Registry::Internal, &[])
        }
    }
}

/// The use of a codec in an array, from which its [`Definition::limitation`] decides.
pub(crate) struct CodecUse<'a> {
    pub(crate) format: ZarrFormat,
    /// The name as it is written.
    pub(crate) full_name: &'a str,
    pub(crate) configuration: &'a Value,
    /// Bytes per stored element; `None` for those of variable length.
    pub(crate) element_size: Option<u64>,
}

/// The entry of a codec in a metadata document.
pub(crate) struct Encoded<'a> {
    /// Name of the definition that matches.
    pub(crate) name: &'static str,
    pub(crate) format: ZarrFormat,
    /// v2: the whole entry; v3: its member `configuration`.
    pub(crate) members: &'a Map<String, Value>,
    /// Type of the array's elements.
    pub(crate) data_type: &'a DataType,
}

/// Adapts axis and shape of a predictor to chunks with so many more axes of length 1 in front.
pub(super) fn add_leading_axes(axis: &mut isize, shape: &mut Vec<u64>, count: usize) {
    if *axis >= 0 {
        *axis = axis.saturating_add(isize::try_from(count).unwrap_or(0));
    }
    shape.splice(..0, std::iter::repeat_n(1, count));
}

/// Rows along which a predictor runs, as its configuration in the Python package `virtualize` describes them.
pub(super) struct Rows {
    /// Elements along the axis.
    length: u64,
    /// Distance in elements between neighbours along the axis.
    stride: u64,
}

impl Rows {
    /// Returns the rows along an axis of a shape; negative axes count from the end.
    pub(super) fn of(axis: isize, shape: &[u64]) -> Option<Self> {
        let at = if axis < 0 { shape.len().checked_add_signed(axis)? } else { usize::try_from(axis).ok()? };
        let (length, inner) = shape.get(at..)?.split_first()?;
        let stride = inner.iter().try_fold(1_u64, |stride, n| stride.checked_mul(*n))?;
        Some(Self { length: *length, stride })
    }

    pub(super) fn parse(encoded: &Encoded<'_>) -> Option<Self> {
        Some(Self { length: encoded.get("length")?.as_u64()?, stride: encoded.get("stride")?.as_u64()? })
    }

    pub(super) fn axis_and_shape(&self) -> (isize, Vec<u64>) {
        (-2, vec![self.length, self.stride])
    }

    #[expect(clippy::unnecessary_wraps, reason = "as a definition returns it")]
    pub(super) fn configuration(&self, dtype: &str) -> Option<Value> {
        Some(json!({"dtype": dtype, "length": self.length, "stride": self.stride}))
    }
}

impl Encoded<'_> {
    pub(super) fn get(&self, member: &str) -> Option<&Value> {
        self.members.get(member)
    }

    /// Returns a whole number, where it fits the type.
    pub(super) fn number<T: TryFrom<i64>>(&self, member: &str) -> Option<T> {
        T::try_from(self.get(member)?.as_i64()?).ok()
    }

    pub(super) fn text(&self, member: &str) -> Option<&str> {
        self.get(member)?.as_str()
    }

    /// Returns an optional flag, `false` where it is missing.
    pub(super) fn flag(&self, member: &str) -> bool {
        self.get(member).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Returns the element type as a NumPy string: v2 encodes it, for v3 it is the array's.
    pub(super) fn dtype(&self) -> Option<String> {
        match self.format {
            ZarrFormat::V2 => self.text("dtype").map(str::to_owned),
            ZarrFormat::V3 => Some(self.data_type.to_v2(Endian::Little).ok()?.as_str()?.to_owned()),
        }
    }

    /// Returns the shape of the chunk, slowest axis first: v2 encodes it, in v3 the chunk grid does.
    pub(super) fn shape(&self) -> Option<Vec<u64>> {
        match self.format {
            ZarrFormat::V2 => self.get("shape")?.as_array()?.iter().map(Value::as_u64).collect(),
            ZarrFormat::V3 => Some(Vec::new()),
        }
    }

    /// Whether the member `dist` of a predictor is absent or 1, the only distance that is modelled.
    pub(super) fn has_unit_distance(&self) -> bool {
        self.get("dist").is_none_or(|dist| dist.is_null() || dist.as_u64() == Some(1))
    }

    /// Returns all members of a configuration, as they are.
    pub(super) fn configuration(&self) -> Map<String, Value> {
        let mut members = self.members.clone();
        members.remove("id");
        members
    }
}
