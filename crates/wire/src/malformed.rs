//! The only error type of this crate: why octets are malformed.

/// Why octets cannot be parsed or written. Lengths saturate at 65,535.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Fewer octets than the header needs.
    Truncated {
        /// Octets that the header needs.
        need: u16,
        /// Octets present.
        have: u16,
    },
    /// The version is not the expected one (IP: 4 or 6; GTP: 1 with protocol type 1). The value is
    /// the version field, or for GTP the four bits of version and protocol type.
    BadVersion(u8),
    /// A length field contradicts the header or the octets present.
    BadLength {
        /// Value of the length field, in octets.
        claimed: u16,
        /// The length that the field contradicts, in octets.
        have: u16,
    },
    /// A checksum does not match.
    BadChecksum,
    /// A fixed field or a type has a value that is invalid in this header.
    BadField(u8),
    /// An extension header, of this IPv6 or GTP-U type, has an invalid length or content.
    BadExtension(u8),
    /// More extension headers than `adit_types::limits` allows.
    TooManyExtensions,
    /// An information element of this type has an invalid length, or is unknown and has no length
    /// field.
    BadIe(u8),
    /// A mandatory information element, of this type, is absent.
    MissingIe(u8),
}

const _: () = assert!(size_of::<Malformed>() <= 8);

impl Malformed {
    #[cold]
    pub(crate) fn truncated(need: usize, have: usize) -> Self {
        Self::Truncated { need: saturate(need), have: saturate(have) }
    }

    #[cold]
    pub(crate) fn bad_length(claimed: usize, have: usize) -> Self {
        Self::BadLength { claimed: saturate(claimed), have: saturate(have) }
    }
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Truncated { need, have } => write!(f, "truncated: {have} of {need} octets"),
            Self::BadVersion(version) => write!(f, "version {version} is not supported"),
            Self::BadLength { claimed, have } => {
                write!(f, "length {claimed} against {have} octets")
            }
            Self::BadChecksum => f.write_str("checksum does not match"),
            Self::BadField(value) => write!(f, "field value {value} is not possible"),
            Self::BadExtension(kind) => write!(f, "extension header 0x{kind:02x} is malformed"),
            Self::TooManyExtensions => f.write_str("too many extension headers"),
            Self::BadIe(kind) => write!(f, "information element {kind} is malformed"),
            Self::MissingIe(kind) => write!(f, "information element {kind} is missing"),
        }
    }
}

impl core::error::Error for Malformed {}

fn saturate(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}
