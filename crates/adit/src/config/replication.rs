//! `[store.replication]`: records on the other adit of a pair as well.

use std::net::SocketAddr;

use adit_replication::Acknowledge;
use adit_transport::KernelWait;

use super::section::ConfigSection;

/// The table in `[store]`.
pub(super) const TABLE: &str = "replication";

/// Where the two adits of a pair reach each other, and whose word counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplicationSettings {
    /// The address that this adit listens at while it is the standby.
    pub listen: SocketAddr,
    /// The address that the other one listens at.
    pub standby: SocketAddr,
    pub acknowledge: Acknowledge,
    /// What threads do while nothing arrives.
    pub wait: KernelWait,
}

/// Reads the section, if the file has it.
pub(super) fn read(store: &mut ConfigSection<'_, '_>) -> Option<ReplicationSettings> {
    let is_present = store.has(TABLE);
    let mut replication = store.table(TABLE);
    if !is_present {
        return None;
    }
    let expects = "an address with a port such as \"10.0.9.1:7000\" or \"[2001:db8::1]:7000\"";
    let listen: Option<SocketAddr> = replication.parsed("listen", expects);
    let standby: Option<SocketAddr> = replication.parsed("standby", expects);
    if listen.is_some() && listen == standby {
        replication.problem("standby", "takes the address of the other adit");
    }
    let words = [("standby", Acknowledge::Standby), ("store", Acknowledge::Store)];
    let acknowledge = replication.choice("acknowledge", &words, Some(Acknowledge::Standby));
    let transports = [("blocking", KernelWait::Sleep), ("polled", KernelWait::Poll)];
    let wait = replication.choice("transport", &transports, Some(KernelWait::Sleep));
    replication.finish();
    Some(ReplicationSettings {
        listen: listen?,
        standby: standby?,
        acknowledge: acknowledge?,
        wait: wait?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, StoreKind};

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");
    const SHARED: &str = "kind = \"redis\"\nservers = [\"192.0.2.10:6379\"]\nname = \"upf-1\"";

    /// The commented lines of the example without their comment signs.
    fn example_of_replication() -> String {
        let start = EXAMPLE.find("# [store.replication]").unwrap();
        let lines = EXAMPLE[start..].lines().take_while(|line| !line.is_empty());
        let is_code = |line: &&str| line.contains(" = ") || line.starts_with("# [");
        lines.filter(is_code).map(|line| format!("{}\n", &line[2..])).collect()
    }

    /// The example with a shared store, [`example_of_replication`] after `changes`, and `[standby]` if it is to be there.
    fn parsed(changes: &[(&str, &str)], has_standby: bool) -> Result<Config, String> {
        let mut lines = example_of_replication();
        for (from, to) in changes {
            assert!(lines.contains(from), "{lines}");
            lines = lines.replacen(from, to, 1);
        }
        let text = EXAMPLE.replacen("kind = \"journal\"", SHARED, 1);
        let text = text.replacen("folder = \"/var/lib/adit/journal\"", "", 1);
        let standby = if has_standby { "[standby]\n" } else { "" };
        let text = text.replacen("[admin]", &format!("{lines}{standby}[admin]"), 1);
        Config::parse(&text).map_err(|problems| {
            let problems: Vec<_> = problems
                .iter()
                .map(|problem| format!("{}: {}", problem.path, problem.what))
                .collect();
            problems.join("\n")
        })
    }

    #[test]
    fn example_of_replication_means_what_it_says() {
        let config = parsed(&[], true).unwrap();
        let StoreKind::Shared(shared) = config.store.kind else { panic!("another kind") };
        let settings = shared.replication.unwrap();
        assert_eq!(settings.listen, "10.0.9.1:7000".parse().unwrap());
        assert_eq!(settings.standby, "10.0.9.2:7000".parse().unwrap());
        assert_eq!(
            (settings.acknowledge, settings.wait),
            (Acknowledge::Standby, KernelWait::Sleep)
        );
    }

    #[test]
    fn every_mistake_of_replication_is_told() {
        let told =
            |changes: &[(&str, &str)], has_standby| parsed(changes, has_standby).unwrap_err();
        let same = told(&[("10.0.9.2", "10.0.9.1")], true);
        assert_eq!(same, "store.replication.standby: takes the address of the other adit");
        assert!(
            told(&[], false).starts_with("store.replication: is between an adit and its standby")
        );
        let no_port = told(&[("10.0.9.2:7000", "10.0.9.2")], true);
        assert!(no_port.starts_with("store.replication.standby: "), "{no_port}");
        let missing = told(&[("listen = \"10.0.9.1:7000\"", "")], true);
        assert!(missing.starts_with("store.replication.listen: "), "{missing}");
        let word = told(&[("acknowledge = \"standby\"", "acknowledge = \"both\"")], true);
        assert!(word.starts_with("store.replication.acknowledge: "), "{word}");
        let journal = EXAMPLE.replacen("[admin]", &(example_of_replication() + "[admin]"), 1);
        let problems = Config::parse(&journal).unwrap_err();
        assert_eq!(problems[0].path, "store.replication");
    }
}
