//! The control thread of a standby: it follows the records of the active adit, and takes over.

use std::time::Instant;

use adit_n4::{Node, NodeRecord};
use adit_shared_store::store_thread::StoreLink;
use adit_store::{RecordChange, RecordKind};
use adit_types::Nanos;
use anyhow::{Context, bail};
use tracing::info;

use super::{CHANGES_PER_ITERATION_MAX, ControlEnd, ControlThread};
use crate::admin::AdminAnswer;
use crate::control_parts::active_addresses::{self, ActiveAddresses};
use crate::control_parts::standstill::Standstill;
use crate::control_parts::{ControlParts, ServingRole, StandbyParts};
use crate::kernel_routes::announcements::AnnouncingPlane;
use crate::record_store::replication::active_store;
use crate::record_store::standby_thread::StandbyMessage;

/// Maximum of messages from the store's thread that are handled in one iteration.
const NEWS_PER_ITERATION_MAX: usize = 16;

impl ControlThread {
    /// True unless another adit is active.
    pub(crate) const fn is_active(&self) -> bool {
        self.parts.role.is_active()
    }

    /// Runs an iteration while another adit is active. Receives and sends nothing.
    pub(super) fn turn_of_standby(&mut self, now: Nanos) {
        self.follow(now);
        self.parts.node.handle_timeout(now);
        // End Markers are not sent: the active adit has sent those of these changes.
        let ControlParts { node, publisher, announcements, .. } = &mut self.parts;
        let announcements = announcements.as_mut();
        node.apply_changes(&mut AnnouncingPlane { publisher, announcements }, |_| {});
        self.parts.publisher.turn(now);
        self.parts.node.conclude_changes(now, &mut self.parts.publisher, CHANGES_PER_ITERATION_MAX);
        self.log_events();
        let is_settled =
            self.parts.node.pending_len() == 0 && self.parts.publisher.unobserved() == 0;
        if is_settled
            && let Some(standby) = self.parts.role.standby()
            && standby.taken.is_some()
        {
            standby.link.request_store();
        }
        if is_settled
            && let Some(standby) = self.parts.role.take_ready()
            && let Err(error) = self.take_over(now, *standby)
        {
            self.end = Some(ControlEnd::Failed(format!("cannot take over: {error:#}")));
        }
    }

    /// Handles the messages of the store's thread.
    fn follow(&mut self, now: Nanos) {
        let ServingRole::Standby(standby) = &mut self.parts.role else { return };
        let StandbyParts { link, taken, store, .. } = &mut **standby;
        let node = &mut self.parts.node;
        for _ in 0..NEWS_PER_ITERATION_MAX {
            match link.poll() {
                None if store.is_none() && link.has_failed() => {
                    let why = "the thread of the store ended by itself".to_owned();
                    self.end = Some(ControlEnd::Failed(why));
                    return;
                }
                None => return,
                Some(StandbyMessage::AllBegin) => node.begin_reading_again(),
                Some(StandbyMessage::AllEnd) => node.end_reading_again(now),
                Some(StandbyMessage::Records(records)) => {
                    for record in records {
                        if is_of_another_node(node, &record) {
                            let why = "the records in the store are those of another start of the node: restart \
                                       this adit to follow them";
                            self.end = Some(ControlEnd::Failed(why.to_owned()));
                            return;
                        }
                        // The node reports a record that it cannot read as an event.
                        let _ = node.follow_record(now, &record);
                    }
                }
                Some(StandbyMessage::Taken) => *taken = Some(Instant::now()),
                Some(StandbyMessage::Store(client)) => *store = Some(client),
                Some(StandbyMessage::Lost(error)) => {
                    self.end = Some(ControlEnd::Failed(error.to_string()));
                    return;
                }
            }
        }
    }

    /// Becomes the active adit: the host gets the addresses, N4 is bound, and the packet path
    /// begins.
    fn take_over(&mut self, now: Nanos, standby: StandbyParts) -> anyhow::Result<()> {
        let StandbyParts { link, pair, lifecycle, taken, store } = standby;
        // Frees the replication port that the link has used.
        drop(link);
        let (store, since) = store.zip(taken).context("the lease is not taken")?;
        if store.lease_valid_until().is_none_or(|until| until <= Instant::now()) {
            bail!("the lease of the records ended before everything was ready");
        }
        let parts = &mut self.parts;
        let wanted = active_addresses::wanted(&parts.config);
        let addresses = ActiveAddresses::take(wanted.context("no [standby] is configured")?)?;
        parts.socket.listen().context("cannot bind n4.listen")?;
        let store = StoreLink::start(active_store(*store, &pair)?);
        let store = store.context("cannot start the thread of the store")?;
        parts.node.begin_groups_after(store.durable());
        parts.store = Some(store);
        parts.addresses.insert(addresses).handle_timeout(now);
        lifecycle.gate.open();
        self.neighbors.announce(now, &parts.publisher);
        self.standstill = Standstill::new(&parts.threads, now);
        parts.node.end_restoration(now);
        parts.publisher.set_restoring(false);
        let (sessions, took_ms) = (parts.node.store().len(), since.elapsed().as_millis());
        info!(sessions, took_ms, "active: took over");
        Ok(())
    }

    /// Requests the lease from the active adit.
    pub(super) fn request_takeover(&self) -> AdminAnswer {
        let Some(standby) = self.parts.role.standby() else {
            return AdminAnswer::Refused("this adit is no standby: it is active".to_owned());
        };
        standby.link.request_handover();
        AdminAnswer::done("the active adit is asked for the lease")
    }
}

/// True if `record` is of a node with another Recovery Time Stamp than `node` has.
fn is_of_another_node(node: &Node, record: &RecordChange) -> bool {
    let value = record.value.as_deref().filter(|_| record.kind == RecordKind::Node);
    let record = value.map(NodeRecord::from_octets);
    let started = node.config().recovery_time_stamp;
    record.and_then(Result::ok).is_some_and(|record| record.recovery_time_stamp != started)
}
