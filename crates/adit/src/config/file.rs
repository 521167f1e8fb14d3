//! The configuration file: all of its sections, and the checks across sections.

use adit_types::limits::{BUFFER_PKTS_MAX, PORTS_MAX, SESSIONS_MAX};

use super::Config;
use super::api::ApiSection;
use super::comparison::{BY_KEY, LISTENING, OnReload, RESERVED};
use super::datapath::DatapathSection;
use super::declare::section;
use super::dpdk::{DpdkSettings, HALF_OF_MBUFS};
use super::interfaces::{self, InterfaceSection, RouteSection};
use super::keys::{IntoKey as _, Table};
use super::kinds::{integer, text};
use super::log::LogSettings;
use super::n4::{GtpuSettings, N4Settings, NodeSettings};
use super::nrf::NrfSection;
use super::placement::{MachineReader, thread_cpus};
use super::ports::{self, FlowOffloadSettings, PortSettings};
use super::predefined::{self, PredefinedRuleSection};
use super::provisioning::{self, ApplicationSection, ForwardingPolicySettings, UePoolSettings};
use super::qos::QosSection;
use super::section::ConfigDocument;
use super::standby::{self, StandbySection, TAKEN};
use super::store::StoreSection;

section! {
    /// Configuration of adit. Check a copy with: adit check FILE
    /// Every key carries its unit in its name. Unknown keys are refused.
    /// `adit reload` changes a running adit without a lost packet: docs/configuration.md has the
    /// keys that need a restart.
    ConfigFile(BY_KEY) {
        node: NodeSettings, Table => [];
        n4: N4Settings, Table => [];
        gtpu: GtpuSettings, Table => [];
        sessions: SessionsSettings, Table => [];
        qos: QosSection, Table => [];
        datapath: DatapathSection, Table => [];
        dpdk: DpdkSettings, Table => [];
        ports: Vec<PortSettings> = "port", Table, OnReload::Depends("none of their keys") => [];
        flow_offload: FlowOffloadSettings, Table;
        interfaces: Vec<InterfaceSection> = "interface", Table,
            OnReload::Depends("interfaces are added, after the others and on their ports: with a network instance of their own, or as further ones for tunnels. Not on kernel ports, not while XDP programs or flow rules of cards forward packets, and no n6 in a network instance that switches packets between its UEs, or that it would merge with others")
            => [];
        routes: Vec<RouteSection> = "route", Table, OnReload::Depends("all") => [];
        ue_pools: Vec<UePoolSettings> = "ue_pool", Table,
            OnReload::Depends("pools are added and grow, but not behind kernel:tun") => [];
        applications: Vec<ApplicationSection> = "application", Table, OnReload::Depends("all")
            => [];
        forwarding_policies: Vec<ForwardingPolicySettings> = "forwarding_policy", Table,
            OnReload::Depends("policies are added, not removed, and change but for their network instances")
            => [];
        predefined_rules: Vec<PredefinedRuleSection> = "predefined_rule", Table,
            OnReload::Depends("all") => [];
        store: StoreSection, Table => [];
        standby: Option<StandbySection>, Table, TAKEN;
        api: Option<ApiSection>, Table, OnReload::Section("adit listens there from the start on");
        nrf: Option<NrfSection>, Table, OnReload::Section("the client of the NRF begins at the start");
        log: LogSettings, Table;
        admin: AdminSettings, Table => [];
    }
}

section! {
    /// Sessions.
    SessionsSettings(RESERVED) {
        /// PFCP sessions at most. adit reserves the memory of their lookup entries when it starts.
        sessions_max: usize, integer(1..=SESSIONS_MAX).or(100_000) => [];
        /// Packets that buffering FARs (paging) may hold in total, one mbuf each. At most half of
        /// the mbufs that remain after reassembly (512 per worker) and the net_af_xdp drivers have
        /// theirs.
        buffer_pkts_max: usize, integer(0..=BUFFER_PKTS_MAX).or_follows(usize::MAX,
            "4096, or half of the buffers if these are fewer") => ["4096"];
    }
}

section! {
    /// Operators.
    AdminSettings(LISTENING) {
        /// Unix socket of the HTTP interface for commands such as `adit show` and `adit drain`.
        /// Only its owner may open it. adit replaces a socket that a dead process left there, and
        /// refuses to start if the path is anything else.
        socket: String, text("a path such as \"/run/adit/admin.sock\"")
            .or(crate::cli::ADMIN_SOCKET_DEFAULT.into()) => [];
    }
}

/// Default maximum of packets buffered by FARs, lowered to half of the packet buffers.
const BUFFER_PKTS_DEFAULT: usize = 4096;

impl ConfigFile {
    /// Checks all sections, and returns the settings that follow from them.
    pub(super) fn check(
        mut self,
        document: &ConfigDocument<'_>,
        machine: MachineReader<'_>,
    ) -> Config {
        let n4_listen =
            self.n4.check(document, self.standby.as_ref(), &self.node.id, &self.interfaces);
        self.gtpu.check(document, self.sessions.sessions_max);
        let cpus = thread_cpus(document, &self.datapath, &self.ports, machine);
        let datapath = self.datapath.settings(document, cpus);
        if self.ports.is_empty() || self.ports.len() > PORTS_MAX {
            let what = format!("write 1 to {PORTS_MAX} ports, each as [[port]]");
            document.problem("port", what);
        }
        ports::check(document, &mut self.ports, &datapath);
        self.dpdk.check(document, &datapath, &self.ports);
        let half = self.dpdk.half_of_mbufs(datapath.roles(), &self.ports);
        self.sessions.check(document, half);
        let interfaces = interfaces::check_interfaces(document, &mut self.interfaces, &self.ports);
        interfaces::check_offload(document, &self.ports, &interfaces);
        interfaces::check_n4(document, n4_listen.ip(), &self.ports, &interfaces);
        provisioning::check_ue_pools(document, &self.ue_pools, &interfaces);
        provisioning::check_policies(document, &self.forwarding_policies, &interfaces);
        let applications = provisioning::check_applications(document, &self.applications);
        let store = self.store.settings(document, &self.ports);
        Config {
            routes: interfaces::check_routes(document, &self.routes, &interfaces),
            predefined_rules: predefined::check(document, &self.predefined_rules, &applications),
            qos: self.qos.policy(document, half, &interfaces),
            standby: standby::check(document, self.standby.as_ref(), &store),
            api: self.api.as_ref().map(|api| api.settings(document)),
            nrf: self.nrf.as_ref().map(|nrf| nrf.settings(document)),
            n4_listen,
            datapath,
            interfaces,
            applications,
            store,
            file: self,
        }
    }
}

impl SessionsSettings {
    /// Checks the section. `half`: maximum of waiting packets.
    fn check(&mut self, document: &ConfigDocument<'_>, half: usize) {
        if self.buffer_pkts_max == usize::MAX {
            self.buffer_pkts_max = BUFFER_PKTS_DEFAULT.min(half);
        }
        if self.buffer_pkts_max > half {
            let what = format!("takes at most {half}, {HALF_OF_MBUFS}");
            document.problem("sessions.buffer_pkts_max", what);
        }
    }
}
