//! Following the store as a standby: reads all records, and then all changes in order.

use std::time::{Duration, Instant};

use adit_store::{GroupPosition, QueuedGroup, RecordKind, StoreChange, StoreError};
use adit_transport::Transport;
use adit_transport::resp::{RespElements, RespValue};

use crate::checksum::checksum;
use crate::connection::LinkError;
use crate::keys::{FORMAT_VERSION, read_name};
use crate::lease::LeaseView;
use crate::lease_clock::LeaseReading;
use crate::pipeline::unreadable_answer;
use crate::printable::printable;
use crate::scan_findings::{GatheredGroups, ScanFindings};
use crate::scripts::{number, octets, replicas};
use crate::shared_store::SharedStore;

/// How many groups a server returns at once, at most.
const GROUPS_PER_READ: &[u8] = b"64";

/// The field of a group's entry in the stream that has the checksums of its changes.
const CHECKSUMS_FIELD: &[u8] = b"8=checksums";

/// Error: neither this process nor the server has all records.
const REFILL_UNFINISHED: &str = "the adit that wrote all records again, after the server had lost them, ended before it was done: start it again";

/// An event that a follower receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowedChange<'a> {
    /// All records of earlier events are void. All records of the store follow, in the order of
    /// [`RecordKind::ALL`], and then the groups that were written meanwhile.
    Reset,
    /// A record got this value, or was removed.
    Change(StoreChange<'a>),
}

/// Returns the groups after the first position up to the second one, if the caller has all of them
/// already.
pub type KnownGroups<'a> = &'a dyn Fn(GroupPosition, GroupPosition) -> Option<Vec<QueuedGroup>>;

/// How far a follower has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowProgress {
    /// The last group that was passed to the visitor.
    pub reached: GroupPosition,
    /// The last group that the server had.
    pub last: GroupPosition,
    /// True if the follower has everything that the server had when the call began, or, after a
    /// reset, when the call ended. Until then a reset may have set records back to older values.
    pub is_caught_up: bool,
    /// The lease when the call began; `None` if nobody held it, or its holder had not prolonged it
    /// for its whole length.
    pub lease: Option<LeaseView>,
}

/// The position and the lease that a server shows, without the records.
struct StoreView {
    last: GroupPosition,
    lease: Option<LeaseView>,
    /// True while a process writes all records again, so that the server has only some.
    is_filling: bool,
}

/// Which records count if the server does not have the changes that follow the followed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeptRecords {
    /// Those of the server: the followed records are dropped.
    None,
    /// Neither: the followed records are incomplete, and so are those of the server.
    Unusable,
    /// The followed records, for now: the holder of the lease may still write the groups that the
    /// server lacks.
    Waiting,
    /// The followed records: nobody has more.
    Best,
}

impl<T: Transport> SharedStore<T> {
    /// Passes what is new to `visitor`. The first call passes a reset and all records, as does a
    /// call that finds the server without the changes that it needs next. Other calls pass the
    /// changes of the groups that were written, in order; without a new group they wait for one for
    /// at most `limit`. Groups that `known` returns are not read from the server. The follower
    /// needs no lease.
    ///
    /// After [`SharedStore::acquire`], call this until it has caught up: then it has all groups of
    /// the previous holder.
    ///
    /// # Errors
    /// No server can be used, or a newer program wrote the records. The next call continues, with a
    /// reset if it must.
    pub fn follow(
        &mut self,
        limit: Duration,
        known: KnownGroups<'_>,
        visitor: &mut dyn FnMut(FollowedChange<'_>),
    ) -> Result<FollowProgress, StoreError> {
        self.on_primary(&mut |store| {
            let view = store.view()?;
            store.figures.last = view.last;
            // A primary that has fewer groups than the follower has lost some.
            let followed = store.followed.filter(|reached| *reached <= view.last);
            if let Some(mut reached) = followed
                && match known(reached, view.last) {
                    Some(groups) => {
                        store.visit_known_groups(&groups, view.last, limit, visitor);
                        reached = view.last;
                        true
                    }
                    None => store.read_and_note_groups(&mut reached, view.last, limit, visitor)?,
                }
            {
                store.lacking_since = None;
                let is_caught_up = reached >= view.last;
                store.is_followed_whole |= is_caught_up;
                let last = view.last.max(reached);
                return Ok(FollowProgress { reached, last, is_caught_up, lease: view.lease });
            }
            match store.decide_kept_records(&view, followed.is_none()) {
                KeptRecords::None => store.read_all(view, visitor),
                KeptRecords::Unusable => Err(LinkError::Refused(REFILL_UNFINISHED.to_owned())),
                KeptRecords::Waiting => Ok(store.keep_followed(view, false, limit)),
                KeptRecords::Best => Ok(store.keep_followed(view, true, limit)),
            }
        })
    }

    /// Decides whose records count: the followed ones or those of the server. `lacks`: the server
    /// has fewer groups than this process has followed.
    fn decide_kept_records(&mut self, view: &StoreView, lacks: bool) -> KeptRecords {
        let (is_held, is_whole) = (view.lease.is_some(), self.is_followed_whole);
        if self.epoch.is_some() {
            return KeptRecords::None;
        }
        if view.is_filling {
            // The holder of the lease, if there is one, is writing all records again.
            return match (is_held, is_whole) {
                (true, _) => KeptRecords::Waiting,
                (false, true) => KeptRecords::Best,
                (false, false) => KeptRecords::Unusable,
            };
        }
        if !lacks || !is_whole || self.followed == Some(GroupPosition::default()) {
            return KeptRecords::None;
        }
        // If the holder of the lease is alive, it writes the groups that the server lost within two
        // lengths of the lease.
        let since = *self.lacking_since.get_or_insert_with(Instant::now);
        match (since.elapsed() < self.options.lease * 2, is_held) {
            (true, _) => KeptRecords::Waiting,
            (false, false) => KeptRecords::Best,
            (false, true) => KeptRecords::None,
        }
    }

    /// Keeps the followed records, and waits for `limit`.
    fn keep_followed(
        &self,
        view: StoreView,
        is_caught_up: bool,
        limit: Duration,
    ) -> FollowProgress {
        std::thread::sleep(limit);
        let reached = self.followed.unwrap_or_default();
        FollowProgress { reached, last: view.last, is_caught_up, lease: view.lease }
    }

    /// Passes a reset and all records to `visitor`.
    fn read_all(
        &mut self,
        before: StoreView,
        visitor: &mut dyn FnMut(FollowedChange<'_>),
    ) -> Result<FollowProgress, LinkError> {
        (self.followed, self.is_followed_whole) = (None, false);
        visitor(FollowedChange::Reset);
        let gathered = Some(GatheredGroups::after(before.last));
        let mut findings = ScanFindings { gathered, ..ScanFindings::default() };
        for kind in RecordKind::ALL {
            self.scan(kind, &mut findings, &mut |key, value| {
                visitor(FollowedChange::Change(StoreChange::put(key, value)));
            })?;
        }
        if let Err(error) = self.accept_or_refuse_damage(&findings.damage) {
            self.mark_damage()?;
            return Err(LinkError::Refused(error.to_string()));
        }
        let gathered = findings.gathered.unwrap_or_default();
        for change in &gathered.changes {
            visitor(FollowedChange::Change(change.as_change()));
        }
        let reached = gathered.reached;
        self.followed = Some(reached);
        let StoreView { last, lease, .. } = self.view()?;
        self.is_followed_whole = reached == last;
        let is_caught_up = self.is_followed_whole;
        Ok(FollowProgress { reached, last, is_caught_up, lease })
    }

    /// Reads the groups that were written since the last call, before the server trims them from
    /// its stream.
    pub(crate) fn gather_groups(&mut self, gathered: &mut GatheredGroups) -> Result<(), LinkError> {
        loop {
            let (before, mut reached) = (gathered.reached, gathered.reached);
            self.read_groups(&mut reached, before, Duration::ZERO, &mut |change| {
                if let FollowedChange::Change(change) = change {
                    gathered.note(change);
                }
            })?;
            gathered.reached = reached;
            if reached == before || gathered.is_full() {
                return Ok(());
            }
        }
    }

    /// Sets the mark of damaged records, upon which the holder of the lease writes all records
    /// again.
    fn mark_damage(&mut self) -> Result<(), LinkError> {
        let command = vec![&b"HSET"[..], self.keys.state(), b"damaged", b"1"];
        self.link.call_server(&[command], Duration::ZERO, &mut |_, _| {})
    }

    /// Passes known groups, the last of which is `last`, to `visitor`; waits for `limit` if there
    /// are none.
    fn visit_known_groups(
        &mut self,
        groups: &[QueuedGroup],
        last: GroupPosition,
        limit: Duration,
        visitor: &mut dyn FnMut(FollowedChange<'_>),
    ) {
        for change in groups.iter().flat_map(QueuedGroup::changes).flatten() {
            visitor(FollowedChange::Change(change));
        }
        if groups.is_empty() {
            std::thread::sleep(limit);
        }
        self.followed = Some(last);
    }

    /// Reads the groups after `reached`, and notes how far it has read. False if the server lacks
    /// some of them.
    fn read_and_note_groups(
        &mut self,
        reached: &mut GroupPosition,
        last: GroupPosition,
        limit: Duration,
        visitor: &mut dyn FnMut(FollowedChange<'_>),
    ) -> Result<bool, LinkError> {
        let read = self.read_groups(reached, last, limit, visitor);
        self.followed = Some(*reached);
        read
    }

    /// Passes the groups after `reached` to `visitor`, and moves `reached` to the last one. False
    /// if the server lacks some of them.
    fn read_groups(
        &mut self,
        reached: &mut GroupPosition,
        last: GroupPosition,
        limit: Duration,
        visitor: &mut dyn FnMut(FollowedChange<'_>),
    ) -> Result<bool, LinkError> {
        loop {
            let (position, limit_ms) = (reached.to_string(), limit.as_millis().to_string());
            let (is_behind, before) = (*reached < last, *reached);
            let mut command = vec![&b"XREAD"[..], b"COUNT", GROUPS_PER_READ];
            // A `BLOCK` of zero would wait forever.
            if !is_behind && limit.as_millis() > 0 {
                command.extend([&b"BLOCK"[..], limit_ms.as_bytes()]);
            }
            command.extend([&b"STREAMS"[..], self.keys.groups(), position.as_bytes()]);
            let mut read = GroupsRead { reached: before, is_gapless: true, is_sound: true };
            self.link.call_server(&[command], limit, &mut |_, value| {
                read.take(value, visitor);
            })?;
            *reached = read.reached;
            if !read.is_sound {
                return Err(unreadable_answer());
            }
            let is_stuck = is_behind && *reached == before;
            if !read.is_gapless || is_stuck {
                return Ok(false);
            }
            if *reached >= last {
                return Ok(true);
            }
        }
    }

    /// Reads the last group and the lease.
    fn view(&mut self) -> Result<StoreView, LinkError> {
        let (state, lease) = (self.keys.state(), self.keys.lease());
        let commands = [
            vec![
                &b"HMGET"[..],
                state,
                b"format",
                b"last",
                b"epoch",
                b"beat",
                b"held",
                b"holder",
                b"lease_ms",
                b"filling",
            ],
            vec![&b"GET"[..], lease],
            vec![&b"PTTL"[..], lease],
            vec![&b"ROLE"[..]],
        ];
        let mut seen = SeenState::default();
        let mut role = None;
        self.link.call_server(&commands, Duration::ZERO, &mut |at, value| match (at, value) {
            (0, RespValue::Array(fields)) => seen.fields(fields),
            (1, value) => seen.leased = octets(value).map(printable),
            (2, RespValue::Integer(left)) => seen.former_left_ms = u64::try_from(left).unwrap_or(0),
            (3, value) => role = replicas(value),
            _ => {}
        })?;
        let Some(replicas) = role else {
            return Err(LinkError::Lost("it is no longer a primary".to_owned()));
        };
        self.figures.replicas = replicas;
        if seen.format > u64::from(FORMAT_VERSION) {
            let version = u32::try_from(seen.format).unwrap_or(u32::MAX);
            return Err(LinkError::Final(self.newer_format_error(version)));
        }
        let (last, is_filling) = (seen.last, seen.is_filling);
        // If nobody holds the lease, there is nothing to measure.
        let lease = seen.sight().map(|sight| self.update_lease_clock(sight));
        let lease = lease.filter(|lease| !lease.left.is_zero());
        Ok(StoreView { last, lease, is_filling })
    }
}

/// The fields of the state hash and of the lease key, as a server returned them.
#[derive(Default)]
struct SeenState {
    format: u64,
    last: GroupPosition,
    epoch: u64,
    beat: u64,
    is_held: bool,
    holder: Option<String>,
    lease_ms: Option<u64>,
    /// True while the holder writes all records again.
    is_filling: bool,
    /// The value of the lease key; its remaining time to live is `former_left_ms`.
    leased: Option<String>,
    former_left_ms: u64,
}

impl SeenState {
    fn fields(&mut self, mut fields: RespElements<'_>) {
        let mut next = || fields.next().and_then(octets);
        self.format = next().and_then(number).unwrap_or(0);
        self.last = next().and_then(GroupPosition::parse).unwrap_or_default();
        self.epoch = next().and_then(number).unwrap_or(0);
        self.beat = next().and_then(number).unwrap_or(0);
        self.is_held = next() == Some(b"1");
        self.holder = next().map(printable);
        self.lease_ms = next().and_then(number);
        self.is_filling = next().is_some();
    }

    /// Returns the lease; `None` if nobody holds it.
    fn sight(self) -> Option<LeaseReading> {
        let Self { epoch, beat, lease_ms, .. } = self;
        // A holder of release 0.1.0 sets the lease key only, without the suffix.
        let former = self.leased.filter(|holder| !holder.ends_with(";beat"));
        let former_left_ms = former.is_some().then_some(self.former_left_ms);
        let lease_ms = if former.is_some() { None } else { lease_ms };
        let holder = former.or(self.holder.filter(|_| self.is_held))?;
        Some(LeaseReading { holder, lease_ms, epoch, beat, former_left_ms })
    }
}

/// Parses the entries of the stream of groups.
struct GroupsRead {
    reached: GroupPosition,
    /// True while each entry has directly followed the group before it.
    is_gapless: bool,
    is_sound: bool,
}

impl GroupsRead {
    /// Parses a reply to `XREAD`, which is null if there are no groups.
    fn take(&mut self, value: RespValue<'_>, visitor: &mut dyn FnMut(FollowedChange<'_>)) {
        let RespValue::Array(mut streams) = value else { return };
        let Some(RespValue::Array(mut stream)) = streams.next() else { return };
        let Some(RespValue::Array(entries)) = stream.nth(1) else { return };
        for entry in entries {
            if !self.is_gapless || !self.is_sound {
                return;
            }
            self.is_sound = self.take_group(entry, visitor).is_some();
        }
    }

    fn take_group(
        &mut self,
        entry: RespValue<'_>,
        visitor: &mut dyn FnMut(FollowedChange<'_>),
    ) -> Option<()> {
        let RespValue::Array(mut parts) = entry else { return None };
        let position = GroupPosition::parse(octets(parts.next()?)?)?;
        let RespValue::Array(mut fields) = parts.next()? else { return None };
        let (name, after) = next_pair(&mut fields)?;
        if name != b"after" {
            return None;
        }
        if GroupPosition::parse(after)? != self.reached {
            self.is_gapless = false;
            return Some(());
        }
        let mut checksums = None;
        while fields.count_left() > 0 {
            let (name, value) = next_pair(&mut fields)?;
            if name == CHECKSUMS_FIELD {
                checksums = Some(value.get(1..)?.chunks_exact(4));
                continue;
            }
            if let Some(known) = &mut checksums
                && known.next() != Some(&checksum(&[name, value]))
            {
                // The entry is damaged. The hashes have its records too, so all of them are read
                // again.
                self.is_gapless = false;
                return Some(());
            }
            let key = read_name(name)?;
            let value = match value.split_first() {
                None => None,
                Some((b'=', value)) => Some(value),
                Some(_) => return None,
            };
            visitor(FollowedChange::Change(StoreChange { key, value }));
        }
        self.reached = position;
        Some(())
    }
}

fn next_pair<'a>(fields: &mut RespElements<'a>) -> Option<(&'a [u8], &'a [u8])> {
    Some((octets(fields.next()?)?, octets(fields.next()?)?))
}
