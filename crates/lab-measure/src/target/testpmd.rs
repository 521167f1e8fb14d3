//! `dpdk-testpmd` as a target.

use std::process::Command;

use anyhow::Result;
use serde_json::Value;

use crate::testbed::Testbed;
use adit_lab_process::process::{is_installed, owned_command};
use adit_lab_process::stop::environment;

/// Makes the command that starts testpmd on `core`. With `rates` testpmd reports its rates each
/// second. `memif`: the arguments of its memif device.
///
/// # Errors
/// testpmd is not installed.
pub(super) fn command(bench: &Testbed, core: u16, rates: bool, memif: &str) -> Result<Command> {
    let program = "dpdk-testpmd";
    if !is_installed(program) {
        return Err(environment(format!(
            "{program} is not installed (Debian and Ubuntu: apt-get install dpdk-dev)"
        )));
    }
    let mut command = owned_command(program, "KILL");
    command.args(["--lcores", &format!("0@{},1@{core}", bench.core())]);
    command.args(["--no-pci", "--no-telemetry", "--file-prefix"]);
    command.arg(format!("adit-lab-target-{}", std::process::id()));
    if bench.eal().has_hugepages() {
        command.arg("--in-memory");
    } else {
        command.args(["--no-huge", "--no-shconf"]);
    }
    command.args(["--single-file-segments", "-m", "256"]);
    command.arg(format!("--vdev=net_memif0,{memif}"));
    // Without --stats-period testpmd waits for a key, finds no terminal and ends at once.
    let period = if rates { 1 } else { 3600 };
    command.args(["--", "--forward-mode=macswap", "--nb-cores=1"]);
    command.arg(format!("--stats-period={period}"));
    command.args(["--total-num-mbufs=16384", "--rxd=1024", "--txd=1024"]);
    Ok(command)
}

/// Parses the accumulated statistics that testpmd prints at its end.
pub(super) fn counters(log: &str) -> Option<Value> {
    let (_, end) = log.rsplit_once("Accumulated forward statistics")?;
    let number = |name: &str| {
        let (_, rest) = end.split_once(name)?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    };
    let rates = log.split("Tx-pps:").skip(1);
    let rates = rates.filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    Some(serde_json::json!({
        "tx_pps_max": rates.max().filter(|pps| *pps > 0),
        "rx_packets": number("RX-packets:")?,
        "tx_packets": number("TX-packets:")?,
        "tx_dropped": number("TX-dropped:"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_testpmd_are_read_from_its_end() {
        let log = "  RX-packets: 1 TX-packets: 1\n  Tx-pps:  77  Tx-bps: 9\n\
            +++ Accumulated forward statistics for all ports+++\n  \
            RX-packets: 1234           RX-dropped: 5             RX-total: 1239\n  \
            TX-packets: 1200           TX-dropped: 34            TX-total: 1234\n";
        let found = counters(log).unwrap();
        assert_eq!((&found["rx_packets"], &found["tx_dropped"]), (&1234.into(), &34.into()));
        assert_eq!(found["tx_pps_max"], 77);
        assert_eq!(counters("nothing"), None);
    }
}
