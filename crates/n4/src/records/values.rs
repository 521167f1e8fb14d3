//! The values of records: a version, and a structure of this file (encoded by postcard).
//!
//! `docs/internals/store.md` describes them. A changed structure gets a new [`RECORD_VERSION`], and
//! the former structure stays readable.

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

/// The version of the structures, which is the first octet of each value.
pub const RECORD_VERSION: u8 = 1;

/// The reason why a record cannot be restored.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordError {
    /// The value has a version that this program does not read.
    Version(u8),
    /// The octets do not decode as a record of this kind.
    Malformed,
    /// The part of a session record that the session store encodes cannot be decoded.
    Session(PackedRecordError),
    /// The configuration, or another session, forbids the session now.
    Refused(Refusal),
    /// The session has no association.
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

/// Encodes a value, after its version.
pub(crate) fn encoded<T: Serialize>(value: &T) -> Vec<u8> {
    let encoded = postcard::to_extend(value, vec![RECORD_VERSION]);
    // Encoding cannot fail: the structures have known lengths, and a vector grows.
    encoded.unwrap_or_default()
}

/// Decodes a value.
///
/// # Errors
/// The octets have another version, or are malformed.
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

/// The record of when records changed last, by the node's clock: every change is less than
/// [`CLOCK_MARK_INTERVAL`] later than this time. Release 0.1.0 ignores it, as its key is that of an
/// association which cannot exist.
pub const CLOCK_MARK: RecordKey<'static> = RecordKey::number(RecordKind::Association, 1 << 32);

/// How often the mark is written while records change.
pub const CLOCK_MARK_INTERVAL: Nanos = Nanos::from_secs(10);

/// Decodes the value of a [`CLOCK_MARK`].
///
/// # Errors
/// The octets have another version, or are malformed.
pub fn clock_mark(octets: &[u8]) -> Result<Nanos, RecordError> {
    decoded(octets).map(Nanos)
}

/// The node's own record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// When the node was first started. Unit: seconds since 1900-01-01 (NTP).
    pub recovery_time_stamp: u32,
    /// The time of day when the node's clock was zero; later processes continue this clock. Unit:
    /// nanoseconds since 1900-01-01.
    pub clock_zero: u64,
    /// The identifier that the last new association got.
    pub(crate) last_owner: u32,
}

impl NodeRecord {
    /// The key of this record.
    pub const KEY: RecordKey<'static> = RecordKey::number(RecordKind::Node, 0);

    /// Decodes the node's own record.
    ///
    /// # Errors
    /// The octets have another version, or are malformed.
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
    /// Associations that ended, whose sessions are moving to this association.
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

    /// Returns the association at `address`, with `time_stamp` as our Recovery Time Stamp; a
    /// Heartbeat Request to it is due at once.
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

/// State of an association that release 0.1.0 does not read, in a record of its own, whose
/// identifier is the owner. Without this record, our time stamp is the node's, and the peer is not
/// silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeerStateValue {
    own_time_stamp: u32,
    silent_until: Option<u64>,
}

impl PeerStateValue {
    /// Returns the state; `None` if no record is needed, as our time stamp is `time_stamp` and the
    /// peer is not silent.
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

/// The PFDs of one application: flow descriptions for each association, the latest last.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PfdValue(pub Vec<(u32, Vec<String>)>);

/// The record of a session: what the session store encodes, and the state that the node has of it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionValue<'a> {
    /// [`KeptSession::octets`](adit_session::KeptSession::octets).
    pub kept: &'a [u8],
    pub information: Option<SessionInformationValue>,
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
pub(crate) struct SessionInformationValue {
    dnn: Option<String>,
    s_nssai: Option<(u8, u32)>,
    rat_type: Option<u8>,
    user: Vec<(String, String)>,
}

impl From<&SessionInformation> for SessionInformationValue {
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

impl From<SessionInformationValue> for SessionInformation {
    fn from(value: SessionInformationValue) -> Self {
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
    /// Where the reports go if the session is gone.
    pub ended: Option<EndedSessionValue>,
    /// The octets of each report; see [`UsageReport::octets`](adit_session::UsageReport::octets).
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
pub(crate) struct EndedSessionValue {
    to: SocketAddr,
    cp_seid: u64,
    owner: u32,
    by_us: bool,
}

impl From<&EndedSession> for EndedSessionValue {
    fn from(ended: &EndedSession) -> Self {
        let EndedSession { to, cp_seid, owner, by_us, .. } = *ended;
        Self { to, cp_seid: cp_seid.0, owner: owner.0, by_us }
    }
}

impl From<EndedSessionValue> for EndedSession {
    fn from(EndedSessionValue { to, cp_seid, owner, by_us }: EndedSessionValue) -> Self {
        let (cp_seid, owner) = (Seid(cp_seid), OwnerId(owner));
        Self { to, cp_seid, owner, by_us, is_read: true }
    }
}

/// An answer, to be sent again if its request is retransmitted.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AnswerValue {
    /// Number of the answer among all answers.
    pub number: u64,
    pub at: u64,
    /// The association that the peer had then.
    pub owner: Option<u32>,
    pub peer: IpAddr,
    port: u16,
    message_type: u8,
    sequence: u32,
    digest: u64,
    pub octets: Vec<u8>,
}

/// An answer that is being sent, and the key of its request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptAnswer<'a> {
    pub at: Nanos,
    /// The association that the peer has.
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
