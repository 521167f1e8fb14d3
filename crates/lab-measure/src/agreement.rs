//! Compares the tester's and the target's counts of the same packets.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use adit_lab_engine::clock::scaled;

/// Largest relative difference of counts without a warning. Unit: parts per million.
const DIFFERENCE_MAX_PPM: u64 = 50_000;

/// Packets that the tester sent and received in all trials.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TesterTotals {
    /// Packets that the target's queues accepted.
    pub sent: u64,
    /// Packets that came back, each copy counted.
    pub received: u64,
    /// Highest received rate in trials of at least two seconds: shorter ones may not contain a
    /// whole second of the target's statistics. Unit: packets per second.
    #[serde(default)]
    pub fastest_pps: u64,
}

/// The highest rates, as the tester measured them and as the target reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeakRates {
    /// Rate that the tester measured. Unit: packets per second.
    pub tester_pps: u64,
    /// Rate that the target reports. Unit: packets per second.
    pub target_pps: u64,
    /// Relative difference of both rates. Unit: parts per million.
    pub difference_ppm: u64,
}

/// The tester's and the target's counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CountAgreement {
    /// The tester's counts.
    pub tester: TesterTotals,
    /// Packets that the target received, as it reports.
    pub target_received: u64,
    /// Packets that the target sent, as it reports.
    pub target_sent: u64,
    /// Larger of the relative differences of received and of sent packets. Unit: parts per million.
    pub difference_ppm: u64,
    /// The highest rates, if the target reports one.
    #[serde(default)]
    pub rates: Option<PeakRates>,
}

impl CountAgreement {
    /// Compares the counts; `None` if the target's counters have no known format.
    #[must_use]
    pub(crate) fn of(tester: TesterTotals, counters: &Value) -> Option<Self> {
        let number = |names: [&str; 2]| {
            names.iter().find_map(|name| counters.get(*name).and_then(Value::as_u64))
        };
        // Names of the counters in adit, then in testpmd's statistics.
        let target_received = number(["received_pkts", "rx_packets"])?;
        let target_sent = number(["transmitted_pkts", "tx_packets"])?;
        let difference_ppm = relative_difference_ppm(tester.sent, target_received)
            .max(relative_difference_ppm(tester.received, target_sent));
        let target_pps = counters.get("tx_pps_max").and_then(Value::as_u64);
        let rates = target_pps.filter(|_| tester.fastest_pps > 0).map(|target_pps| PeakRates {
            tester_pps: tester.fastest_pps,
            target_pps,
            difference_ppm: relative_difference_ppm(tester.fastest_pps, target_pps),
        });
        Some(Self { tester, target_received, target_sent, difference_ppm, rates })
    }

    /// True if both sides agree within 5 %.
    #[must_use]
    pub(crate) fn holds(&self) -> bool {
        let rates = self.rates.map_or(0, |rates| rates.difference_ppm);
        self.difference_ppm.max(rates) <= DIFFERENCE_MAX_PPM
    }

    /// Returns a warning if both sides do not agree.
    #[must_use]
    pub(crate) fn warning(&self) -> Option<String> {
        (!self.holds()).then(|| format!("tester and target disagree: {self}"))
    }
}

/// Returns the relative difference of two counts. Unit: parts per million.
fn relative_difference_ppm(a: u64, b: u64) -> u64 {
    if a == b { 0 } else { scaled(a.abs_diff(b), 1_000_000, a.max(b)) }
}

/// Formats parts per million as percent.
fn percent(ppm: u64) -> String {
    format!("{}.{:04} %", ppm / 10_000, ppm % 10_000)
}

impl fmt::Display for CountAgreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tester, target_received, target_sent, difference_ppm, rates } = self;
        write!(
            f,
            "counters: tester sent {}, target received {target_received}; target sent \
             {target_sent}, tester received {}; {} apart",
            tester.sent,
            tester.received,
            percent(*difference_ppm)
        )?;
        let Some(rates) = rates else { return Ok(()) };
        write!(
            f,
            "; highest rate by the tester {} pps, by the target {} pps, {} apart",
            rates.tester_pps,
            rates.target_pps,
            percent(rates.difference_ppm)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_both_kinds_of_target_are_compared() {
        let tester = TesterTotals { sent: 1000, received: 900, fastest_pps: 500 };
        let adit = serde_json::json!({"received_pkts": 1010, "transmitted_pkts": 900});
        let agreement = CountAgreement::of(tester, &adit).unwrap();
        assert_eq!(agreement.difference_ppm, 9900);
        assert!(agreement.holds());
        let testpmd = serde_json::json!({"rx_packets": 1000, "tx_packets": 990});
        let agreement = CountAgreement::of(tester, &testpmd).unwrap();
        assert!(agreement.warning().unwrap().contains("9.0909 % apart"), "{agreement}");
        let counters =
            serde_json::json!({"rx_packets": 1000, "tx_packets": 900, "tx_pps_max": 400});
        let agreement = CountAgreement::of(tester, &counters).unwrap();
        assert_eq!(agreement.rates.unwrap().difference_ppm, 200_000);
        assert!(!agreement.holds());
        assert_eq!(CountAgreement::of(tester, &serde_json::json!({"x": 1})), None);
    }
}
