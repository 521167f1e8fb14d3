//! Octets from the active adit, to the side that keeps the tail.

use adit_replication::{Executed, Incarnation, ReplicationRefusal, ReplicationTail, StorePosition};
use adit_resp::{RespLimits, RespServer};
use adit_store::RecordNumber;

/// Small, so that inputs reach it.
const OCTETS_MAX: usize = 3000;

/// Whatever arrives, the tail is without a gap, within its bounds, and of an epoch that the store has shown; a refused command
/// changes nothing, and each command has one reply. The store shows the next epoch whenever a command has a later one.
pub(super) fn run(data: &[u8]) {
    let mut tail = ReplicationTail::new("upf", Incarnation(5), OCTETS_MAX);
    tail.note_epoch(3);
    let mut server = RespServer::new(RespLimits::default());
    for part in data.chunks(1000) {
        server.requests.input_room()[..part.len()].copy_from_slice(part);
        server.requests.input_arrived(part.len());
        while let Ok(Some(command)) = server.requests.next_command() {
            let before = (tail.base(), tail.last(), tail.len(), tail.epoch());
            let executed = tail.execute(command, &mut server.replies);
            let reply_len = server.replies.output().len();
            assert!(reply_len > 0);
            server.replies.output_sent(reply_len);
            if let Executed::Refused(_) = executed {
                assert_eq!((tail.base(), tail.last(), tail.len(), tail.epoch()), before);
            }
            assert_eq!(tail.epoch(), before.3, "no command changes it");
            if let Executed::Refused(ReplicationRefusal::Later(epoch)) = executed {
                tail.note_epoch(epoch + 1);
            }
            check(&tail);
        }
    }
}

fn check(tail: &ReplicationTail) {
    // No group is of a later epoch than the newest.
    let store = StorePosition { epoch: tail.epoch(), number: tail.base() };
    let Ok(groups) = tail.groups_after(store) else { return };
    let (mut last, mut octets): (Option<RecordNumber>, _) = (None, 0);
    for group in groups {
        assert!(last.is_none_or(|last| last == group.previous) && group.number > group.previous);
        assert!(group.changes().all(|change| change.is_ok()));
        last = Some(group.number);
        octets += group.changes.len();
    }
    assert!(last.is_none_or(|last| last == tail.last()));
    assert!(octets <= OCTETS_MAX);
}
