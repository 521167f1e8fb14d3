//! Which of our GTP-U interfaces lead to the other end of a tunnel.

use core::net::IpAddr;

use adit_types::{InterfaceId, InterfaceSet, IpPrefix};

/// The links of GTP-U interfaces, and the routes through them. Without any, each interface leads to
/// every address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TunnelRoutes(Vec<(IpPrefix, InterfaceId)>);

impl TunnelRoutes {
    /// These links and routes, in any order.
    #[must_use]
    pub fn new(mut routes: Vec<(IpPrefix, InterfaceId)>) -> Self {
        routes.sort_by_key(|(prefix, _)| core::cmp::Reverse(prefix.len()));
        Self(routes)
    }

    /// The interfaces of `within` that lead to `peer`.
    pub(super) fn towards(&self, within: InterfaceSet, peer: IpAddr) -> InterfaceSet {
        if self.0.is_empty() {
            return within;
        }
        self.leading(within, peer).fold(InterfaceSet::NONE, |set, (_, id)| set.with(id))
    }

    /// The interfaces of `within` whose route to `peer` has the longest prefix.
    pub(super) fn closest(&self, within: InterfaceSet, peer: IpAddr) -> InterfaceSet {
        let Some((longest, _)) = self.leading(within, peer).next() else { return within };
        let closest = self.leading(within, peer).take_while(|(len, _)| *len == longest);
        closest.fold(InterfaceSet::NONE, |set, (_, id)| set.with(id))
    }

    /// Prefix lengths and interfaces, the longest prefix first.
    fn leading(
        &self,
        within: InterfaceSet,
        peer: IpAddr,
    ) -> impl Iterator<Item = (u8, InterfaceId)> + '_ {
        let all = self.0.iter();
        let leading = all.filter(move |(prefix, id)| within.contains(*id) && prefix.contains(peer));
        leading.map(|(prefix, id)| (prefix.len(), *id))
    }
}
