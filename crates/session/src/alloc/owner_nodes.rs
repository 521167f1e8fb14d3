//! The NUMA nodes of the workers that own sessions, so that a new session gets an index whose owner
//! is near the port of its packets.

use adit_types::{InterfaceId, OWNER_GROUPS, SessionIndex, owner_group};

/// The NUMA nodes of the owners of sessions and of the ports of interfaces. Only nodes with owners
/// are counted; they are renumbered from zero. [`OwnerNodes::default`] has one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerNodes {
    /// Node of each owner group ([`adit_types::Owners::of_group`]).
    groups: [u8; OWNER_GROUPS as usize],
    /// Node of the port, by `InterfaceId`; `None` if the node has no owners or is unknown.
    interfaces: Vec<Option<u8>>,
    count: u8,
}

impl Default for OwnerNodes {
    fn default() -> Self {
        Self { groups: [0; OWNER_GROUPS as usize], interfaces: Vec::new(), count: 1 }
    }
}

impl OwnerNodes {
    /// Collects the nodes of owner groups, and of the ports of interfaces by `InterfaceId`. Equals
    /// the default if all owners are on one node, or if one of the nodes is unknown: then the
    /// choice of an owner does not depend on the port.
    #[must_use]
    pub fn new(owner_of_group: impl Fn(u32) -> Option<u32>, ports: &[Option<u32>]) -> Self {
        let owners: Option<Vec<u32>> = (0..OWNER_GROUPS).map(owner_of_group).collect();
        let Some(owners) = owners else { return Self::default() };
        let mut nodes = owners.clone();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.len() < 2 {
            return Self::default();
        }
        let number =
            |node: u32| nodes.binary_search(&node).ok().and_then(|at| u8::try_from(at).ok());
        let mut groups = [0; OWNER_GROUPS as usize];
        for (group, owner) in groups.iter_mut().zip(owners) {
            *group = number(owner).unwrap_or_default();
        }
        let interfaces = ports.iter().map(|node| node.and_then(number)).collect();
        Self { groups, interfaces, count: u8::try_from(nodes.len()).unwrap_or(u8::MAX) }
    }

    /// Returns how many nodes have owners.
    pub(crate) const fn node_count(&self) -> u8 {
        self.count
    }

    /// Returns the node of the owner of a session.
    pub(crate) fn node_of_session(&self, session: SessionIndex) -> u8 {
        self.groups.get(owner_group(session) as usize).copied().unwrap_or_default()
    }

    /// Returns the node of the port of an interface; `None` if the node has no owners.
    pub(crate) fn of_interface(&self, interface: InterfaceId) -> Option<u8> {
        self.interfaces.get(usize::from(interface.0)).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbered_if_there_are_several_with_owners() {
        let two = OwnerNodes::new(
            |group| Some(if group < 16 { 5 } else { 2 }),
            &[Some(2), Some(5), Some(3), None],
        );
        assert_eq!(two.node_count(), 2);
        let of = |session| two.node_of_session(SessionIndex(session));
        assert_eq!([0, 31, 32, 127, 128, 160].map(of), [1, 1, 0, 0, 1, 0]);
        let at = |interface| two.of_interface(InterfaceId(interface));
        assert_eq!([0, 1, 2, 3, 4].map(at), [Some(0), Some(1), None, None, None]);
    }

    #[test]
    fn owners_on_one_node_or_on_an_unknown_one_are_as_without_nodes() {
        let one = OwnerNodes::new(|_| Some(1), &[Some(0), Some(1)]);
        let unknown = OwnerNodes::new(|group| (group > 0).then_some(group % 2), &[Some(0)]);
        assert_eq!([one, unknown], [OwnerNodes::default(), OwnerNodes::default()]);
    }
}
