//! The configuration file: read, checked as a whole, and converted to valid values.
//!
//! Only this module uses TOML. A [`Config`] exists only if every key is known, every value is in
//! range and every reference resolves. Each key is declared once, in the [`declare::section!`] of
//! its section.

mod api;
mod changes;
mod comparison;
mod cpus;
mod datapath;
mod declare;
mod described;
mod dpdk;
mod eventdev;
mod fields;
mod file;
mod file_error;
mod interfaces;
mod kernel_ports;
mod kernel_twins;
mod keys;
mod kinds;
mod log;
mod n4;
mod nrf;
mod peer_names;
mod peer_tls;
mod placement;
mod ports;
mod predefined;
mod provisioning;
mod qos;
mod replication;
mod section;
mod standby;
mod store;
mod table;
mod tcp_mss;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::Path;

pub(crate) use adit_session::{PredefinedRule, QosPolicy, Tolerances};
#[cfg(test)]
use adit_types::InterfaceRole;

use crate::this_machine::this_machine;
use file::ConfigFile;
use keys::read_all;
use placement::MachineReader;
use section::ConfigDocument;
use table::Section as _;
use toml::de::DeTable;

pub(crate) use crate::ip_net::IpNet;
pub(crate) use api::{ApiSettings, ApiTlsFiles};
pub(crate) use changes::{RunningParts, compare};
pub(crate) use comparison::{ChangeEffect, ConfigChange, KeyRefusal, OnReload};
pub(crate) use cpus::PlacementSettings;
pub(crate) use datapath::{DatapathSettings, ModelSettings, PollMode, ThreadSettings};
pub(crate) use described::{AbsentKey, KeyInfo, SectionInfo, Takes};
pub(crate) use file_error::{ConfigFileError, mistakes};
pub(crate) use interfaces::{
    AnnounceMode, InterfaceSettings, RouteOrigin, RouteSettings, domains, domains_of,
    switched_domains,
};
pub(crate) use kernel_twins::TwinSettings;
pub(crate) use n4::{NodeIdSetting, SmfSetSettings};
pub(crate) use nrf::NrfSettings;
pub(crate) use peer_names::ConfiguredPeer;
pub(crate) use peer_tls::TlsFiles;
pub(crate) use ports::{FlowOffloadSettings, PortDevice, PortSettings, XdpMode};
pub(crate) use provisioning::{ApplicationSettings, ForwardingPolicySettings, UePoolSettings};
pub(crate) use replication::{ReplicationSettings, ReplicationTransport, UserLinkSettings};
pub(crate) use section::{ConfigProblem, path_of};
pub(crate) use standby::{StandbySettings, WhenIsolated};
pub(crate) use store::{SharedStoreSettings, StoreKind, StoreSettings};
pub(crate) use tcp_mss::tcp_mss_text;

/// Describes all sections of the file, for documents.
pub(crate) fn file_sections() -> SectionInfo {
    ConfigFile::info()
}

/// A checked configuration: the sections of the file, and settings that depend on several sections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    file: ConfigFile,
    pub datapath: DatapathSettings,
    /// Logical interfaces, by `InterfaceId`.
    pub interfaces: Vec<InterfaceSettings>,
    pub routes: Vec<RouteSettings>,
    /// Applications; identifiers differ.
    pub applications: Vec<ApplicationSettings>,
    /// Predefined rules; names differ from each other and from those of groups.
    pub predefined_rules: Vec<PredefinedRule>,
    pub qos: QosPolicy,
    pub store: StoreSettings,
    /// Present if another adit has the same records, and only one of them is active.
    pub standby: Option<StandbySettings>,
    /// The HTTP interface, if there is one.
    pub api: Option<ApiSettings>,
    /// The NRFs, if there are any.
    pub nrf: Option<NrfSettings>,
    /// Address and port of the N4 socket.
    pub n4_listen: SocketAddr,
}

impl Config {
    /// The named network namespace of the twin whose address N4 listens at. `None`: that of adit.
    pub(crate) fn n4_netns(&self) -> Option<&str> {
        let n4 = self.n4_listen.ip();
        let mut owners = self.interfaces.iter().filter(|known| known.owns(n4));
        owners.find_map(|known| known.twin.as_ref())?.netns.as_deref()
    }
}

impl Deref for Config {
    type Target = ConfigFile;

    fn deref(&self) -> &ConfigFile {
        &self.file
    }
}

/// Adds a problem if the array at `key` has more than `most` tables. `what`: their plural name.
fn check_len_max(document: &ConfigDocument<'_>, key: &str, count: usize, most: usize, what: &str) {
    if count > most {
        document.problem(key, format!("write at most {most} {what}"));
    }
}

/// Adds a problem for each table of the array at `key` whose `field` repeats an earlier value.
fn check_unique<'a>(
    document: &ConfigDocument<'_>,
    key: &str,
    field: &str,
    values: impl Iterator<Item = &'a str>,
) {
    let all = if field == "id" { "identifiers" } else { "names" };
    let mut known = std::collections::BTreeSet::new();
    for (index, value) in values.enumerate().filter(|(_, value)| !known.insert(*value)) {
        let what = format!("\"{value}\" is taken already; {all} must differ");
        document.problem(&format!("{key}[{index}].{field}"), what);
    }
}

impl Config {
    /// Reads and checks `text` for this machine.
    ///
    /// # Errors
    /// All mistakes in the file, with their lines.
    #[cfg(test)]
    pub(crate) fn parse(text: &str) -> Result<Self, Vec<ConfigProblem>> {
        Self::parse_for(text, &|| this_machine().cloned())
    }

    /// Reads and checks the file at `path` for this machine.
    ///
    /// # Errors
    /// See [`ConfigFileError`].
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigFileError> {
        Self::load_for(path, &|| this_machine().cloned())
    }

    /// Reads and checks the file at `path` for the machine that `machine` returns.
    ///
    /// # Errors
    /// See [`ConfigFileError`].
    pub(crate) fn load_for(
        path: &Path,
        machine: MachineReader<'_>,
    ) -> Result<Self, ConfigFileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigFileError::Unreadable(path.to_owned(), error))?;
        Self::parse_for(&text, machine)
            .map_err(|problems| ConfigFileError::Mistakes(path.to_owned(), problems))
    }

    /// Checks `text` for the machine that `machine` returns.
    ///
    /// # Errors
    /// All mistakes in `text`, with their lines.
    pub(crate) fn parse_for(
        text: &str,
        machine: MachineReader<'_>,
    ) -> Result<Self, Vec<ConfigProblem>> {
        let (table, errors) = DeTable::parse_recoverable(text);
        let document = ConfigDocument::new(text, table.get_ref());
        for error in errors {
            let offset = error.span().map_or(0, |span| span.start);
            document.note(offset, "", format!("not TOML: {}", error.message()));
        }
        let config = read_all::<ConfigFile>(document.root()).check(&document, machine);
        match document.problems() {
            problems if problems.is_empty() => Ok(config),
            problems => Err(problems),
        }
    }

    /// Returns the maximum of packets that one worker queues for rates: an equal share.
    #[must_use]
    pub(crate) fn shaped_pkts_per_worker(&self) -> usize {
        self.file.qos.queue_pkts_max / self.datapath.workers.len().max(1)
    }

    /// Returns the maximum of packets that one worker buffers for FARs: an equal share.
    #[must_use]
    pub(crate) fn buffer_pkts_per_worker(&self) -> usize {
        self.sessions.buffer_pkts_max / self.datapath.workers.len().max(1)
    }

    #[cfg(test)]
    #[must_use]
    pub(crate) fn n3(&self) -> (usize, &InterfaceSettings) {
        self.interfaces
            .iter()
            .enumerate()
            .find(|(_, interface)| interface.role == InterfaceRole::N3)
            .unwrap_or_else(|| unreachable!("a checked configuration has an N3 interface"))
    }
}
