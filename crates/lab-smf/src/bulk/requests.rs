//! Requests for one of many sessions, and the evaluation of their answers.

use std::net::{IpAddr, Ipv4Addr};

use adit_lab_engine::frame::PROBE_PORT;
use adit_pfcp::grouped::{
    CreateQer, CreateUrr, ForwardingParameters, UpdateFar, UpdateForwardingParameters,
};
use adit_pfcp::ie::{
    ApplyAction, AveragingWindow, DestinationInterface, FTeid, FTeidAddress, GateStatus, Gbr, Mbr,
    MeasurementMethod, NetworkInstance, Nullable, OuterHeaderCreation, QerCorrelationId,
    ReportingTriggers, UeIpAddress, VolumeThreshold,
};
use adit_pfcp::message::{SessionDeletionRequest, SessionModificationRequest};
use adit_pfcp::{Message, encode};
use adit_types::{BitRate, PdrId, QerId, Seid, Teid, UrrId};
use anyhow::{Context, Result, bail};

use crate::answer::check_cause;
use crate::bulk::{SessionsConfig, TeidAllocation, UpfSessionIds};
use crate::exchange::Procedure;
use crate::identity::SmfIdentity;
use crate::profile::{Kbps, SessionProfile};
use crate::rules::{FlowPdr, LabSessionRules, forward};
use crate::single::{DOWNLINK_FAR, UPLINK_FAR, UPLINK_PDR};

/// A volume threshold beyond reach: the URR measures but never reports.
const UNREACHED_THRESHOLD_BYTES: u64 = 1 << 60;
/// Identifier of the first downlink PDR. Uplink PDRs have odd identifiers, downlink PDRs even ones.
const DOWNLINK_PDR: PdrId = PdrId(2);
/// Precedence of the PDRs for all traffic; PDRs with filters have lower values.
const PRECEDENCE: u32 = 255;

/// The procedure that establishes sessions.
#[derive(Debug)]
pub struct Establishment<'c> {
    /// The sessions.
    pub config: &'c SessionsConfig,
    /// The SMF.
    pub identity: &'c SmfIdentity,
    /// Identifiers allocated by the UPF.
    pub sessions: &'c mut UpfSessionIds,
}

impl<'c> Establishment<'c> {
    /// Prepares to establish up to `count` sessions in all.
    pub fn new(
        config: &'c SessionsConfig,
        identity: &'c SmfIdentity,
        sessions: &'c mut UpfSessionIds,
        count: u32,
    ) -> Self {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        sessions.up_seids.resize(count, 0);
        sessions.uplink_teids.resize(count, 0);
        Self { config, identity, sessions }
    }
}

/// The QERs and URRs of a profile, and its flow descriptions.
struct ProfileRules {
    qers: Vec<CreateQer<'static>>,
    urrs: Vec<CreateUrr<'static>>,
    /// Flow descriptions of both directions, in downlink notation.
    flows: Vec<String>,
}

impl ProfileRules {
    fn of(profile: &SessionProfile) -> Self {
        let mut qers = Vec::new();
        let each = |rate: Kbps| rate.each_bps().map(BitRate::from_bps);
        let mbr = |rate: Option<Kbps>| rate.map(each).map(|[up, down]| Mbr::new(up, down));
        let window = profile.averaging_window_ms.map(AveragingWindow);
        if let Some(qfi) = profile.qfi() {
            let (mbr, gbr) = (mbr(profile.flow_mbr_kbps), profile.flow_gbr_kbps.map(each));
            qers.push(CreateQer {
                qfi: Some(qfi),
                mbr,
                gbr: gbr.map(|[up, down]| Gbr::new(up, down)),
                averaging_window: window.filter(|_| mbr.is_some() || gbr.is_some()),
                ..CreateQer::new(QerId(1), GateStatus::OPEN)
            });
        }
        for (id, at) in (2..).zip(0..u32::from(profile.rate_qers)) {
            let correlation = profile.correlation_id.map(|first| first.wrapping_add(at));
            let mbr = mbr(profile.mbr_kbps);
            qers.push(CreateQer {
                mbr,
                qer_correlation_id: correlation.map(QerCorrelationId),
                averaging_window: window.filter(|_| mbr.is_some()),
                ..CreateQer::new(QerId(id), GateStatus::OPEN)
            });
        }
        let total = Some(profile.urr_threshold_bytes.unwrap_or(UNREACHED_THRESHOLD_BYTES));
        let threshold = VolumeThreshold { total, ..VolumeThreshold::default() };
        let urr = |id| CreateUrr {
            volume_threshold: Some(threshold),
            ..CreateUrr::new(UrrId(id), MeasurementMethod::VOLUM, ReportingTriggers::VOLTH)
        };
        let urrs: Vec<_> = (1..).take(usize::from(profile.urrs)).map(urr).collect();
        let flow = |at: u8| {
            let is_last = at + 1 == profile.flows;
            let port =
                if is_last && profile.match_flow { PROBE_PORT } else { 1000 + u16::from(at) };
            format!("permit out ip from any {port} to assigned")
        };
        Self { qers, urrs, flows: (0..profile.flows).map(flow).collect() }
    }
}

impl SessionsConfig {
    /// Returns the rules of a session.
    fn profile(&self, index: u32) -> &SessionProfile {
        let mut before = 0u32;
        let found = self.profiles.iter().find(|(count, _)| {
            before = before.saturating_add(*count);
            index < before
        });
        found.map_or(&self.profile, |(_, profile)| profile)
    }

    /// Returns the gNB address of a session that has moved `moves` times.
    fn gnb(&self, index: u32, moves: u32) -> IpAddr {
        let gnbs = self.gnbs.len().max(1);
        let at = usize::try_from(index.wrapping_add(moves)).unwrap_or_default() % gnbs;
        self.gnbs.get(at).copied().unwrap_or(Ipv4Addr::UNSPECIFIED.into())
    }

    fn downlink_tunnel(&self, index: u32, moves: u32) -> OuterHeaderCreation {
        let teid = Teid(self.gnb_teid.wrapping_add(index));
        match self.gnb(index, moves) {
            IpAddr::V4(gnb) => OuterHeaderCreation::gtpu_ipv4(teid, gnb),
            IpAddr::V6(gnb) => OuterHeaderCreation::gtpu_ipv6(teid, gnb),
        }
    }

    /// Returns the local F-TEID of a session's uplink PDRs. Several PDRs of a session have the same
    /// F-TEID, by a CHOOSE ID if the UPF allocates it.
    fn f_teid(&self, index: u32, has_several_pdrs: bool) -> FTeid {
        match self.teids {
            TeidAllocation::Given(first) => FTeid::Given {
                teid: Teid(first.wrapping_add(index)),
                addr: match self.upf {
                    IpAddr::V4(upf) => FTeidAddress::V4(upf),
                    IpAddr::V6(upf) => FTeidAddress::V6(upf),
                },
            },
            TeidAllocation::Chosen => FTeid::Choose {
                v4: self.upf.is_ipv4(),
                v6: self.upf.is_ipv6(),
                choose_id: has_several_pdrs.then(Default::default),
            },
        }
    }

    /// Writes a Session Establishment Request and returns its length.
    pub(crate) fn establishment(
        &self,
        identity: &SmfIdentity,
        index: u32,
        sequence: u32,
        out: &mut [u8],
    ) -> Result<usize> {
        let profile = self.profile(index);
        let rules = ProfileRules::of(profile);
        let all_traffic = |id, far| FlowPdr {
            sdf: profile.all_traffic_sdf.as_deref(),
            ..FlowPdr::all_traffic(id, PRECEDENCE, far)
        };
        let mut uplinks = vec![all_traffic(UPLINK_PDR, UPLINK_FAR)];
        let mut downlinks = vec![all_traffic(DOWNLINK_PDR, DOWNLINK_FAR)];
        for (flow, at) in rules.flows.iter().zip(1u16..) {
            let pdr = |id, far| FlowPdr {
                sdf: Some(flow),
                ..FlowPdr::all_traffic(PdrId(id), u32::from(at), far)
            };
            uplinks.push(pdr(2 * at + 1, UPLINK_FAR));
            downlinks.push(pdr(2 * at + 2, DOWNLINK_FAR));
        }
        let [access, core] = &self.network_instances;
        let (access, core) =
            (access.as_deref().map(NetworkInstance), core.as_deref().map(NetworkInstance));
        let to_access = ForwardingParameters {
            network_instance: access,
            outer_header_creation: Some(self.downlink_tunnel(index, 0)),
            ..ForwardingParameters::new(DestinationInterface::Access)
        };
        let to_core = ForwardingParameters {
            network_instance: core,
            ..ForwardingParameters::new(DestinationInterface::Core)
        };
        let rules = LabSessionRules {
            cp_seid: Seid(u64::from(index) + 1),
            f_teid: self.f_teid(index, !rules.flows.is_empty()),
            ue: UeIpAddress {
                v4: (!self.ipv6).then(|| self.endpoints.ue_v4(index)),
                v6: self.ipv6.then(|| self.endpoints.ue_v6(index)),
                ..UeIpAddress::default()
            },
            framed_routes: &[],
            network_instances: [access, core],
            uplinks: &uplinks,
            downlinks: &downlinks,
            more_pdrs: &[],
            fars: &[forward(UPLINK_FAR, to_core), forward(DOWNLINK_FAR, to_access)],
            qers: &rules.qers,
            urrs: &rules.urrs,
            bars: &[],
            inactivity: None,
        };
        rules
            .with_request(identity, |request| encode(out, Some(Seid(0)), sequence, request))
            .context("encode an establishment")
    }

    /// Records the identifiers that the UPF allocated for a session.
    pub(crate) fn record_session_ids(
        &self,
        index: u32,
        message: &Message<'_>,
        sessions: &mut UpfSessionIds,
    ) -> Result<()> {
        let Message::SessionEstablishmentResponse(response) = message else {
            bail!("the UPF answered an establishment with {}", message.message_type())
        };
        let offending = response.offending_ie.map(|ie| ie.0);
        check_cause("Session Establishment", response.cause, offending)
            .with_context(|| format!("session {index}"))?;
        let up_f_seid = response.up_f_seid.context("the UPF accepted without an F-SEID")?;
        let teid = match self.teids {
            TeidAllocation::Given(first) => first.wrapping_add(index),
            TeidAllocation::Chosen => {
                let mut created = response.created_pdrs.iter().flat_map(|pdr| pdr.local_f_teids);
                match created.next() {
                    Some(FTeid::Given { teid, .. }) => teid.0,
                    _ => bail!("the UPF accepted without the F-TEID that it had to choose"),
                }
            }
        };
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        if let Some(slot) = sessions.up_seids.get_mut(at) {
            *slot = up_f_seid.seid.0;
        }
        if let Some(slot) = sessions.uplink_teids.get_mut(at) {
            *slot = teid;
        }
        Ok(())
    }
}

impl Procedure for Establishment<'_> {
    fn encode(&mut self, index: u32, sequence: u32, out: &mut [u8]) -> Result<usize> {
        self.config.establishment(self.identity, index, sequence, out)
    }

    fn process_answer(&mut self, index: u32, message: &Message<'_>) -> Result<()> {
        self.config.record_session_ids(index, message, self.sessions)
    }
}

/// Change of the downlink FAR of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FarModification {
    /// Moves the tunnel; the number is how often the UE has moved so far.
    Move(u32),
    /// Buffers packets: the UE is idle.
    Idle,
    /// Forwards packets: the UE is active.
    Active,
}

impl FarModification {
    /// Returns the change of session `index`.
    pub fn far(self, config: &SessionsConfig, index: u32) -> UpdateFar<'static> {
        let far = UpdateFar::new(DOWNLINK_FAR);
        match self {
            Self::Move(moves) => UpdateFar {
                update_forwarding_parameters: Some(UpdateForwardingParameters {
                    outer_header_creation: Some(Nullable::Value(
                        config.downlink_tunnel(index, moves),
                    )),
                    ..UpdateForwardingParameters::new()
                }),
                ..far
            },
            Self::Idle => {
                UpdateFar { apply_action: Some(ApplyAction::BUFF | ApplyAction::NOCP), ..far }
            }
            Self::Active => UpdateFar { apply_action: Some(ApplyAction::FORW), ..far },
        }
    }
}

/// Writes a Session Modification Request and returns its length.
pub fn modification(
    up_seid: u64,
    far: UpdateFar<'_>,
    sequence: u32,
    out: &mut [u8],
) -> Result<usize> {
    let fars = [far];
    let request = SessionModificationRequest {
        update_fars: (&fars).into(),
        ..SessionModificationRequest::new()
    };
    encode(out, Some(Seid(up_seid)), sequence, &request).context("encode a modification")
}

/// Checks the answer to a modification.
pub fn check_modification_answer(index: u32, message: &Message<'_>) -> Result<()> {
    let Message::SessionModificationResponse(response) = message else {
        bail!("the UPF answered a modification with {}", message.message_type())
    };
    let offending = response.offending_ie.map(|ie| ie.0);
    check_cause("Session Modification", response.cause, offending)
        .with_context(|| format!("session {index}"))
}

/// The procedure that deletes sessions.
#[derive(Debug)]
pub struct Deletion<'s> {
    /// The UPF's SEIDs.
    pub up_seids: &'s [u64],
}

/// Writes a Session Deletion Request and returns its length.
pub fn deletion(up_seid: u64, sequence: u32, out: &mut [u8]) -> Result<usize> {
    let request = SessionDeletionRequest::new();
    encode(out, Some(Seid(up_seid)), sequence, &request).context("encode a deletion")
}

/// Checks the answer to a deletion.
pub fn check_deletion_answer(index: u32, message: &Message<'_>) -> Result<()> {
    let Message::SessionDeletionResponse(response) = message else {
        bail!("the UPF answered a deletion with {}", message.message_type())
    };
    let offending = response.offending_ie.map(|ie| ie.0);
    check_cause("Session Deletion", response.cause, offending)
        .with_context(|| format!("session {index}"))
}

impl Procedure for Deletion<'_> {
    fn encode(&mut self, index: u32, sequence: u32, out: &mut [u8]) -> Result<usize> {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        deletion(self.up_seids.get(at).copied().unwrap_or(0), sequence, out)
    }

    fn process_answer(&mut self, index: u32, message: &Message<'_>) -> Result<()> {
        check_deletion_answer(index, message)
    }
}
