//! Two adits and an NRF, which has both as one instance: the one that serves.

use std::net::SocketAddr;

use serde_json::json;

use super::*;
use crate::strict_nrf::{NrfOptions, StrictNrf};

/// On the network for replication, which stays when the store is cut off.
const NRF: &str = "10.0.8.1:7777";
const SECTION: &str = "[nrf]\nservers = [\"http://10.0.8.1:7777\"]\n";

/// An NRF that writes what it has to a file, until the file `end` appears.
fn nrf(dir: &Path) {
    let address: SocketAddr = NRF.parse().unwrap();
    let address = Some(address);
    let nrf = StrictNrf::start(NrfOptions { address, heartbeat_s: 1, ..NrfOptions::default() });
    while !dir.join("end").exists() {
        let counts = ["PUT", "PATCH", "DELETE"].map(|method| nrf.count(method));
        let text = json!({ "profiles": nrf.profiles(), "counts": counts }).to_string();
        std::fs::write(dir.join("new"), text).unwrap();
        std::fs::rename(dir.join("new"), dir.join("nrf.json")).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    nrf.assert_content();
}

struct RunningNrf {
    process: ChildProcess,
    dir: TempDir,
}

impl RunningNrf {
    fn start(pair: &Pair, test: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let process = ChildProcess::start(pair.world.this_test(test).env(INSIDE, dir.path()));
        wait_until("the NRF listens", || dir.path().join("nrf.json").exists());
        Self { process, dir }
    }

    fn seen(&self) -> Value {
        let text = std::fs::read(self.dir.path().join("nrf.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    /// Registrations that arrived. There is one instance at most, and none is deregistered.
    fn registrations(&self) -> u64 {
        let seen = self.seen();
        assert!(seen["profiles"].as_array().unwrap().len() <= 1, "{seen}");
        assert_eq!(seen["counts"][2], 0, "{seen}");
        seen["counts"][0].as_u64().unwrap()
    }

    fn is_discoverable(&self) -> bool {
        self.seen()["profiles"][0]["nfStatus"] == "REGISTERED"
    }

    fn end(self) {
        std::fs::write(self.dir.path().join("end"), "").unwrap();
        let output = self.process.finish(LIMIT);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn nrf_state(daemon: &Daemon) -> String {
    daemon.show("nrf")["state"].as_str().unwrap().to_owned()
}

fn drain(daemon: &Daemon, word: &str) {
    let output = daemon.run(&["drain", word]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn nrf_has_the_adit_that_serves_through_partition_crash_and_stop() {
    const TEST: &str =
        "standby::nrf::nrf_has_the_adit_that_serves_through_partition_crash_and_stop";
    if let Some(dir) = std::env::var_os(INSIDE) {
        return nrf(dir.as_ref());
    }
    let Some(pair) = Pair::start("nrf") else { return };
    let nrf = RunningNrf::start(&pair, TEST);
    let Some(one) = pair.adit_with("nrf", 1, "", SECTION) else { return };
    wait_until("the first one is registered", || nrf_state(&one) == "registered");
    let Some(two) = pair.adit_with("nrf", 2, "", SECTION) else { return };
    assert_eq!(nrf_state(&two), "waiting");
    assert_eq!(nrf.registrations(), 1);

    set_store_link(one.namespace(), "down");
    wait_for_active(&two);
    wait_until("the second one is registered", || nrf.registrations() == 2);
    drain(&two, "on");
    wait_until("it drains", || !nrf.is_discoverable());
    // Three heartbeats.
    for _ in 0..60 {
        assert!(!nrf.is_discoverable(), "the one that is cut off undoes the drain: {}", nrf.seen());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(nrf_state(&one), "waiting", "it is paused");
    drain(&two, "off");
    wait_until("it serves", || nrf.is_discoverable());

    set_store_link(one.namespace(), "up");
    let (output, one) = one.wait_for_end();
    assert!(!output.status.success() && nrf.registrations() == 2, "{}", nrf.seen());
    let one = one.start();
    assert_eq!((role(&one), nrf_state(&one)), ("standby".to_owned(), "waiting".to_owned()));
    let _two = two.kill();
    wait_until("the first one is registered again", || nrf.registrations() == 3);
    assert_eq!(nrf_state(&one), "registered");
    let output = one.stop();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(nrf.registrations(), 3);
    nrf.end();
}
