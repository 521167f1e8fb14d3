//! Network instances as routing domains: the data networks that a session's rules apply to.

use adit_rules::DestinationInterface;
use adit_session::{Forwarding, PdrSpec};

use super::records::OracleSession;
use super::{Oracle, OracleRole, policy_of};

impl Oracle {
    /// True if every data network has a name: each can then use the same UE addresses.
    pub(super) fn are_separate(&self) -> bool {
        let mut networks =
            self.interfaces.iter().filter(|interface| interface.role == OracleRole::N6);
        networks.all(|interface| interface.network_instance.is_some())
    }

    /// True if a rule of the session with `name`, or without one, applies to the interface at `at`.
    /// If data networks are separate, a rule without a name applies to those that other rules of
    /// the session name.
    pub(super) fn is_about(&self, session: &OracleSession, name: Option<&str>, at: usize) -> bool {
        let interface = &self.interfaces[at];
        if name.is_some() || interface.role != OracleRole::N6 || !self.are_separate() {
            return interface.serves(name);
        }
        let named = self.names(session);
        named.is_empty() || named.iter().any(|name| interface.serves(Some(name)))
    }

    /// The interfaces of the data networks that a rule of the session with `name`, or without one,
    /// applies to.
    pub(super) fn networks(&self, session: &OracleSession, name: Option<&str>) -> Vec<usize> {
        let all = 0..self.interfaces.len();
        let is_one = |at: &usize| self.interfaces[*at].role == OracleRole::N6;
        all.filter(|at| is_one(at) && self.is_about(session, name, *at)).collect()
    }

    /// The data networks that the session names: those that its packets come from or that its FARs
    /// send them to, without a tunnel. Unknown names are ignored.
    fn names<'a>(&'a self, session: &'a OracleSession) -> Vec<&'a str> {
        let from = session.pdrs.iter().filter(|pdr| is_from_a_network(pdr));
        let from = from.filter_map(|pdr| pdr.pdi.network_instance.as_deref());
        let parts = session.fars.iter().filter_map(|far| far.forwarding.as_ref());
        let to = parts.filter(|parts| {
            let is_tunnel =
                parts.outer_header_creation.is_some_and(|outer| outer.tunnel().is_some());
            let side = parts.destination;
            !is_tunnel
                && matches!(side, DestinationInterface::Core | DestinationInterface::SgiLanN6Lan)
        });
        let all = from.chain(to.filter_map(|parts| self.name_of(parts)));
        let is_known = |name: &&str| {
            let mut networks = self.interfaces.iter().filter(|known| known.role == OracleRole::N6);
            networks.any(|known| known.network_instance == Some(name))
        };
        all.filter(is_known).collect()
    }

    /// The network instance of the forwarding policy or, without one, of the FAR.
    pub(super) fn name_of<'a>(&self, parts: &'a Forwarding) -> Option<&'a str> {
        let named = policy_of(parts).and_then(|policy| policy.network_instance);
        named.or(parts.network_instance.as_deref())
    }
}

/// True if packets of the PDR arrive without a tunnel.
pub(super) fn is_from_a_network(pdr: &PdrSpec) -> bool {
    pdr.pdi.source.is_network() && pdr.pdi.f_teid.is_none()
}
