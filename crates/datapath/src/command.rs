//! Commands of the control thread: resolve a neighbor, announce our addresses, close a tunnel, send
//! an Echo Request.

use core::net::IpAddr;
use core::ops::RangeInclusive;

use adit_rules::{DeltaId, WorkerCommand};
use adit_types::SessionIndex;
use rtrb::Consumer;

use crate::context::StepContext;
use crate::departures::Departures;
use crate::handoff::Handoff;
use crate::originate::echo::{self, EchoProbe};
use crate::originate::end_marker::{self, TunnelEndMarker};
use crate::originate::{arp, neighbor_discovery};
use crate::worker_state::WorkerState;

/// Maximum of commands that are run in one step.
const COMMANDS_MAX: usize = 64;

/// How many commands, from the front of the ring, the flows are requested for in one step.
const FLOW_REQUESTS_MAX: usize = 32;

/// Runs the commands that are due. Returns whether any ran.
pub(crate) fn run_commands<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
) -> bool {
    if state.handoff.flows().is_some() {
        return run_commands_of_flows(ctx, io, state, |command| is_due(ctx, command));
    }
    run_commands_up_to(ctx, io, state, COMMANDS_MAX, |command| is_due(ctx, command))
}

/// Runs commands before a packet of `session` leaves by its rules of `generation`: the packet must
/// not overtake the End Marker of the path that these rules left, even if the rules were published
/// in the middle of a step. Commands behind that End Marker wait for the next step: packets of this
/// burst may still follow rules that are older than the changes of those commands.
#[cold]
pub(crate) fn run_commands_before<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
    session: SessionIndex,
    generation: DeltaId,
) {
    let precedes = |command: &WorkerCommand| match *command {
        WorkerCommand::SendEndMarker { session: of, change, .. } => {
            of == session && generation >= change
        }
        _ => false,
    };
    if state.handoff.flows().is_some() {
        run_commands_of_flows(ctx, io, state, precedes);
    } else if let Some(last) = last_command(&mut state.commands, precedes) {
        // Changes become visible in the order of their commands: all commands up to `last` are due.
        run_commands_up_to(ctx, io, state, last + 1, |_| true);
    }
}

/// Runs commands if packets come from an event scheduler. Every worker gets the commands for all
/// sessions. The worker that holds the session's flow runs a command before it processes a packet
/// by the rules that the command waits for. The other workers drop the command once it is done. The
/// worker in charge of a session requests the flow, in case no packet brings it.
fn run_commands_of_flows<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
    is_due: impl Fn(&WorkerCommand) -> bool,
) -> bool {
    let (mut has_run, mut is_front, mut at) = (false, true, 0);
    // The first command for a session of this worker that was not due. A later command for the
    // same session can be due nevertheless: changes become visible meanwhile.
    let mut first_not_due = None;
    while let Some(command) = peek_command(&mut state.commands, at) {
        let is_done = match command {
            WorkerCommand::SendEndMarker { session, change, .. } => {
                if !is_carried_out(&mut state.handoff, session, change)
                    && state.handoff.owns(session)
                {
                    if is_due(&command) {
                        let from = first_not_due.unwrap_or(at);
                        run_commands_until(ctx, io, state, session, change, from..=at);
                        has_run = true;
                    } else {
                        first_not_due.get_or_insert(at);
                    }
                }
                is_carried_out(&mut state.handoff, session, change)
            }
            _ if is_front && is_due(&command) => {
                execute(ctx, io, state, &command);
                has_run = true;
                true
            }
            _ => false,
        };
        is_front &= is_done;
        if is_front {
            let _ = state.commands.pop();
        } else {
            at += 1;
        }
    }
    if !is_front {
        let WorkerState { commands, handoff, .. } = state;
        request_flows(ctx, commands, handoff);
    }
    has_run
}

/// Returns the command at position `at` of the ring.
fn peek_command(commands: &mut Consumer<WorkerCommand>, at: usize) -> Option<WorkerCommand> {
    let all = commands.slots();
    let chunk = commands.read_chunk(all).ok()?;
    let (first, second) = chunk.as_slices();
    first.iter().chain(second).nth(at).copied()
}

/// Returns the position of the last command in the ring for which `is_wanted` is true.
fn last_command(
    commands: &mut Consumer<WorkerCommand>,
    is_wanted: impl Fn(&WorkerCommand) -> bool,
) -> Option<usize> {
    let all = commands.slots();
    let chunk = commands.read_chunk(all).ok()?;
    let (first, second) = chunk.as_slices();
    let in_second = second.iter().rposition(&is_wanted).map(|at| first.len() + at);
    in_second.or_else(|| first.iter().rposition(is_wanted))
}

fn is_carried_out<B>(handoff: &mut Handoff<B>, session: SessionIndex, change: DeltaId) -> bool {
    handoff.flows().is_none_or(|flows| flows.is_command_done(session, change.0))
}

/// Runs all commands for a session up to a change. The commands of that change are in the ring one
/// after the other, because they were all sent before the change was published; the first of them
/// is at the end of `positions`. The commands of earlier changes are among `positions`. The caller
/// holds the flow of `session`.
fn run_commands_until<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
    session: SessionIndex,
    change: DeltaId,
    positions: RangeInclusive<usize>,
) {
    let change_of = |command: &WorkerCommand| match *command {
        WorkerCommand::SendEndMarker { session: of, change, .. } if of == session => Some(change),
        _ => None,
    };
    for at in *positions.start().. {
        let Some(command) = peek_command(&mut state.commands, at) else { break };
        let of = change_of(&command);
        if at > *positions.end() && of != Some(change) {
            break;
        }
        if of.is_some_and(|of| !is_carried_out(&mut state.handoff, session, of)) {
            execute(ctx, io, state, &command);
        }
    }
    if let Some(flows) = state.handoff.flows() {
        flows.finish_command(session, change.0);
    }
}

/// Requests the flows of the first commands that this worker is in charge of, in case no packet
/// brings the flows.
fn request_flows<B>(
    ctx: &StepContext<'_>,
    commands: &mut Consumer<WorkerCommand>,
    handoff: &mut Handoff<B>,
) {
    if !handoff.may_request_flows(ctx.now) {
        return;
    }
    for at in 0..FLOW_REQUESTS_MAX {
        let Some(command) = peek_command(commands, at) else { return };
        if let WorkerCommand::SendEndMarker { session, change, .. } = command
            && handoff.is_in_charge_of(session)
            && !is_carried_out(handoff, session, change)
        {
            handoff.request_flow(session);
        }
    }
}

/// Runs at most `count_max` commands, while they are due. Returns whether any ran.
fn run_commands_up_to<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
    count_max: usize,
    is_due: impl Fn(&WorkerCommand) -> bool,
) -> bool {
    for done in 0..count_max {
        if !state.commands.peek().is_ok_and(&is_due) {
            return done > 0;
        }
        let Ok(command) = state.commands.pop() else { return done > 0 };
        execute(ctx, io, state, &command);
    }
    true
}

/// True if this worker sees the change that the command waits for. The commands behind it wait,
/// too: the change is published right after its commands are sent.
fn is_due(ctx: &StepContext<'_>, command: &WorkerCommand) -> bool {
    match *command {
        WorkerCommand::SendEndMarker { session, change, .. } => {
            ctx.view.rules(session).is_none_or(|rules| rules.generation >= change)
        }
        _ => true,
    }
}

/// Runs one command. A packet that cannot be sent is counted as lost: the control thread repeats
/// Echo Requests and solicitations.
#[cold]
fn execute<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
    command: &WorkerCommand,
) {
    let interfaces = ctx.interfaces;
    match *command {
        WorkerCommand::SendEndMarker { session, tunnel, interfaces, qfi, .. } => {
            if state.handoff.owns(session) {
                let (shaping, mut sender) = state.shaping_and_sender(io);
                shaping.release_session(ctx, &mut sender, session);
                let marker = TunnelEndMarker { tunnel, qfi, tos: 0, session };
                end_marker::send(ctx, &mut state.transmitter(io), interfaces, marker);
            }
        }
        WorkerCommand::SendEchoRequest { peer, interfaces, sequence, tos } => {
            let probe = EchoProbe { peer, interfaces, sequence, tos };
            echo::request(ctx, &mut state.transmitter(io), probe);
        }
        WorkerCommand::Solicit { interface, addr, unicast } => {
            let Some(interface) = interfaces.get(interface) else {
                state.books.tally.lose_originated();
                return;
            };
            let tx = &mut state.transmitter(io);
            match addr {
                IpAddr::V4(addr) => arp::solicit(tx, interface, addr, unicast),
                IpAddr::V6(addr) => neighbor_discovery::solicit(tx, interface, addr, unicast),
            }
        }
        WorkerCommand::StartTap(id, request) => state.start_tap(ctx.now, id, request),
        WorkerCommand::StopTap(id) => state.stop_tap(id),
        WorkerCommand::Announce { interface } => {
            let Some(interface) = interfaces.get(interface) else {
                state.books.tally.lose_originated();
                return;
            };
            let tx = &mut state.transmitter(io);
            arp::announce(tx, interface);
            neighbor_discovery::announce(tx, interface);
        }
    }
}
