//! Compares two configurations: which changes a running adit can apply, and which it cannot.
//!
//! Each function names all fields of its section, so a new key does not compile until it is decided here.

mod lists;
mod qos;
#[cfg(test)]
mod tests;

use serde::Serialize;
use utoipa::ToSchema;

use super::read::{DSCP_MODES, ECN_MODES};
use super::{
    ApiSettings, Config, DatapathSettings, DpdkSettings, FlowOffloadSettings, GtpuSettings,
    ModelSettings, N4Settings, SharedStoreSettings, SmfSetSettings, StoreKind, StoreSettings,
};
use adit_types::Nanos;

/// The action that a change needs in addition to taking over the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeEffect {
    /// Nothing: it counts from the next use on.
    Plain,
    /// Sessions that exist get their rules again.
    Rules,
    /// Workers get routes of data networks.
    Routes,
    /// Workers get routes, and FARs the next hops to their GTP-U peers.
    GtpuRoutes,
    /// Workers get interfaces, and sessions the rules that may use them.
    Interfaces,
}

/// A change that a running adit can make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigChange {
    /// Key path, such as `n4.t1_ms`.
    pub key: String,
    /// The change, in words.
    pub change: String,
    pub effect: ChangeEffect,
}

/// A key for which a configuration is refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
pub(crate) struct KeyRefusal {
    /// Key path, such as `datapath.model`; of a mistake in the file with its line.
    pub key: String,
    /// Why, and what to do.
    pub why: String,
}

/// State of the running adit that the comparison needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RunningParts {
    /// XDP programs or network cards forward packets in front of the workers.
    pub has_offload: bool,
}

/// The changes from `old`, which runs, to `new`.
///
/// # Errors
/// All keys whose change a running adit cannot make.
pub(crate) fn compare(
    old: &Config,
    new: &Config,
    running: RunningParts,
) -> Result<Vec<ConfigChange>, Vec<KeyRefusal>> {
    let mut found = ConfigComparison::default();
    let Config {
        node_id,
        n4,
        gtpu,
        sessions_max,
        buffer_pkts_max,
        datapath,
        dpdk,
        flow_offload,
        ports,
        // With the ports that they are on.
        interfaces: _,
        routes,
        ue_pools,
        applications,
        forwarding_policies,
        predefined_rules,
        qos,
        shaped_pkts_max,
        store,
        standby,
        admin_socket,
        api,
        log_levels,
    } = old;
    found.fixed("node.id", node_id, &new.node_id, "peers know this node by it");
    found.n4(n4, &new.n4);
    found.gtpu(gtpu, &new.gtpu);
    let reserved = "its memory is reserved at the start";
    found.fixed("sessions.sessions_max", sessions_max, &new.sessions_max, reserved);
    found.fixed("sessions.buffer_pkts_max", buffer_pkts_max, &new.buffer_pkts_max, reserved);
    found.datapath(datapath, &new.datapath);
    found.dpdk(dpdk, &new.dpdk);
    found.flow_offload(flow_offload, &new.flow_offload);
    found.ports(ports, &new.ports);
    found.interfaces(old, new, running);
    found.routes(new, routes, &new.routes);
    found.ue_pools(old, ue_pools, &new.ue_pools);
    found.applications(applications, &new.applications);
    found.forwarding_policies(forwarding_policies, &new.forwarding_policies);
    found.predefined_rules(predefined_rules, &new.predefined_rules);
    found.qos(qos, &new.qos);
    found.fixed("qos.queue_pkts_max", shaped_pkts_max, &new.shaped_pkts_max, reserved);
    found.store(store, &new.store);
    let taken = "addresses and roles are taken at the start";
    found.fixed("standby", standby, &new.standby, taken);
    found.fixed("admin.socket", admin_socket, &new.admin_socket, LISTENING);
    found.api(api.as_ref(), new.api.as_ref());
    let levels = |levels: &Option<String>| levels.clone().unwrap_or_else(|| "the default".into());
    found.plain("log.levels", log_levels, &new.log_levels, levels);
    found.switched_domains(old, new);
    found.finish()
}

/// Why an address or a socket does not change.
const LISTENING: &str = "adit listens there from the start on";

/// Why threads, ports and packet buffers do not change.
const PACKET_PATH: &str =
    "threads, ports and packet buffers of the packet path are made at the start";

#[derive(Debug, Default)]
struct ConfigComparison {
    changes: Vec<ConfigChange>,
    refusals: Vec<KeyRefusal>,
}

impl ConfigComparison {
    fn finish(self) -> Result<Vec<ConfigChange>, Vec<KeyRefusal>> {
        let Self { changes, mut refusals } = self;
        refusals.sort();
        if refusals.is_empty() { Ok(changes) } else { Err(refusals) }
    }

    fn note(&mut self, key: &str, effect: ChangeEffect, change: impl Into<String>) {
        self.changes.push(ConfigChange { key: key.to_owned(), change: change.into(), effect });
    }

    fn refuse(&mut self, key: impl Into<String>, why: impl Into<String>) {
        self.refusals.push(KeyRefusal { key: key.into(), why: why.into() });
    }

    /// A key that a running adit cannot change.
    fn fixed<T: PartialEq>(&mut self, key: &str, old: &T, new: &T, why: &str) {
        if old != new {
            self.refuse(key, format!("{why}; restart adit to change it"));
        }
    }

    /// A key whose change needs nothing else. `show` puts a value in words.
    fn plain<T: PartialEq>(&mut self, key: &str, old: &T, new: &T, show: impl Fn(&T) -> String) {
        self.value(key, ChangeEffect::Plain, old, new, show);
    }

    fn value<T: PartialEq>(
        &mut self,
        key: &str,
        effect: ChangeEffect,
        old: &T,
        new: &T,
        show: impl Fn(&T) -> String,
    ) {
        if old != new {
            self.note(key, effect, format!("{}, was {}", show(new), show(old)));
        }
    }

    fn n4(&mut self, old: &N4Settings, new: &N4Settings) {
        let N4Settings {
            listen,
            connect,
            heartbeat_interval,
            sessions_outlive_peer,
            t1,
            n1_retries,
            allow,
            peer_requests_per_s_max,
            peer_requests_burst,
            sessions_per_association_max,
            smf_sets,
            receive_buffer_bytes,
            tolerances,
        } = old;
        self.fixed("n4.listen", listen, &new.listen, LISTENING);
        let setups = "association setups begin at the start";
        self.fixed("n4.connect", connect, &new.connect, setups);
        let interval = &new.heartbeat_interval;
        self.plain("n4.heartbeat_interval_ms", heartbeat_interval, interval, millis);
        let outlive = &new.sessions_outlive_peer;
        let seconds = |time: &Nanos| time.to_duration().as_secs().to_string();
        self.plain("n4.sessions_outlive_peer_s", sessions_outlive_peer, outlive, seconds);
        self.plain("n4.t1_ms", t1, &new.t1, millis);
        self.plain("n4.n1_retries", n1_retries, &new.n1_retries, u8::to_string);
        self.plain("n4.allow", allow, &new.allow, |allow| match allow.is_empty() {
            true => "any address".to_owned(),
            false => words(allow),
        });
        let per_s = &new.peer_requests_per_s_max;
        self.plain("n4.peer_requests_per_s_max", peer_requests_per_s_max, per_s, u32::to_string);
        let burst = &new.peer_requests_burst;
        self.plain("n4.peer_requests_burst", peer_requests_burst, burst, u32::to_string);
        let most = &new.sessions_per_association_max;
        let key = "n4.sessions_per_association_max";
        self.plain(key, sessions_per_association_max, most, usize::to_string);
        let sets = |sets: &Vec<SmfSetSettings>| {
            let set = |set: &SmfSetSettings| format!("{} ({})", set.id, words(&set.members));
            if sets.is_empty() {
                "none".to_owned()
            } else {
                words(&sets.iter().map(set).collect::<Vec<_>>())
            }
        };
        self.plain("n4.smf_sets", smf_sets, &new.smf_sets, sets);
        let buffer = &new.receive_buffer_bytes;
        self.fixed("n4.receive_buffer_kib", receive_buffer_bytes, buffer, LISTENING);
        self.plain("n4.tolerate", tolerances, &new.tolerances, |of| {
            let is_on = of.one_f_teid_per_session;
            if is_on { "one-f-teid-per-session" } else { "nothing" }.to_owned()
        });
    }

    fn gtpu(&mut self, old: &GtpuSettings, new: &GtpuSettings) {
        let GtpuSettings { echo_interval, t3, n3_requests, copies_ecn, copies_dscp, outer_df } =
            old;
        self.plain("gtpu.echo_interval_ms", echo_interval, &new.echo_interval, millis);
        self.plain("gtpu.t3_ms", t3, &new.t3, millis);
        self.plain("gtpu.n3_requests", n3_requests, &new.n3_requests, u8::to_string);
        let word = |of: &[(&str, bool)], is_on: bool| {
            of.iter()
                .find(|(_, on)| *on == is_on)
                .map_or_else(String::new, |(word, _)| (*word).into())
        };
        let (ecn, dscp) = (&new.copies_ecn, &new.copies_dscp);
        let effect = ChangeEffect::Rules;
        self.value("gtpu.ecn", effect, copies_ecn, ecn, |on| word(&ECN_MODES, *on));
        self.value("gtpu.dscp", effect, copies_dscp, dscp, |on| word(&DSCP_MODES, *on));
        self.fixed("gtpu.outer_df", outer_df, &new.outer_df, "interfaces keep their headers");
    }

    fn datapath(&mut self, old: &DatapathSettings, new: &DatapathSettings) {
        let DatapathSettings {
            model,
            workers,
            poll,
            realtime_priority,
            scales_frequency,
            main_core,
            burst_pkts,
            placement,
        } = old;
        match (model, &new.model) {
            (
                ModelSettings::Pipeline { receivers, spread, rss_key },
                ModelSettings::Pipeline { receivers: to, spread: new_spread, rss_key: new_key },
            ) => {
                self.fixed("datapath.receivers", receivers, to, PACKET_PATH);
                self.fixed("datapath.spread", spread, new_spread, PACKET_PATH);
                self.fixed("datapath.rss_key", rss_key, new_key, PACKET_PATH);
            }
            (ModelSettings::EventDriven(old), ModelSettings::EventDriven(new)) => {
                self.fixed("datapath.eventdev", old, new, PACKET_PATH);
            }
            (old, new) => self.fixed("datapath.model", old, new, PACKET_PATH),
        }
        self.fixed("datapath.placement", placement, &new.placement, PACKET_PATH);
        self.fixed("datapath.workers", workers, &new.workers, PACKET_PATH);
        if workers == &new.workers && model == &new.model {
            self.fixed("datapath.poll", poll, &new.poll, PACKET_PATH);
        }
        let key = "datapath.realtime_priority";
        self.fixed(key, realtime_priority, &new.realtime_priority, PACKET_PATH);
        let frequencies = "the limits of frequencies are recorded at the start";
        let scales = &new.scales_frequency;
        self.fixed("datapath.scale_frequency", scales_frequency, scales, frequencies);
        self.fixed("datapath.main_core", main_core, &new.main_core, PACKET_PATH);
        self.fixed("datapath.burst_pkts", burst_pkts, &new.burst_pkts, PACKET_PATH);
    }

    fn dpdk(&mut self, old: &DpdkSettings, new: &DpdkSettings) {
        let DpdkSettings {
            hugepages,
            memory_mib,
            mempool_mbufs,
            mbuf_bytes,
            rx_descriptors,
            tx_descriptors,
            eal_extra_args,
        } = old;
        self.fixed("dpdk.hugepages", hugepages, &new.hugepages, PACKET_PATH);
        self.fixed("dpdk.memory_mib", memory_mib, &new.memory_mib, PACKET_PATH);
        self.fixed("dpdk.mempool_mbufs", mempool_mbufs, &new.mempool_mbufs, PACKET_PATH);
        self.fixed("dpdk.mbuf_bytes", mbuf_bytes, &new.mbuf_bytes, PACKET_PATH);
        self.fixed("dpdk.rx_descriptors", rx_descriptors, &new.rx_descriptors, PACKET_PATH);
        self.fixed("dpdk.tx_descriptors", tx_descriptors, &new.tx_descriptors, PACKET_PATH);
        self.fixed("dpdk.eal_extra_args", eal_extra_args, &new.eal_extra_args, PACKET_PATH);
    }

    fn flow_offload(&mut self, old: &FlowOffloadSettings, new: &FlowOffloadSettings) {
        let FlowOffloadSettings { downlink, sessions_max, from_pps, read_interval } = old;
        let why = "cards are set up at the start";
        self.fixed("flow_offload.downlink", downlink, &new.downlink, why);
        self.fixed("flow_offload.sessions_max", sessions_max, &new.sessions_max, why);
        self.fixed("flow_offload.from_pps", from_pps, &new.from_pps, why);
        self.fixed("flow_offload.read_interval_ms", read_interval, &new.read_interval, why);
    }

    fn store(&mut self, old: &StoreSettings, new: &StoreSettings) {
        let StoreSettings { kind, usage_interval, serves_without_store, keeps_at_stop } = old;
        let opened = "the store is opened at the start";
        match (kind, &new.kind) {
            (StoreKind::Journal(old), StoreKind::Journal(new)) => {
                self.fixed("store.folder", old, new, opened);
            }
            (StoreKind::Shared(old), StoreKind::Shared(new)) => self.shared_store(old, new, opened),
            (old, new) => self.fixed("store.kind", old, new, opened),
        }
        self.plain("store.usage_interval_ms", usage_interval, &new.usage_interval, millis);
        let loss = |serves: &bool| if *serves { "continue" } else { "refuse" }.to_owned();
        self.plain("store.on_store_loss", serves_without_store, &new.serves_without_store, loss);
        let stop = |keeps: &bool| if *keeps { "keep" } else { "release" }.to_owned();
        self.plain("store.on_stop", keeps_at_stop, &new.keeps_at_stop, stop);
    }

    fn shared_store(&mut self, old: &SharedStoreSettings, new: &SharedStoreSettings, why: &str) {
        let SharedStoreSettings {
            servers,
            name,
            username,
            password_file,
            tls,
            acknowledge_replicas,
            wait,
            lease,
            replication,
        } = old;
        self.fixed("store.servers", servers, &new.servers, why);
        self.fixed("store.name", name, &new.name, why);
        self.fixed("store.username", username, &new.username, why);
        self.fixed("store.password_file", password_file, &new.password_file, why);
        self.fixed("store.tls", tls, &new.tls, why);
        let replicas = &new.acknowledge_replicas;
        self.fixed("store.acknowledge_replicas", acknowledge_replicas, replicas, why);
        self.fixed("store.transport", wait, &new.wait, why);
        self.fixed("store.lease_ms", lease, &new.lease, why);
        self.fixed("store.replication", replication, &new.replication, why);
    }

    fn api(&mut self, old: Option<&ApiSettings>, new: Option<&ApiSettings>) {
        let (Some(old), Some(new)) = (old, new) else {
            return self.fixed("api", &old, &new, LISTENING);
        };
        let ApiSettings { listen, tls, tokens_file } = old;
        self.fixed("api.listen", listen, &new.listen, LISTENING);
        let path = |path: Option<&std::path::PathBuf>| {
            path.map_or_else(|| "none".to_owned(), |path| path.display().to_string())
        };
        let certificate = |of: &ApiSettings| path(of.tls.as_ref().map(|tls| &tls.certificate));
        let key = |of: &ApiSettings| path(of.tls.as_ref().map(|tls| &tls.key));
        if tls != &new.tls {
            self.plain("api.tls_certificate", &certificate(old), &certificate(new), String::clone);
            self.plain("api.tls_key", &key(old), &key(new), String::clone);
        }
        let tokens = |tokens: &Option<std::path::PathBuf>| path(tokens.as_ref());
        self.plain("api.tokens_file", tokens_file, &new.tokens_file, tokens);
    }
}

fn millis(of: &Nanos) -> String {
    format!("{} ms", of.0 / 1_000_000)
}

fn words<T: ToString>(of: &[T]) -> String {
    of.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
