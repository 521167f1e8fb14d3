//! `[qos]`: rates change in their places; which rates sessions share does not.

use adit_rules::Excess;
use adit_session::{Enforcement, QosPolicy, Rates, Slice};
use adit_types::{BitRate, Nanos};

use super::{ChangeEffect, ConfigComparison};

impl ConfigComparison {
    pub(super) fn qos(&mut self, old: &QosPolicy, new: &QosPolicy) {
        let QosPolicy { uplink, downlink, burst, shaping_burst, gbr_max, total, slices } = old;
        self.enforcement("qos.uplink", *uplink, new.uplink);
        self.enforcement("qos.downlink", *downlink, new.downlink);
        let micros = |of: &Nanos| format!("{} µs", of.0 / 1000);
        self.value("qos.burst_ms", ChangeEffect::Rules, burst, &new.burst, micros);
        let shaping = &new.shaping_burst;
        self.value("qos.shaping_burst_us", ChangeEffect::Rules, shaping_burst, shaping, micros);
        let plain = ChangeEffect::Plain;
        self.value("qos.uplink.gbr_mbps_max", plain, &gbr_max.uplink, &new.gbr_max.uplink, rate);
        let key = "qos.downlink.gbr_mbps_max";
        self.value(key, plain, &gbr_max.downlink, &new.gbr_max.downlink, rate);
        let keys = ["qos.uplink.mbps_max", "qos.downlink.mbps_max"];
        self.shared_rates(keys.map(String::from), *total, new.total);
        let conditions = |of: &Slice| (of.s_nssai, of.network_instance.clone());
        if !slices.iter().map(conditions).eq(new.slices.iter().map(conditions)) {
            let why = "sessions belong to slices by their order and conditions; restart adit to change these";
            return self.refuse("qos.slice", why);
        }
        for (number, (old, new)) in slices.iter().zip(&new.slices).enumerate() {
            let Slice { s_nssai: _, network_instance: _, rates } = old;
            let keys = ["uplink_mbps_max", "downlink_mbps_max"];
            self.shared_rates(
                keys.map(|key| format!("qos.slice[{number}].{key}")),
                *rates,
                new.rates,
            );
        }
    }

    fn enforcement(&mut self, section: &str, old: Enforcement, new: Enforcement) {
        let Enforcement { gbr, flow, session, shared } = old;
        let excess = |of: &Excess| match of {
            Excess::Policed => "drop".to_owned(),
            Excess::Shaped => "wait".to_owned(),
        };
        for (key, old, new) in [
            ("gbr", gbr, new.gbr),
            ("flow", flow, new.flow),
            ("session", session, new.session),
            ("shared", shared, new.shared),
        ] {
            self.value(&format!("{section}.{key}"), ChangeEffect::Rules, &old, &new, excess);
        }
    }

    /// Rates that sessions share, uplink and downlink.
    fn shared_rates(&mut self, keys: [String; 2], old: Rates, new: Rates) {
        let directions = [(old.uplink, new.uplink), (old.downlink, new.downlink)];
        for (key, (old, new)) in keys.into_iter().zip(directions) {
            if is_limit(old) != is_limit(new) {
                let why = "workers are made with the limits of the start: a running adit changes the rate of a limit, and \
                           does not add or remove one; restart it";
                self.refuse(key, why);
            } else {
                self.value(&key, ChangeEffect::Plain, &old, &new, rate);
            }
        }
    }
}

fn is_limit(rate: BitRate) -> bool {
    rate != BitRate::from_bps(u64::MAX)
}

fn rate(of: &BitRate) -> String {
    match is_limit(*of) {
        true => format!("{} Mb/s", of.as_bps() / 1_000_000),
        false => "no limit".to_owned(),
    }
}
