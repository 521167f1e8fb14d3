//! The answers to all questions of `adit init`, and the values that follow from them.

use std::net::IpAddr;

use super::ports::ChosenPort;
use crate::cli::{CoreKind, PoolText, PortChoice};
use crate::config::IpNet;
use crate::host_checks::TUNNEL_BYTES;

/// Network instance of N6 in the default configuration of OAI's SMF.
const OAI_N6_INSTANCE_DEFAULT: &str = "core.oai.org";

/// The answers to all questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InitPlan {
    pub core: CoreKind,
    pub n4: IpNet,
    pub smf: Option<IpAddr>,
    pub n3: ChosenPort,
    pub n6: ChosenPort,
    pub n3_gateway: Option<IpAddr>,
    pub n6_gateways: Vec<IpAddr>,
    pub pools: Vec<PoolText>,
    /// CPUs of this host.
    pub cpus: Vec<u32>,
}

impl InitPlan {
    /// Returns the DNNs of the pools, each once.
    pub(super) fn dnns(&self) -> Vec<&str> {
        let mut dnns: Vec<&str> = Vec::new();
        for pool in &self.pools {
            if !dnns.contains(&pool.dnn.as_str()) {
                dnns.push(&pool.dnn);
            }
        }
        dnns
    }

    /// The network instance of N6; `None` if N6 serves several DNNs.
    pub(super) fn network_instance(&self) -> Option<&str> {
        match (self.core, &self.dnns()[..]) {
            (CoreKind::Oai, _) => Some(OAI_N6_INSTANCE_DEFAULT),
            (_, [dnn]) => Some(dnn),
            _ => None,
        }
    }

    /// The pools that the configuration must have: for routes of the kernel, or because the SMF
    /// requests UE addresses from adit.
    pub(super) fn configured_pools(&self) -> &[PoolText] {
        let is_needed = self.n6.kind == PortChoice::Kernel || self.core == CoreKind::SdCore;
        if is_needed { &self.pools } else { &[] }
    }

    /// Returns the prefixes that N4 peers may have: the link of N4, and the SMF if it is elsewhere.
    pub(super) fn allowed(&self) -> Vec<IpNet> {
        let link = self.n4.to_prefix();
        let smf = self.smf.map(IpNet::host);
        let smf = smf.filter(|smf| !smf.overlaps(link));
        std::iter::once(link).chain(smf).collect()
    }

    /// True if the longest packets of N6 do not fit N3 with their tunnel headers.
    pub(super) fn clamps_mss(&self) -> bool {
        self.n3.mtu_bytes < self.n6.mtu_bytes + TUNNEL_BYTES
    }

    /// Returns a fault that only the answers together show, as a sentence; `None` if there is none.
    pub(super) fn fault(&self) -> Option<String> {
        let is_same = self.n3.kind != PortChoice::Kernel && self.n3.device == self.n6.device;
        let shared = [&self.n3, &self.n6].map(|port| port.device.split_once("iface="));
        let names = shared.map(|of| of.map(|(_, name)| name));
        if is_same || names[0].is_some() && names[0] == names[1] {
            let device = names[0].unwrap_or(&self.n3.device);
            return Some(format!(
                "N3 and N6 are both on {device}: name two devices, or addresses of this host, which give ports of the kernel"
            ));
        }
        let overlapping = (1..self.pools.len()).find_map(|at| {
            let (before, pool) = (&self.pools[..at], &self.pools[at]);
            Some((before.iter().find(|other| other.prefix.overlaps(pool.prefix))?, pool))
        });
        if let Some((one, other)) = overlapping {
            return Some(format!(
                "the UE pools {} and {} overlap: give each UE address to one of them",
                one.prefix, other.prefix
            ));
        }
        let links = || self.n3.links.iter().chain(&self.n6.links).chain([&self.n4]);
        let taken = self
            .pools
            .iter()
            .find_map(|pool| Some((pool, links().find(|link| link.overlaps(pool.prefix))?)));
        taken.map(|(pool, link)| {
            format!(
                "the UE pool {} overlaps the link of {link}: take other addresses for UEs",
                pool.prefix
            )
        })
    }
}
