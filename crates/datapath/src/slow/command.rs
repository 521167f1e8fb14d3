//! Commands of the control thread: ask for a neighbor, announce ourselves, close a tunnel, ask a
//! GTP-U peer.

use core::net::IpAddr;

use adit_pktio::PacketIo;
use adit_rules::{DeltaId, WorkerCommand};
use adit_types::SessionIndex;

use crate::shaping;
use crate::slow::{arp, end_marker, gtpu_echo, neighbor_discovery};
use crate::stage::egress::StepContext;
use crate::worker_state::WorkerState;

/// Commands that are carried out in one go at most.
const COMMANDS_MAX: usize = 64;

/// Carries out what the control thread asked for and is due; tells whether there was something.
pub(crate) fn run_commands<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
) -> bool {
    run_commands_while(env, io, out, |command| is_due(env, command))
}

/// The same before a packet of `session` leaves by its rules of `generation`, so that it does not
/// overtake the End Marker of the path that these rules left, although they came in the middle of a
/// step.
#[cold]
pub(crate) fn run_commands_before<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    (session, generation): (SessionIndex, DeltaId),
) {
    run_commands_while(env, io, out, |command| match *command {
        WorkerCommand::SendEndMarker { session: of, change, .. } if of == session => {
            generation >= change
        }
        _ => is_due(env, command),
    });
}

fn run_commands_while<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    is_due: impl Fn(&WorkerCommand) -> bool,
) -> bool {
    for done in 0..COMMANDS_MAX {
        if !out.commands.peek().is_ok_and(&is_due) {
            return done > 0;
        }
        let Ok(command) = out.commands.pop() else { return done > 0 };
        execute(env, io, out, &command);
    }
    true
}

/// True when the worker sees the change that the command waits for. Commands behind it wait, too:
/// the change is published right after the command was given.
fn is_due(env: &StepContext<'_>, command: &WorkerCommand) -> bool {
    match *command {
        WorkerCommand::SendEndMarker { session, change, .. } => {
            env.view.rules(session).is_none_or(|rules| rules.generation >= change)
        }
        _ => true,
    }
}

/// Carries out one command. What cannot be sent is counted as lost; whoever asked asks again.
#[cold]
fn execute<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    command: &WorkerCommand,
) {
    let interfaces = env.interfaces;
    match *command {
        WorkerCommand::SendEndMarker { session, tunnel, interfaces, qfi, .. } => {
            if out.handoff.owns(session) {
                shaping::release_session(env, io, out, session);
                end_marker::send(env, io, out, (tunnel, interfaces, qfi));
            }
        }
        WorkerCommand::SendEchoRequest { peer, interfaces, sequence, tos } => {
            gtpu_echo::request(
                env,
                io,
                out,
                gtpu_echo::EchoProbe { peer, interfaces, sequence, tos },
            );
        }
        WorkerCommand::Solicit { interface, addr, unicast } => {
            let Some(interface) = interfaces.get(interface) else {
                out.tally.lose_originated();
                return;
            };
            match addr {
                IpAddr::V4(addr) => arp::solicit(io, out, interface, addr, unicast),
                IpAddr::V6(addr) => neighbor_discovery::solicit(io, out, interface, addr, unicast),
            }
        }
        WorkerCommand::Announce { interface } => {
            let Some(interface) = interfaces.get(interface) else {
                out.tally.lose_originated();
                return;
            };
            arp::announce(io, out, interface);
            neighbor_discovery::announce(io, out, interface);
        }
    }
}
