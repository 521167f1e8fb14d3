//! Node ID: an IPv4 address, an IPv6 address, or an FQDN. Spec: TS 29.244 §8.2.38.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ie::{Ie, IeError, IeReader, IeType};
use crate::writer::{NoRoom, PfcpWriter};

/// The longest name on the wire. Unit: octets. Spec: RFC 1035 §2.3.4.
const FQDN_LEN_MAX: usize = 255;
/// The longest label. Unit: octets. Spec: RFC 1035 §2.3.4.
const LABEL_LEN_MAX: usize = 63;

/// A fully qualified domain name. Names are compared label by label, ignoring case.
#[derive(Clone, Copy)]
pub struct Fqdn<'a>(FqdnForm<'a>);

#[derive(Clone, Copy)]
enum FqdnForm<'a> {
    /// Labels of RFC 1035 §3.1 without the trailing zero octet.
    Labels(&'a [u8]),
    /// Text with dots.
    Text(&'a str),
}

impl<'a> Fqdn<'a> {
    /// Parses the name in `text`. `None` unless it consists of one or more labels of 1 to 63
    /// octets, and has at most 255 octets on the wire.
    #[must_use]
    pub fn from_text(text: &'a str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let fits = text.split('.').all(|label| (1..=LABEL_LEN_MAX).contains(&label.len()));
        (fits && text.len() + 1 < FQDN_LEN_MAX).then_some(Self(FqdnForm::Text(text)))
    }

    /// Parses a name encoded as labels; a trailing zero octet is accepted.
    fn from_labels(octets: &'a [u8]) -> Option<Self> {
        let mut rest = octets;
        while let Some((&len, after)) = rest.split_first() {
            if len == 0 && after.is_empty() {
                break;
            }
            let len = usize::from(len);
            if !(1..=LABEL_LEN_MAX).contains(&len) {
                return None;
            }
            rest = after.get(len..)?;
        }
        let labels = octets.get(..octets.len() - rest.len())?;
        (!labels.is_empty() && labels.len() < FQDN_LEN_MAX)
            .then_some(Self(FqdnForm::Labels(labels)))
    }

    /// Returns the labels, the most specific one first.
    pub fn labels(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut form = Some(self.0);
        core::iter::from_fn(move || match form? {
            FqdnForm::Text(text) => {
                let (label, rest) =
                    text.split_once('.').map_or((text, None), |(l, r)| (l, Some(r)));
                form = rest.map(FqdnForm::Text);
                Some(label.as_bytes())
            }
            FqdnForm::Labels(octets) => {
                let (len, rest) = octets.split_first()?;
                let (label, rest) = rest.split_at_checked(usize::from(*len))?;
                form = Some(FqdnForm::Labels(rest));
                Some(label)
            }
        })
    }
}

impl PartialEq for Fqdn<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (mut a, mut b) = (self.labels(), other.labels());
        loop {
            match (a.next(), b.next()) {
                (None, None) => return true,
                (Some(a), Some(b)) if a.eq_ignore_ascii_case(b) => {}
                _ => return false,
            }
        }
    }
}

impl Eq for Fqdn<'_> {}

impl fmt::Display for Fqdn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, label) in self.labels().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { "." }, label.escape_ascii())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fqdn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fqdn({self})")
    }
}

/// Identity of a PFCP node. Spec: TS 29.244 §8.2.38.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeId<'a> {
    /// An IPv4 address (type 0).
    Ipv4(Ipv4Addr),
    /// An IPv6 address (type 1).
    Ipv6(Ipv6Addr),
    /// A domain name (type 2).
    Fqdn(Fqdn<'a>),
}

impl From<IpAddr> for NodeId<'_> {
    fn from(addr: IpAddr) -> Self {
        match addr {
            IpAddr::V4(addr) => Self::Ipv4(addr),
            IpAddr::V6(addr) => Self::Ipv6(addr),
        }
    }
}

impl fmt::Display for NodeId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ipv4(addr) => addr.fmt(f),
            Self::Ipv6(addr) => addr.fmt(f),
            Self::Fqdn(name) => name.fmt(f),
        }
    }
}

impl<'a> Ie<'a> for NodeId<'a> {
    const TYPE: IeType = IeType::NODE_ID;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        match r.u8()? & 0x0f {
            0 => Ok(Self::Ipv4(Ipv4Addr::from(r.array::<4>()?))),
            1 => Ok(Self::Ipv6(Ipv6Addr::from(r.array::<16>()?))),
            2 if r.rest().is_empty() => Err(IeError::Length),
            2 => Fqdn::from_labels(r.rest()).map(Self::Fqdn).ok_or(IeError::Value),
            _ => Err(IeError::Value),
        }
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        match self {
            Self::Ipv4(addr) => {
                w.u8(0)?;
                w.bytes(&addr.octets())
            }
            Self::Ipv6(addr) => {
                w.u8(1)?;
                w.bytes(&addr.octets())
            }
            Self::Fqdn(name) => {
                w.u8(2)?;
                name.labels().try_for_each(|label| w.bytes_len8(label))
            }
        }
    }
}
