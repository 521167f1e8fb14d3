//! Commands of the control thread: resolve a neighbor, announce our addresses, close a tunnel, send an
//! Echo Request.

use core::net::IpAddr;

use adit_pktio::PacketIo;
use adit_rules::{DeltaId, WorkerCommand};
use adit_types::SessionIndex;

use crate::context::StepContext;
use crate::originate::echo::{self, EchoProbe};
use crate::originate::end_marker::{self, TunnelEndMarker};
use crate::originate::{arp, neighbor_discovery};
use crate::worker_state::WorkerState;

/// Most commands that are run at a time.
const COMMANDS_MAX: usize = 64;

/// Runs the commands that are due. Returns whether there was one.
pub(crate) fn run_commands<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
) -> bool {
    run_commands_while(ctx, io, state, |command| is_due(ctx, command))
}

/// The same before a packet of `session` leaves by its rules of `generation`: the packet must not
/// overtake the End Marker of the path that these rules left, even if the rules were published in the
/// middle of a step.
#[cold]
pub(crate) fn run_commands_before<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
    session: SessionIndex,
    generation: DeltaId,
) {
    run_commands_while(ctx, io, state, |command| match *command {
        WorkerCommand::SendEndMarker { session: of, change, .. } if of == session => {
            generation >= change
        }
        _ => is_due(ctx, command),
    });
}

fn run_commands_while<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
    is_due: impl Fn(&WorkerCommand) -> bool,
) -> bool {
    for done in 0..COMMANDS_MAX {
        if !state.commands.peek().is_ok_and(&is_due) {
            return done > 0;
        }
        let Ok(command) = state.commands.pop() else { return done > 0 };
        execute(ctx, io, state, &command);
    }
    true
}

/// True if the worker sees the change that the command waits for. Commands after it wait, too: the
/// change is published right after the command was given.
fn is_due(ctx: &StepContext<'_>, command: &WorkerCommand) -> bool {
    match *command {
        WorkerCommand::SendEndMarker { session, change, .. } => {
            ctx.view.rules(session).is_none_or(|rules| rules.generation >= change)
        }
        _ => true,
    }
}

/// Runs one command. What cannot be sent is counted as lost; the control thread tries again.
#[cold]
fn execute<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
    command: &WorkerCommand,
) {
    let interfaces = ctx.interfaces;
    match *command {
        WorkerCommand::SendEndMarker { session, tunnel, interfaces, qfi, .. } => {
            if state.handoff.owns(session) {
                let WorkerState { shaping, queues, tally, .. } = &mut *state;
                shaping.release_session(ctx, io, queues, tally, session);
                let marker = TunnelEndMarker { tunnel, qfi, tos: 0 };
                end_marker::send(ctx, io, state, interfaces, marker);
            }
        }
        WorkerCommand::SendEchoRequest { peer, interfaces, sequence, tos } => {
            echo::request(ctx, io, state, EchoProbe { peer, interfaces, sequence, tos });
        }
        WorkerCommand::Solicit { interface, addr, unicast } => {
            let Some(interface) = interfaces.get(interface) else {
                state.tally.lose_originated();
                return;
            };
            match addr {
                IpAddr::V4(addr) => arp::solicit(io, state, interface, addr, unicast),
                IpAddr::V6(addr) => {
                    neighbor_discovery::solicit(io, state, interface, addr, unicast)
                }
            }
        }
        WorkerCommand::Announce { interface } => {
            let Some(interface) = interfaces.get(interface) else {
                state.tally.lose_originated();
                return;
            };
            arp::announce(io, state, interface);
            neighbor_discovery::announce(io, state, interface);
        }
    }
}
