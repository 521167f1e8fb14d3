//! Writes the text of `adit.toml`. Each comment is the first sentence of the description of a table
//! or key.

use std::collections::BTreeSet;

use super::plan::InitPlan;
use super::ports::ChosenPort;
use crate::cli::{CoreKind, PortChoice};
use crate::config::{IpNet, SectionInfo, Takes, file_sections};

/// Width of a comment's text, behind `# `. Unit: columns.
const COMMENT_COLUMNS: usize = 98;

/// Returns the text of the configuration of a plan.
pub(super) fn text(plan: &InitPlan) -> String {
    let mut file = ConfigWriter::new();
    file.comment("Written by `adit init`. adit check --print example explains all keys.");
    file.table("node", &[("id", quoted(plan.n4.addr))]);
    file.table("n4", &n4(plan));
    file.table("datapath", &datapath(plan));
    let has_xdp = plan.n3.kind == PortChoice::Xdp && plan.n6.kind == PortChoice::Xdp;
    for (name, port) in [("access", &plan.n3), ("core", &plan.n6)] {
        let mut keys = vec![("name", quoted(name)), ("device", quoted(&port.device))];
        if has_xdp {
            keys.push(("xdp", quoted("auto")));
        }
        keys.push(("mtu_bytes", port.mtu_bytes.to_string()));
        file.table_with("port", &port.why, &keys);
    }
    file.table("interface", &interface("n3", "access", &plan.n3));
    let mut n6 = interface("n6", "core", &plan.n6).to_vec();
    n6.extend(plan.network_instance().map(|name| ("network_instance", quoted(name))));
    if plan.clamps_mss() {
        n6.push(("tcp_mss", quoted("clamp")));
    }
    file.table("interface", &n6);
    let n3 = plan.n3_gateway.iter().map(|hop| ("n3", hop));
    for (interface, hop) in n3.chain(plan.n6_gateways.iter().map(|hop| ("n6", hop))) {
        let prefix = if hop.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
        let keys = [
            ("interface", quoted(interface)),
            ("prefix", quoted(prefix)),
            ("next_hop", quoted(hop)),
        ];
        file.table("route", &keys);
    }
    for pool in plan.configured_pools() {
        let instance = plan.network_instance().unwrap_or(&pool.dnn);
        let keys = [("network_instance", quoted(instance)), ("prefix", quoted(pool.prefix))];
        file.table("ue_pool", &keys);
    }
    file.text
}

fn n4(plan: &InitPlan) -> Vec<(&'static str, String)> {
    let listen = std::net::SocketAddr::from((plan.n4.addr, 8805));
    let allowed: Vec<_> = plan.allowed().iter().map(|net: &IpNet| quoted(net)).collect();
    let mut keys = vec![("listen", quoted(listen)), ("allow", format!("[{}]", allowed.join(", ")))];
    let smf = plan.smf.filter(|_| plan.core == CoreKind::Oai);
    let smf = smf.map(|addr| std::net::SocketAddr::from((addr, 8805)));
    keys.extend(smf.map(|smf| ("connect", format!("[{}]", quoted(smf)))));
    if plan.core == CoreKind::SdCore {
        keys.push(("tolerate", format!("[{}]", quoted("one-f-teid-per-session"))));
    }
    keys
}

fn datapath(plan: &InitPlan) -> Vec<(&'static str, String)> {
    let has_cards = [&plan.n3, &plan.n6].iter().all(|port| port.kind == PortChoice::Dpdk);
    let workers = match plan.cpus[..] {
        // Automatic placement needs a CPU for control and one for a worker: name the only CPU for
        // both.
        [cpu] => {
            return vec![
                ("workers", format!("[{cpu}]")),
                ("main_core", cpu.to_string()),
                ("poll", quoted("adaptive")),
            ];
        }
        [_, _] => "{ count = 1 }",
        _ if has_cards => "\"auto\"",
        _ => "{ count = 1 }",
    };
    let poll = if has_cards && plan.cpus.len() > 2 { "busy" } else { "adaptive" };
    vec![("workers", workers.to_owned()), ("poll", quoted(poll))]
}

fn interface(role: &str, port: &str, of: &ChosenPort) -> [(&'static str, String); 4] {
    let addresses: Vec<_> = of.addresses.iter().map(quoted).collect();
    let addresses = format!("[{}]", addresses.join(", "));
    let (name, port) = (quoted(role), quoted(port));
    [("name", name.clone()), ("role", name), ("port", port), ("addresses", addresses)]
}

fn quoted(value: impl std::fmt::Display) -> String {
    format!("\"{value}\"")
}

/// Writes tables with the comments of their keys, each comment once.
struct ConfigWriter {
    text: String,
    sections: SectionInfo,
    said: BTreeSet<String>,
}

impl ConfigWriter {
    fn new() -> Self {
        Self { text: String::new(), sections: file_sections(), said: BTreeSet::new() }
    }

    fn table(&mut self, name: &str, keys: &[(&str, String)]) {
        self.table_with(name, "", keys);
    }

    /// Writes a table with `reason` as a comment below its header.
    fn table_with(&mut self, name: &str, reason: &str, keys: &[(&str, String)]) {
        let found = self.sections.keys.iter().find(|key| key.name == name);
        let (section, header) = match found.map(|key| &key.takes) {
            Some(Takes::Table(section)) => (section, format!("[{name}]")),
            Some(Takes::Tables(section)) => (section, format!("[[{name}]]")),
            _ => return,
        };
        let about = first_sentence(section.about);
        let mut lines: Vec<(Option<String>, String)> = vec![(Some(about), header)];
        for (key, value) in keys {
            let known = section.keys.iter().find(|known| known.name == *key);
            let about = known.map(|known| first_sentence(known.about));
            lines.push((about, format!("{key} = {value}")));
        }
        self.text.push('\n');
        for (number, (about, line)) in lines.into_iter().enumerate() {
            if let Some(about) = about.filter(|about| self.said.insert(about.clone())) {
                self.comment(&about);
            }
            self.text.push_str(&line);
            self.text.push('\n');
            if number == 0 && !reason.is_empty() {
                self.comment(&format!("{reason}."));
            }
        }
    }

    /// Writes a comment, wrapped at [`COMMENT_COLUMNS`].
    fn comment(&mut self, text: &str) {
        let mut line = String::new();
        for word in text.split_whitespace() {
            if !line.is_empty() && line.len() + 1 + word.len() > COMMENT_COLUMNS {
                self.text.push_str(&format!("# {line}\n"));
                line.clear();
            }
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
        self.text.push_str(&format!("# {line}\n"));
    }
}

/// Returns the first sentence of a description. Adds the second one if the first, "For ...", only
/// says what the description applies to.
fn first_sentence(about: &[&str]) -> String {
    let text = about.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let count = if text.starts_with("For ") { 2 } else { 1 };
    let sentences: Vec<_> = text.splitn(count + 1, ". ").collect();
    match sentences.get(..count).filter(|_| sentences.len() > count) {
        Some(first) => first.join(". ") + ".",
        None => text,
    }
}
