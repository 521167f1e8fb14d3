//! A node with two control functions and a session of each, and the checks after every datagram.

use std::net::{Ipv4Addr, SocketAddr};

use adit_n4::NodeIdentity;
use adit_pfcp::ie::FailedRuleId;
use adit_pfcp::{Cause, IeType, Message};
use adit_rules::sdf::AddrMatch;
use adit_session::UePool;
use adit_types::Seid;

use crate::smf::*;

/// The answer of a node to a datagram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum NodeAnswer {
    Nothing,
    /// A response without a Cause.
    Other,
    Refused(Cause, Option<IeType>, Option<FailedRuleId>),
    Accepted,
}

impl NodeAnswer {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let (cause, ie, rule) = match decode(bytes) {
            Message::AssociationSetupResponse(b) => (b.cause, None, None),
            Message::AssociationUpdateResponse(b) => (b.cause, None, None),
            Message::AssociationReleaseResponse(b) => (b.cause, None, None),
            Message::SessionEstablishmentResponse(b) => (b.cause, b.offending_ie, b.failed_rule_id),
            Message::SessionModificationResponse(b) => (b.cause, b.offending_ie, b.failed_rule_id),
            Message::SessionDeletionResponse(b) => (b.cause, b.offending_ie, None),
            _ => return Self::Other,
        };
        match cause {
            Cause::RequestAccepted => Self::Accepted,
            cause => Self::Refused(cause, ie.map(|ie| IeType(ie.0)), rule),
        }
    }
}

/// The usual node with a pool of IPv4 UE addresses.
pub(crate) fn config_with_pool(prefix: &str) -> adit_n4::NodeConfig {
    let prefix = AddrMatch::V4(prefix.parse().unwrap());
    let pool = UePool { network_instance: None, identity: None, s_nssai: None, prefix };
    let mut config = config();
    config.store.provisioning.ue_pools = vec![pool];
    config
}

pub(crate) struct Victim {
    pub bench: Bench,
    /// The session of `smf(10)`, CP SEID 0xa10.
    pub session: Seid,
    /// The session of `smf(11)`, CP SEID 0xa11.
    pub stranger: Seid,
}

impl Victim {
    pub(crate) fn new() -> Self {
        Self::with(config_with_pool("10.60.0.0/24"))
    }

    pub(crate) fn with(config: adit_n4::NodeConfig) -> Self {
        let mut bench = Bench::with(config);
        bench.associate(10);
        bench.associate(11);
        let session = bench.session(smf(10), 900, &SessionScript::new(0xa10, 10));
        let stranger = bench.session(smf(11), 900, &SessionScript::new(0xa11, 11));
        Self { bench, session, stranger }
    }

    fn identities(&self) -> Vec<(NodeIdentity, u32)> {
        let all = self.bench.node.associations();
        all.map(|a| (a.node_id.clone(), a.recovery_time_stamp)).collect()
    }

    /// Sends the datagram. Unless the node accepts it, nothing may change. The node still works,
    /// and no change waits.
    #[track_caller]
    pub(crate) fn send(&mut self, from: SocketAddr, bytes: &[u8]) -> NodeAnswer {
        let (store, identities) = (self.bench.node.store().clone(), self.identities());
        let sent = self.bench.ask(from, bytes);
        assert!(sent.iter().all(|sent| sent.to == from), "{sent:?}");
        assert!(sent.len() <= 1, "one answer at most: {sent:?}");
        let said = sent.first().map_or(NodeAnswer::Nothing, |sent| NodeAnswer::of(&sent.bytes));
        if said != NodeAnswer::Accepted {
            assert!(*self.bench.node.store() == store, "{said:?} and yet the store changed");
            assert_eq!(self.identities(), identities, "{said:?}");
        }
        assert_eq!(self.bench.node.pending_len(), 0);
        self.assert_alive();
        said
    }

    /// As [`Self::send`], from the associated `smf(10)`; the node must not accept it.
    #[track_caller]
    pub(crate) fn refuses(&mut self, bytes: &[u8]) -> NodeAnswer {
        let said = self.send(smf(10), bytes);
        assert_ne!(said, NodeAnswer::Accepted);
        said
    }

    #[track_caller]
    fn assert_alive(&mut self) {
        let from = SocketAddr::from((Ipv4Addr::new(203, 0, 113, 200), 9999));
        let answer = self.bench.answer(from, &heartbeat(1, 1));
        assert!(matches!(decode(&answer), Message::HeartbeatResponse(_)));
    }

    /// Checks that the sessions exist, can be modified and deleted, and that a new one can be
    /// established.
    #[track_caller]
    pub(crate) fn assert_sessions_usable(&mut self) {
        for (from, up_seid) in [(smf(10), self.session), (smf(11), self.stranger)] {
            let moved = self.send(from, &move_to(0x00e0_0001, up_seid, adit_types::Teid(0x7777)));
            assert_eq!(moved, NodeAnswer::Accepted);
            assert_eq!(self.send(from, &delete(0x00e0_0002, up_seid)), NodeAnswer::Accepted);
        }
        assert_eq!(self.bench.node.store().len(), 0);
        self.bench.session(smf(10), 0x00e0_0003, &SessionScript::new(0xb10, 10));
    }

    /// As [`Self::assert_sessions_usable`], with a full store.
    #[track_caller]
    pub(crate) fn assert_sessions_usable_when_full(&mut self) {
        assert_eq!(self.send(smf(10), &delete(0x00e0_0000, self.session)), NodeAnswer::Accepted);
        let script = SessionScript::new(0xb11, 210);
        self.session = self.bench.session(smf(10), 0x00e0_0010, &script);
        for (from, up_seid) in [(smf(10), self.session), (smf(11), self.stranger)] {
            assert_eq!(self.send(from, &delete(0x00e0_0011, up_seid)), NodeAnswer::Accepted);
        }
    }

    /// Checks the number of sessions, and that the first two are among them.
    #[track_caller]
    pub(crate) fn assert_alive_with(&mut self, sessions: usize) {
        assert_eq!(self.bench.node.store().len(), sessions);
        for up_seid in [self.session, self.stranger] {
            assert!(self.bench.node.store().session(up_seid).is_some());
        }
    }
}
