//! Commands of the control thread: ask for a neighbor, announce ourselves.

use core::net::IpAddr;

use adit_pktio::PacketIo;
use adit_rules::WorkerCommand;

use crate::interfaces::Interfaces;
use crate::outbound::Outbound;
use crate::slow::{arp, neighbour_discovery};

/// Carries out one command. What cannot be sent is counted as lost; whoever asked asks again.
#[cold]
pub(crate) fn execute<Io: PacketIo>(
    interfaces: &Interfaces,
    io: &mut Io,
    out: &mut Outbound<Io::Buf>,
    command: &WorkerCommand,
) {
    match *command {
        WorkerCommand::Solicit { interface, addr, unicast } => {
            let Some(interface) = interfaces.get(interface) else {
                out.tally.lose_originated();
                return;
            };
            match addr {
                IpAddr::V4(addr) => arp::solicit(io, out, interface, addr, unicast),
                IpAddr::V6(addr) => neighbour_discovery::solicit(io, out, interface, addr, unicast),
            }
        }
        WorkerCommand::Announce { interface } => {
            let Some(interface) = interfaces.get(interface) else {
                out.tally.lose_originated();
                return;
            };
            arp::announce(io, out, interface);
            neighbour_discovery::announce(io, out, interface);
        }
    }
}
