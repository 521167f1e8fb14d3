//! The GTP-U interfaces of ours that lead to the far end of a tunnel.

use core::net::IpAddr;

use adit_types::{InterfaceId, InterfaceSet, IpPrefix};

/// The prefixes of the links of GTP-U interfaces and of the routes through them. If there are none,
/// each interface leads to every address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TunnelRoutes(Vec<(IpPrefix, InterfaceId)>);

impl TunnelRoutes {
    /// Makes a table of links and routes, which may be in any order.
    #[must_use]
    pub fn new(mut routes: Vec<(IpPrefix, InterfaceId)>) -> Self {
        routes.sort_by_key(|(prefix, _)| core::cmp::Reverse(prefix.len()));
        Self(routes)
    }

    /// Returns the interfaces of `within` that lead to `peer`.
    pub(super) fn towards(&self, within: InterfaceSet, peer: IpAddr) -> InterfaceSet {
        if self.0.is_empty() {
            return within;
        }
        self.leading(within, peer).map(|(_, id)| id).collect()
    }

    /// Returns the interfaces of `within` whose route to `peer` has the longest prefix.
    pub(super) fn closest(&self, within: InterfaceSet, peer: IpAddr) -> InterfaceSet {
        let Some((longest, _)) = self.leading(within, peer).next() else { return within };
        let closest = self.leading(within, peer).take_while(|(len, _)| *len == longest);
        closest.map(|(_, id)| id).collect()
    }

    /// Returns prefix length and interface of each route to `peer`, the longest prefix first.
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
