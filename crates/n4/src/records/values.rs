//! The values of records: the version of this file's structures, then the structure (postcard).
//!
//! `docs/internals/store.md` describes them. A change of a structure raises [`RECORD_VERSION`], and
//! the previous structures stay readable.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use adit_pfcp::ie::{
    FqCsidNode, GtpuPathInterfaceType, QosReportTrigger, RatType, SNssai, TransportLevelMarking,
};
use adit_session::{CpFSeid, OwnerId, PackedRecordError, Refusal, UsageReport};
use adit_store::{RecordKey, RecordKind};
use adit_types::{Nanos, Seid};
use serde::{Deserialize, Serialize};

use crate::association::{Association, NodeIdentity, RestartClaim};
use crate::path_qos::{PacketDelays, PathQosControl};
use crate::response_cache::RequestKey;
use crate::session_state::{EndedSession, SessionInformation, SetKey, UnacknowledgedUsage};
use crate::smf_set::SmfSet;

/// The version of the values of records, their first octet.
pub const RECORD_VERSION: u8 = 1;

/// Why a record cannot be restored.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordError {
    /// The octets are of a version that this program does not read.
    Version(u8),
    /// The octets are no record of their kind.
    Malformed,
    /// The session's own part.
    Session(PackedRecordError),
    /// The configuration, or another session, forbids the session now.
    Refused(Refusal),
    /// There is no association for it.
    NoAssociation,
    /// The configuration forbids the PFDs now.
    Pfds,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => {
                write!(
                    f,
                    "the record has version {version}, this program reads version {RECORD_VERSION}"
                )
            }
            Self::Malformed => f.write_str("the record is malformed"),
            Self::Session(error) => error.fmt(f),
            Self::Refused(refusal) => write!(f, "{refusal}"),
            Self::NoAssociation => f.write_str("its association is gone"),
            Self::Pfds => f.write_str("these PFDs are beyond the limits now"),
        }
    }
}

impl core::error::Error for RecordError {}

impl From<PackedRecordError> for RecordError {
    fn from(error: PackedRecordError) -> Self {
        Self::Session(error)
    }
}

/// A value behind its version.
pub(crate) fn encoded<T: Serialize>(value: &T) -> Vec<u8> {
    let encoded = postcard::to_extend(value, vec![RECORD_VERSION]);
    // Encoding cannot fail: the structures have known lengths, and a vector grows.
    encoded.unwrap_or_default()
}

/// The value that `octets` are.
///
/// # Errors
/// Another version, or octets that are no such value.
pub(crate) fn decoded<'a, T: Deserialize<'a>>(octets: &'a [u8]) -> Result<T, RecordError> {
    match octets.split_first() {
        None => Err(RecordError::Malformed),
        Some((&RECORD_VERSION, rest)) => match postcard::take_from_bytes(rest) {
            Ok((value, [])) => Ok(value),
            _ => Err(RecordError::Malformed),
        },
        Some((&version, _)) => Err(RecordError::Version(version)),
    }
}

/// The record that says when the records changed last, by the node's clock: no record is later by
/// [`CLOCK_MARK_INTERVAL`] or more. Release 0.1.0 ignores it: it has the name of an association
/// that there cannot be.
pub const CLOCK_MARK: RecordKey<'static> = RecordKey::number(RecordKind::Association, 1 << 32);

/// How often the mark follows the clock, while records change.
pub const CLOCK_MARK_INTERVAL: Nanos = Nanos::from_secs(10);

/// The time that the octets of a [`CLOCK_MARK`] are.
///
/// # Errors
/// Another version, or octets that are no time.
pub fn clock_mark(octets: &[u8]) -> Result<Nanos, RecordError> {
    decoded(octets).map(Nanos)
}

/// The node's own record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// When the node started first. Unit: seconds since 1900-01-01 (NTP).
    pub recovery_time_stamp: u32,
    /// The time of day at zero of the node's clock, which later processes continue. Unit:
    /// nanoseconds since 1900-01-01.
    pub clock_zero: u64,
    /// The last name given to an association.
    pub(crate) last_owner: u32,
}

impl NodeRecord {
    /// Its name.
    pub const KEY: RecordKey<'static> = RecordKey::number(RecordKind::Node, 0);

    /// The node that the octets of a record are.
    ///
    /// # Errors
    /// Another version, or octets that are no such record.
    pub fn from_octets(octets: &[u8]) -> Result<Self, RecordError> {
        decoded(octets)
    }
}

/// An association.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AssociationValue {
    node_id: NodeIdentity,
    port: u16,
    owner: u32,
    recovery_time_stamp: u32,
    is_time_stamp_unknown: bool,
    since: u64,
    cp_function_features: u64,
    smf_set: Option<Vec<u8>>,
    alternatives: Vec<IpAddr>,
    pub nf_instance_id: Option<[u8; 16]>,
    /// Associations that ended, whose sessions are on their way to this one.
    pub predecessors: Vec<u32>,
    controls: Vec<PathControlValue>,
}

/// A [`PathQosControl`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PathControlValue {
    peers: Vec<IpAddr>,
    interfaces: u8,
    triggers: u8,
    markings: Vec<u16>,
    period: u64,
    thresholds: [Option<u64>; 3],
    wait: u64,
}

impl AssociationValue {
    pub(crate) fn new(
        association: &Association,
        nf_instance_id: Option<[u8; 16]>,
        predecessors: &[OwnerId],
        controls: impl Iterator<Item = PathQosControl>,
    ) -> Self {
        Self {
            node_id: association.node_id.clone(),
            port: association.port,
            owner: association.owner.0,
            recovery_time_stamp: association.recovery_time_stamp,
            is_time_stamp_unknown: association.is_time_stamp_unknown,
            since: association.since.0,
            cp_function_features: association.cp_function_features,
            smf_set: association.smf_set.id.clone(),
            alternatives: association.smf_set.alternatives.clone(),
            nf_instance_id,
            predecessors: predecessors.iter().map(|owner| owner.0).collect(),
            controls: controls.map(PathControlValue::from).collect(),
        }
    }

    pub(crate) fn controls(&mut self) -> Vec<PathQosControl> {
        core::mem::take(&mut self.controls).into_iter().map(PathQosControl::from).collect()
    }

    /// The association at `address` of a node with `time_stamp`; a Heartbeat Request to it is due
    /// at once.
    pub(crate) fn into_association(
        self,
        now: Nanos,
        address: IpAddr,
        time_stamp: u32,
    ) -> Association {
        Association {
            node_id: self.node_id,
            address,
            port: self.port,
            owner: OwnerId(self.owner),
            recovery_time_stamp: self.recovery_time_stamp,
            since: Nanos(self.since),
            cp_function_features: self.cp_function_features,
            smf_set: SmfSet { id: self.smf_set, alternatives: self.alternatives },
            own_time_stamp: time_stamp,
            silent_until: None,
            is_time_stamp_unknown: self.is_time_stamp_unknown,
            older_time_stamp: None,
            restart_claim: RestartClaim::None,
            next_heartbeat: now,
            heartbeat_in_flight: false,
            release_due: None,
        }
    }
}

impl From<PathQosControl> for PathControlValue {
    fn from(control: PathQosControl) -> Self {
        let PathQosControl { peers, interfaces, triggers, markings, period, thresholds, wait } =
            control;
        let PacketDelays { average, least, greatest } = thresholds;
        Self {
            peers: peers.into_iter().collect(),
            interfaces: interfaces.bits(),
            triggers: triggers.bits(),
            markings: markings.iter().map(|marking| marking.0).collect(),
            period: period.0,
            thresholds: [average, least, greatest].map(|delay| delay.map(|delay| delay.0)),
            wait: wait.0,
        }
    }
}

impl From<PathControlValue> for PathQosControl {
    fn from(value: PathControlValue) -> Self {
        let [average, least, greatest] = value.thresholds.map(|delay| delay.map(Nanos));
        Self {
            peers: value.peers.into_iter().collect(),
            interfaces: GtpuPathInterfaceType::from_bits_retain(value.interfaces),
            triggers: QosReportTrigger::from_bits_retain(value.triggers),
            markings: value.markings.into_iter().map(TransportLevelMarking).collect(),
            period: Nanos(value.period),
            thresholds: PacketDelays { average, least, greatest },
            wait: Nanos(value.wait),
        }
    }
}

/// Parts of an association that release 0.1.0 does not read: a record of its own, named by the
/// association's number. Without it, the time stamp is the node's, and the peer answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeerStateValue {
    own_time_stamp: u32,
    silent_until: Option<u64>,
}

impl PeerStateValue {
    /// `None` if a node with `time_stamp` needs no record.
    pub(crate) fn of(association: &Association, time_stamp: u32) -> Option<Self> {
        let Association { own_time_stamp, silent_until, .. } = *association;
        let is_usual = own_time_stamp == time_stamp && silent_until.is_none();
        let silent_until = silent_until.map(|until| until.0);
        (!is_usual).then_some(Self { own_time_stamp, silent_until })
    }

    pub(crate) fn apply(self, association: &mut Association) {
        association.own_time_stamp = self.own_time_stamp;
        association.silent_until = self.silent_until.map(Nanos);
    }
}

/// The PFDs of one application: flow descriptions by association, the latest last.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PfdValue(pub Vec<(u32, Vec<String>)>);

/// A session: its own octets, and the node's state of it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionValue<'a> {
    /// [`KeptSession::octets`](adit_session::KeptSession::octets).
    pub kept: &'a [u8],
    pub information: Option<InformationValue>,
    pub sets: Vec<SetValue>,
    pub former_cp: Option<CpFSeidValue>,
}

/// A [`CpFSeid`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CpFSeidValue(u64, Option<Ipv4Addr>, Option<Ipv6Addr>);

impl From<CpFSeid> for CpFSeidValue {
    fn from(CpFSeid { seid, v4, v6 }: CpFSeid) -> Self {
        Self(seid.0, v4, v6)
    }
}

impl From<CpFSeidValue> for CpFSeid {
    fn from(CpFSeidValue(seid, v4, v6): CpFSeidValue) -> Self {
        Self { seid: Seid(seid), v4, v6 }
    }
}

/// A [`SessionInformation`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InformationValue {
    dnn: Option<String>,
    s_nssai: Option<(u8, u32)>,
    rat_type: Option<u8>,
    user: Vec<(String, String)>,
}

impl From<&SessionInformation> for InformationValue {
    fn from(information: &SessionInformation) -> Self {
        let text =
            |(kind, masked): &(&'static str, Box<str>)| (kind.to_string(), masked.to_string());
        Self {
            dnn: information.dnn.as_deref().map(str::to_owned),
            s_nssai: information.s_nssai.map(|slice| (slice.sst, slice.sd)),
            rat_type: information.rat_type.map(|rat_type| rat_type.code()),
            user: information.user.iter().map(text).collect(),
        }
    }
}

impl From<InformationValue> for SessionInformation {
    fn from(value: InformationValue) -> Self {
        let known = |(kind, masked): (String, String)| {
            let kind = SessionInformation::IDENTITIES.into_iter().find(|known| *known == kind)?;
            Some((kind, masked.into()))
        };
        Self {
            dnn: value.dnn.map(Into::into),
            s_nssai: value.s_nssai.map(|(sst, sd)| SNssai { sst, sd }),
            rat_type: value.rat_type.map(RatType::from_code),
            user: value.user.into_iter().filter_map(known).collect(),
        }
    }
}

/// A [`SetKey`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SetValue {
    Ipv4(Ipv4Addr, u16),
    Ipv6(Ipv6Addr, u16),
    Number(u32, u16),
    Group(Vec<u8>),
}

impl From<&SetKey> for SetValue {
    fn from(key: &SetKey) -> Self {
        match key {
            SetKey::Csid(FqCsidNode::Ipv4(addr), csid) => Self::Ipv4(*addr, *csid),
            SetKey::Csid(FqCsidNode::Ipv6(addr), csid) => Self::Ipv6(*addr, *csid),
            SetKey::Csid(FqCsidNode::Number(number), csid) => Self::Number(*number, *csid),
            SetKey::Group(id) => Self::Group(id.clone()),
        }
    }
}

impl From<SetValue> for SetKey {
    fn from(value: SetValue) -> Self {
        match value {
            SetValue::Ipv4(addr, csid) => Self::Csid(FqCsidNode::Ipv4(addr), csid),
            SetValue::Ipv6(addr, csid) => Self::Csid(FqCsidNode::Ipv6(addr), csid),
            SetValue::Number(number, csid) => Self::Csid(FqCsidNode::Number(number), csid),
            SetValue::Group(id) => Self::Group(id),
        }
    }
}

/// Usage reports of a session that its CP function has not acknowledged.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReportsValue {
    pub owner: u32,
    /// Where they go, if the session is gone.
    pub ended: Option<EndedValue>,
    /// [`UsageReport::octets`](adit_session::UsageReport::octets) of each.
    pub usage: Vec<Vec<u8>>,
}

impl From<&UnacknowledgedUsage> for ReportsValue {
    fn from(unacknowledged: &UnacknowledgedUsage) -> Self {
        let UnacknowledgedUsage { owner, ended, reports } = unacknowledged;
        let usage = reports.iter().map(UsageReport::octets).collect();
        Self { owner: owner.0, ended: ended.as_ref().map(Into::into), usage }
    }
}

/// An [`EndedSession`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndedValue {
    to: SocketAddr,
    cp_seid: u64,
    owner: u32,
    by_us: bool,
}

impl From<&EndedSession> for EndedValue {
    fn from(ended: &EndedSession) -> Self {
        let EndedSession { to, cp_seid, owner, by_us, .. } = *ended;
        Self { to, cp_seid: cp_seid.0, owner: owner.0, by_us }
    }
}

impl From<EndedValue> for EndedSession {
    fn from(EndedValue { to, cp_seid, owner, by_us }: EndedValue) -> Self {
        let (cp_seid, owner) = (Seid(cp_seid), OwnerId(owner));
        Self { to, cp_seid, owner, by_us, is_read: true }
    }
}

/// An answer, for a retransmission of its request.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AnswerValue {
    /// Its place in the order of all answers.
    pub number: u64,
    pub at: u64,
    /// The association of the peer by then.
    pub owner: Option<u32>,
    pub peer: IpAddr,
    port: u16,
    message_type: u8,
    sequence: u32,
    digest: u64,
    pub octets: Vec<u8>,
}

/// An answer that leaves, and its request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptAnswer<'a> {
    pub at: Nanos,
    /// The association of the peer.
    pub owner: Option<OwnerId>,
    pub peer: IpAddr,
    pub key: RequestKey,
    pub octets: &'a [u8],
}

impl AnswerValue {
    pub(crate) fn new(number: u64, answer: KeptAnswer<'_>) -> Self {
        let KeptAnswer { at: Nanos(at), owner, peer, key, octets } = answer;
        let RequestKey { port, message_type, sequence, digest } = key;
        let (owner, octets) = (owner.map(|owner| owner.0), octets.to_vec());
        Self { number, at, owner, peer, port, message_type, sequence, digest, octets }
    }

    pub(crate) const fn key(&self) -> RequestKey {
        let Self { port, message_type, sequence, digest, .. } = *self;
        RequestKey { port, message_type, sequence, digest }
    }
}
