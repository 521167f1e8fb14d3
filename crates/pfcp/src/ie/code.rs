//! IEs that are one code point in one octet.

/// Defines IEs of one code point; `mask` selects its bits, and the other bits are spare.
macro_rules! code_points {
    ($( $(#[$doc:meta])* $name:ident, $type:ident, mask $mask:literal {
        $( $code:literal $variant:ident $text:literal, )*
    } )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $( #[doc = $text] $variant, )*
            /// A code point that has no name in Release 17.
            Unknown(u8),
        }

        impl $name {
            /// Returns the value of a code point.
            #[must_use]
            pub const fn from_code(code: u8) -> Self {
                match code {
                    $( $code => Self::$variant, )*
                    other => Self::Unknown(other),
                }
            }

            /// The code point.
            #[must_use]
            pub const fn code(self) -> u8 {
                match self {
                    $( Self::$variant => $code, )*
                    Self::Unknown(code) => code,
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    $( Self::$variant => f.write_str($text), )*
                    Self::Unknown(code) => write!(f, "unknown ({code})"),
                }
            }
        }

        impl<'a> $crate::ie::Ie<'a> for $name {
            const TYPE: $crate::ie::IeType = $crate::ie::IeType::$type;

            fn decode(value: &'a [u8]) -> Result<Self, $crate::ie::IeError> {
                let code = *value.first().ok_or($crate::ie::IeError::Length)?;
                Ok(Self::from_code(code & $mask))
            }

            fn encode(&self, w: &mut $crate::writer::PfcpWriter<'_>)
                -> Result<(), $crate::writer::NoRoom>
            {
                w.u8(self.code() & $mask)
            }
        }
    )* };
}

pub(crate) use code_points;

code_points! {
    /// The interface that packets come from. Spec: TS 29.244 §8.2.2.
    SourceInterface, SOURCE_INTERFACE, mask 0x0f {
        0 Access "Access",
        1 Core "Core",
        2 SgiLanN6Lan "SGi-LAN/N6-LAN",
        3 CpFunction "CP-function",
        4 FivegVnInternal "5G VN Internal",
    }

    /// The interface that packets are sent to. Spec: TS 29.244 §8.2.24.
    DestinationInterface, DESTINATION_INTERFACE, mask 0x0f {
        0 Access "Access",
        1 Core "Core",
        2 SgiLanN6Lan "SGi-LAN/N6-LAN",
        3 CpFunction "CP-function",
        4 LiFunction "LI Function",
        5 FivegVnInternal "5G VN Internal",
    }

    /// Type of the PDN connection or PDU session. Spec: TS 29.244 §8.2.79.
    PdnType, PDN_TYPE, mask 0x07 {
        1 Ipv4 "IPv4",
        2 Ipv6 "IPv6",
        3 Ipv4v6 "IPv4v6",
        4 NonIp "Non-IP",
        5 Ethernet "Ethernet",
    }

    /// The 3GPP reference point of an interface. Spec: TS 29.244 §8.2.118.
    InterfaceType, TGPP_INTERFACE_TYPE, mask 0x3f {
        0 S1U "S1-U",
        1 S5S8U "S5/S8-U",
        2 S4U "S4-U",
        3 S11U "S11-U",
        4 S12U "S12-U",
        5 GnGpU "Gn/Gp-U",
        6 S2aU "S2a-U",
        7 S2bU "S2b-U",
        8 EnodebDlForwarding "eNodeB GTP-U interface for DL data forwarding",
        9 EnodebUlForwarding "eNodeB GTP-U interface for UL data forwarding",
        10 SgwUpfDlForwarding "SGW/UPF GTP-U interface for DL data forwarding",
        11 N3Access "N3 3GPP Access",
        12 N3TrustedNon3gpp "N3 Trusted Non-3GPP Access",
        13 N3UntrustedNon3gpp "N3 Untrusted Non-3GPP Access",
        14 N3DataForwarding "N3 for data forwarding",
        15 N9 "N9",
        16 Sgi "SGi",
        17 N6 "N6",
        18 N19 "N19",
        19 S8U "S8-U",
        20 GpU "Gp-U",
        21 N9Roaming "N9 for roaming",
        22 IuU "Iu-U",
        23 N9DataForwarding "N9 for data forwarding",
        24 SxaU "Sxa-U",
        25 SxbU "Sxb-U",
        26 SxcU "Sxc-U",
        27 N4U "N4-U",
        28 SgwUpfUlForwarding "SGW/UPF GTP-U interface for UL data forwarding",
        29 N6mbNmb9 "N6mb/Nmb9",
        30 N3mb "N3mb",
        31 N19mb "N19mb",
    }

    /// Radio access technology. Spec: TS 29.244 §8.2.186.
    RatType, RAT_TYPE, mask 0xff {
        1 Utran "UTRAN",
        2 Geran "GERAN",
        3 Wlan "WLAN",
        4 Gan "GAN",
        5 HspaEvolution "HSPA Evolution",
        6 Eutran "EUTRAN (WB-E-UTRAN)",
        7 Virtual "Virtual",
        8 EutranNbIot "EUTRAN-NB-IoT",
        9 LteM "LTE-M",
        10 Nr "NR",
    }
}

/// Framed-Routing as in RADIUS, four octets. Spec: TS 29.244 §8.2.110; RFC 2865 §5.10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FramedRouting(pub u32);
