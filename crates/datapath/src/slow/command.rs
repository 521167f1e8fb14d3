//! Commands of the control thread: ask for a neighbor, announce ourselves, close a tunnel, ask a
//! GTP-U peer.

use core::net::IpAddr;

use adit_pktio::PacketIo;
use adit_rules::WorkerCommand;

use crate::outbound::Outbound;
use crate::slow::{arp, end_marker, gtpu_echo, neighbour_discovery};
use crate::stage::egress::Env;

/// True when the step sees the change that the command waits for. Commands behind it wait, too: the
/// change is published right after the command was given.
pub(crate) fn is_due(env: &Env<'_>, command: &WorkerCommand) -> bool {
    match *command {
        WorkerCommand::SendEndMarker { session, change, .. } => {
            env.view.rules(session).is_none_or(|rules| rules.generation >= change)
        }
        _ => true,
    }
}

/// Carries out one command. What cannot be sent is counted as lost; whoever asked asks again.
#[cold]
pub(crate) fn execute<Io: PacketIo>(
    env: &Env<'_>,
    io: &mut Io,
    out: &mut Outbound<Io::Buf>,
    command: &WorkerCommand,
) {
    let interfaces = env.interfaces;
    match *command {
        WorkerCommand::SendEndMarker { tunnel, .. } => end_marker::send(env, io, out, tunnel),
        WorkerCommand::SendEchoRequest { peer, sequence, tos } => {
            gtpu_echo::request(env, io, out, gtpu_echo::Ask { peer, sequence, tos });
        }
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
