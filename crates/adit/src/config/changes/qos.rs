//! Compares `[qos]`: a reload can change a shared rate, but not which sessions share it.

use super::{ChangeEffect, ConfigComparison};
use crate::config::comparison::ComparedKey;
use crate::config::qos::{QosSection, SHARED, SLICES_FIXED, SliceSection};

impl ConfigComparison {
    pub(super) fn qos(&mut self, old: &QosSection, new: &QosSection) {
        self.shared_rate("qos.uplink.mbps_max", old.uplink.total, new.uplink.total);
        self.shared_rate("qos.downlink.mbps_max", old.downlink.total, new.downlink.total);
        let conditions = |of: &SliceSection| (of.s_nssai, of.network_instance.clone());
        if !old.slices.iter().map(conditions).eq(new.slices.iter().map(conditions)) {
            return self.key(ComparedKey::new("qos", "slice", SLICES_FIXED), "", "");
        }
        for (number, (old, new)) in old.slices.iter().zip(&new.slices).enumerate() {
            let key = |direction| format!("qos.slice[{number}].{direction}_mbps_max");
            self.shared_rate(&key("uplink"), old.uplink, new.uplink);
            self.shared_rate(&key("downlink"), old.downlink, new.downlink);
        }
    }

    /// Compares a rate that sessions share; `None` is no limit. Unit: Mb/s.
    fn shared_rate(&mut self, key: &str, old: Option<u64>, new: Option<u64>) {
        match (old, new) {
            (Some(old), Some(new)) if old != new => {
                self.note(key, ChangeEffect::Plain, format!("{new} Mb/s, was {old} Mb/s"));
            }
            (Some(_), None) | (None, Some(_)) => self.refuse(key, format!("{SHARED}; restart it")),
            _ => {}
        }
    }
}
