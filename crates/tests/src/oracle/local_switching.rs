//! Packets from one UE to another UE of the same data network: they come back as if that network
//! had sent them.

use core::net::IpAddr;

use adit_rules::SourceInterface;
use adit_session::{Forwarding, PdrSpec};

use super::{Oracle, policy_of};

impl Oracle {
    /// The position of the interface on which a packet of `pdr`, from a tunnel, comes back on its
    /// way to `dst` through one of `networks`. `None` if it leaves.
    ///
    /// It comes back if a UE has the address, or if a network behind a UE has a longer prefix than
    /// every route. It leaves if the policy names a station, or if the address is ours or belongs
    /// to no host.
    pub(super) fn switches_locally_at(
        &self,
        pdr: &PdrSpec,
        forwarding: &Forwarding,
        networks: &[usize],
        dst: IpAddr,
    ) -> Option<usize> {
        let policy = policy_of(forwarding);
        let is_steered = dst.is_ipv4() && policy.is_some_and(|policy| policy.next_hop.is_some());
        if is_steered || pdr.pdi.source == SourceInterface::CpFunction {
            return None;
        }
        let route = self.best_route(networks, dst);
        let (bits, at) = match route {
            Some((_, _, None)) => return None,
            Some((bits, at, Some(_))) => (Some(bits), at),
            None => (None, *networks.first()?),
        };
        let by_policy = policy.and_then(|policy| policy.local_switching);
        let is_on = by_policy.unwrap_or(self.interfaces[at].local_switching);
        let (of_ue, _) = self.ue_with(at, dst).filter(|_| is_on)?;
        let is_address = of_ue >= if dst.is_ipv4() { 32 } else { 64 };
        (is_address || bits.is_none_or(|bits| of_ue > bits)).then_some(at)
    }
}
