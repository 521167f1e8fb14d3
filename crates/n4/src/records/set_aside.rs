//! Sessions of previous processes that this node cannot restore; their records stay in the store.

use core::net::IpAddr;
use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet};

use adit_session::{KeptUsage, OwnerId};
use adit_types::Seid;

use super::values::RecordError;

/// A session that is set aside.
#[derive(Debug)]
pub(crate) struct SetAsideSession {
    pub error: RecordError,
    /// The octets of the session record.
    pub octets: Vec<u8>,
    /// Usage that is later than in the session record.
    pub usage: Option<KeptUsage>,
    /// The octets of the record of usage reports that were not acknowledged.
    pub reports: Option<Vec<u8>>,
    /// The association of the session, if its record can be decoded.
    pub owner: Option<OwnerId>,
    /// The addresses of the UE, if the session record can be decoded.
    pub addresses: Vec<IpAddr>,
    /// True if the index of the session is reserved, so that no other session gets it.
    pub is_reserved: bool,
}

/// The sessions that are set aside.
#[derive(Debug, Default)]
pub(crate) struct SetAsideSessions {
    sessions: BTreeMap<Seid, SetAsideSession>,
    /// The sessions by addresses of their UEs.
    addresses: BTreeSet<(IpAddr, Seid)>,
}

impl SetAsideSessions {
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    pub(crate) fn get(&self, up_seid: Seid) -> Option<&SetAsideSession> {
        self.sessions.get(&up_seid)
    }

    pub(crate) fn get_mut(&mut self, up_seid: Seid) -> Option<&mut SetAsideSession> {
        self.sessions.get_mut(&up_seid)
    }

    pub(crate) fn insert(&mut self, up_seid: Seid, session: SetAsideSession) {
        self.addresses.extend(session.addresses.iter().map(|address| (*address, up_seid)));
        self.sessions.insert(up_seid, session);
    }

    pub(crate) fn remove(&mut self, up_seid: Seid) -> Option<SetAsideSession> {
        let session = self.sessions.remove(&up_seid)?;
        for address in &session.addresses {
            self.addresses.remove(&(*address, up_seid));
        }
        Some(session)
    }

    /// Returns the sessions after `after`, by ascending SEID.
    pub(crate) fn after(&self, after: Option<Seid>) -> impl Iterator<Item = (Seid, &RecordError)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let sessions = self.sessions.range((from, Bound::Unbounded));
        sessions.map(|(up_seid, session)| (*up_seid, &session.error))
    }

    pub(crate) fn of_address(&self, address: IpAddr) -> impl Iterator<Item = Seid> {
        let all = (address, Seid(0))..=(address, Seid(u64::MAX));
        self.addresses.range(all).map(|(_, up_seid)| *up_seid)
    }
}
