//! Volumes: thresholds, quotas and measurements.

use crate::ie::{Ie, IeError, IeReader, IeType};
use crate::writer::{NoRoom, PfcpWriter};

/// Defines IEs of one octet of presence flags, and eight octets per present field, in flag order.
macro_rules! volumes {
    ($( $(#[$doc:meta])* $name:ident, $type:ident {
        $( $(#[$fdoc:meta])* $field:ident $bit:literal, )*
    } )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name {
            $( $(#[$fdoc])* pub $field: Option<u64>, )*
        }

        impl<'a> Ie<'a> for $name {
            const TYPE: IeType = IeType::$type;

            fn decode(value: &'a [u8]) -> Result<Self, IeError> {
                let mut r = IeReader::new(value);
                let flags = r.u8()?;
                Ok(Self { $( $field: r.when(flags & (1 << $bit) != 0, IeReader::u64)?, )* })
            }

            fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
                w.u8(0 $( | u8::from(self.$field.is_some()) << $bit )*)?;
                $( self.$field.map_or(Ok(()), |v| w.u64(v))?; )*
                Ok(())
            }
        }
    )* };
}

macro_rules! three_volumes {
    ($( $(#[$doc:meta])* $name:ident, $type:ident; )*) => { volumes! { $(
        $(#[$doc])*
        $name, $type {
            /// TOVOL: both directions. Unit: octets.
            total 0,
            /// ULVOL: uplink. Unit: octets.
            uplink 1,
            /// DLVOL: downlink. Unit: octets.
            downlink 2,
        }
    )* } };
}

three_volumes! {
    /// Volume that triggers a report. Spec: TS 29.244 §8.2.13.
    VolumeThreshold, VOLUME_THRESHOLD;
    /// Volume that may be used. Spec: TS 29.244 §8.2.50.
    VolumeQuota, VOLUME_QUOTA;
    /// Volume threshold after the monitoring time. Spec: TS 29.244 §8.2.16.
    SubsequentVolumeThreshold, SUBSEQUENT_VOLUME_THRESHOLD;
    /// Volume quota after the monitoring time. Spec: TS 29.244 §8.2.86.
    SubsequentVolumeQuota, SUBSEQUENT_VOLUME_QUOTA;
}

volumes! {
    /// Volume that was measured. Spec: TS 29.244 §8.2.44.
    VolumeMeasurement, VOLUME_MEASUREMENT {
        /// TOVOL: both directions. Unit: octets.
        total 0,
        /// ULVOL: uplink. Unit: octets.
        uplink 1,
        /// DLVOL: downlink. Unit: octets.
        downlink 2,
        /// TONOP: both directions. Unit: packets.
        total_packets 3,
        /// ULNOP: uplink. Unit: packets.
        uplink_packets 4,
        /// DLNOP: downlink. Unit: packets.
        downlink_packets 5,
    }

    /// Dropped downlink traffic that triggers a report. Spec: TS 29.244 §8.2.49.
    DroppedDlTrafficThreshold, DROPPED_DL_TRAFFIC_THRESHOLD {
        /// DLPA. Unit: packets.
        packets 0,
        /// DLBY. Unit: octets.
        bytes 1,
    }
}
