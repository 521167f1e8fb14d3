//! Octets from the active adit, to the side that keeps the tail.

use adit_shared_store::replication::{CommandOutcome, ReplicationRefusal, ReplicationTail};
use adit_store::{GroupNumber, GroupPosition, Incarnation, QueuedGroup};
use adit_transport::resp::{RespLimits, RespServer};

/// Small, so that inputs reach it.
const OCTETS_MAX: usize = 3000;

/// Whatever arrives, the tail is without a gap, within its bounds, and of an epoch that the store
/// has shown; a refused command changes nothing, and each command has one reply. The store shows
/// the next epoch whenever a command has a later one, and the first groups of the tail whenever a
/// command is unknown.
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
            if let CommandOutcome::Refused(_) = executed {
                assert_eq!((tail.base(), tail.last(), tail.len(), tail.epoch()), before);
            }
            assert_eq!(tail.epoch(), before.3, "no command changes it");
            match executed {
                CommandOutcome::Refused(ReplicationRefusal::Later(epoch)) => {
                    tail.note_epoch(epoch + 1)
                }
                CommandOutcome::Refused(ReplicationRefusal::UnknownCommand) => find(&mut tail),
                _ => {}
            }
            check(&tail);
        }
    }
}

/// No group is of a later epoch than the newest.
fn groups(tail: &ReplicationTail) -> Vec<QueuedGroup> {
    let base = GroupPosition { epoch: tail.epoch(), number: tail.base() };
    let groups = tail.groups_after(base).expect("the store has all up to the base");
    groups.cloned().collect()
}

/// The standby finds the first half of its tail, or groups that have not arrived, and drops nothing
/// else. Those of an earlier epoch stay.
fn find(tail: &mut ReplicationTail) {
    let groups = groups(tail);
    let (first, rest) = groups.split_at(groups.len().div_ceil(2));
    let found = first.last().map_or(GroupNumber(tail.base().0.saturating_add(2)), |of| of.number);
    let (epoch, number) = (tail.epoch(), tail.base());
    let (base, through) = (GroupPosition { epoch, number }, GroupPosition { epoch, number: found });
    let is_of_epoch = tail.groups_between(base, base).is_some();
    let known: Option<Vec<_>> = tail.groups_between(base, through).map(|of| of.cloned().collect());
    let has_all = is_of_epoch && found <= tail.last();
    assert_eq!(known.as_deref(), has_all.then_some(first));
    tail.drop_found(through);
    let expected = if is_of_epoch { (found, rest) } else { (number, &groups[..]) };
    assert_eq!((tail.base(), &self::groups(tail)[..]), expected);
}

fn check(tail: &ReplicationTail) {
    let groups = groups(tail);
    let (mut last, mut octets) = (tail.base(), 0);
    for group in &groups {
        assert!(last == group.previous && group.number > group.previous);
        assert!(group.changes().all(|change| change.is_ok()));
        last = group.number;
        octets += group.changes.len();
    }
    assert_eq!((last, groups.len()), (tail.last(), tail.len()));
    assert!(octets <= OCTETS_MAX);
}
