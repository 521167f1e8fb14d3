//! IEs that are a string of octets.

use crate::ie::{Ie, IeError, IeReader, IeType};
use crate::writer::{NoRoom, PfcpWriter};

macro_rules! octet_strings {
    ($( $(#[$doc:meta])* $name:ident, $type:ident, $min:literal; )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name<'a>(pub &'a [u8]);

        impl<'a> Ie<'a> for $name<'a> {
            const TYPE: IeType = IeType::$type;

            fn decode(value: &'a [u8]) -> Result<Self, IeError> {
                // The fixed part must be present. The value includes also the octets after it.
                IeReader::new(value).bytes($min).map(|_| Self(value))
            }

            fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
                w.bytes(self.0)
            }
        }
    )* };
}

octet_strings! {
    /// A network instance: text or DNS labels, as the peers agree. In an update, an empty one
    /// withdraws the network instance. Spec: TS 29.244 §8.2.4.
    NetworkInstance, NETWORK_INSTANCE, 0;
    /// Identifier of an application. Spec: TS 29.244 §8.2.6.
    ApplicationId, APPLICATION_ID, 0;
    /// Identifier of an application instance. Spec: TS 29.244 §8.2.60.
    ApplicationInstanceId, APPLICATION_INSTANCE_ID, 0;
    /// Name of predefined rules to activate. Spec: TS 29.244 §8.2.72.
    ActivatePredefinedRules, ACTIVATE_PREDEFINED_RULES, 0;
    /// Name of predefined rules to deactivate. Spec: TS 29.244 §8.2.73.
    DeactivatePredefinedRules, DEACTIVATE_PREDEFINED_RULES, 0;
    /// Framed-Route as in RADIUS, as text. Spec: TS 29.244 §8.2.109.
    FramedRoute, FRAMED_ROUTE, 0;
    /// Framed-IPv6-Route as in RADIUS, as text. Spec: TS 29.244 §8.2.111.
    FramedIpv6Route, FRAMED_IPV6_ROUTE, 0;
    /// APN or DNN as labels of RFC 1035, undecoded. Spec: TS 29.244 §8.2.117.
    ApnDnn, APN_DNN, 0;
    /// Identifier of a group of sessions. Spec: TS 29.244 §8.2.198.
    GroupId, GROUP_ID, 0;
    /// Data Network Access Identifier. Spec: TS 29.244 §8.2.161.
    DataNetworkAccessIdentifier, DATA_NETWORK_ACCESS_IDENTIFIER, 0;
    /// A spare octet and the FQDN of an SMF set as labels, undecoded. Spec: TS 29.244 §8.2.131.
    SmfSetId, SMF_SET_ID, 2;
    /// Report of another standards body, undecoded. Spec: TS 29.244 §8.2.217.
    VendorSpecificNodeReportType, VENDOR_SPECIFIC_NODE_REPORT_TYPE, 3;
}

impl NetworkInstance<'_> {
    /// True if this is the name `name`, encoded as text or as labels of RFC 1035. Ignores case.
    /// INTEROP: SMFs use either form for a name like a DNN.
    #[must_use]
    pub fn is_name(&self, name: &str) -> bool {
        self.0.eq_ignore_ascii_case(name.as_bytes()) || is_labels_of(self.0, name)
    }
}

fn is_labels_of(mut labels: &[u8], name: &str) -> bool {
    for part in name.split('.') {
        let Some((&len, rest)) = labels.split_first() else { return false };
        let Some((label, rest)) = rest.split_at_checked(usize::from(len)) else { return false };
        if !label.eq_ignore_ascii_case(part.as_bytes()) {
            return false;
        }
        labels = rest;
    }
    labels.is_empty() || labels == [0]
}

/// UUID of an NF instance. Spec: TS 29.244 §8.2.175.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NfInstanceId(pub [u8; 16]);

impl<'a> Ie<'a> for NfInstanceId {
    const TYPE: IeType = IeType::NF_INSTANCE_ID;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        IeReader::new(value).array().map(Self)
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.bytes(&self.0)
    }
}

/// Identifier of a pool of UE IP addresses, after a two-octet length. Spec: TS 29.244 §8.2.128.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UeIpAddressPoolIdentity<'a>(pub &'a [u8]);

impl<'a> Ie<'a> for UeIpAddressPoolIdentity<'a> {
    const TYPE: IeType = IeType::UE_IP_ADDRESS_POOL_IDENTITY;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        IeReader::new(value).bytes_len16().map(Self)
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.bytes_len16(self.0)
    }
}
