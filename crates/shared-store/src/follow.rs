//! A standby's view: all records, and then all changes in their order.

use std::time::{Duration, Instant};

use adit_store::{GroupPosition, QueuedGroup, RecordKind, StoreChange, StoreError};
use adit_transport::Transport;
use adit_transport::resp::{RespElements, RespValue};

use crate::checksum::checksum;
use crate::connection::LinkError;
use crate::keys::{FORMAT_VERSION, read_name};
use crate::lease::LeaseView;
use crate::lease_clock::LeaseSight;
use crate::pipeline::unreadable;
use crate::printable::printable;
use crate::scan_findings::{GatheredGroups, ScanFindings};
use crate::scripts::{number, octets, replicas};
use crate::shared_store::SharedStore;

/// Change groups that a server is to return at once.
const GROUPS_PER_READ: &[u8] = b"64";

/// The name of the checksums of a group among its changes.
const CHECKSUMS: &[u8] = b"8=checksums";

/// Nobody has all records.
const UNFINISHED: &str = "the adit that wrote all records again, after the server had lost them, ended before it was done: start it again";

/// The news that a follower receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowedChange<'a> {
    /// All that was yielded before is void: all records follow, in the order of
    /// [`RecordKind::ALL`], and then the groups that were written meanwhile.
    Reset,
    /// A record has this value, or is removed.
    Change(StoreChange<'a>),
}

/// The groups behind a position up to another one, if the caller has all of them already.
pub type KnownGroups<'a> = &'a dyn Fn(GroupPosition, GroupPosition) -> Option<Vec<QueuedGroup>>;

/// How far a follower is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowProgress {
    /// The last group that was yielded.
    pub reached: GroupPosition,
    /// The last group that the server had.
    pub last: GroupPosition,
    /// The follower has everything that the server had when the call began, or when it ended after
    /// a reset. Before that it may have values older than those that it had already.
    pub is_caught_up: bool,
    /// Who held the lease when the call began; `None` if nobody did, or its holder had not
    /// prolonged it for its whole length.
    pub lease: Option<LeaseView>,
}

/// The state of a server apart from the records.
struct StoreView {
    last: GroupPosition,
    lease: Option<LeaseView>,
    /// The records are not complete.
    is_filling: bool,
}

/// The fate of the yielded records when the server does not have the changes that follow them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeptRecords {
    /// The records of the server are valid.
    None,
    /// The yielded records are incomplete, and so are those of the server.
    Unusable,
    /// The holder of the lease may still write the missing ones.
    Waiting,
    /// Nobody has more.
    Best,
}

impl<T: Transport> SharedStore<T> {
    /// Yields news. The first call yields a reset and all records, and so does one whose changes
    /// the server does not have any more. Otherwise it yields the changes of the groups that were
    /// written, in order, and waits for the next one for at most `limit` if there is none. Groups
    /// that are `known` are not read again. The lease is not needed.
    ///
    /// After [`SharedStore::acquire`] call it until it has caught up: then nothing of the previous
    /// holder can follow.
    ///
    /// # Errors
    /// No server can be used, or a newer program wrote the records. The next call goes on, if need
    /// be with a reset.
    pub fn follow(
        &mut self,
        limit: Duration,
        known: KnownGroups<'_>,
        visitor: &mut dyn FnMut(FollowedChange<'_>),
    ) -> Result<FollowProgress, StoreError> {
        self.on_primary(&mut |store| {
            let view = store.view()?;
            store.figures.last = view.last;
            // A primary with less than the follower has lost groups.
            let followed = store.followed.filter(|reached| *reached <= view.last);
            if let Some(mut reached) = followed
                && match known(reached, view.last) {
                    Some(groups) => {
                        store.take_known(&groups, view.last, limit, visitor);
                        reached = view.last;
                        true
                    }
                    None => store.read_followed(&mut reached, view.last, limit, visitor)?,
                }
            {
                store.lacking_since = None;
                let is_caught_up = reached >= view.last;
                store.is_followed_whole |= is_caught_up;
                let last = view.last.max(reached);
                return Ok(FollowProgress { reached, last, is_caught_up, lease: view.lease });
            }
            match store.weigh(&view, followed.is_none()) {
                KeptRecords::None => store.read_all(view, visitor),
                KeptRecords::Unusable => Err(LinkError::Refused(UNFINISHED.to_owned())),
                KeptRecords::Waiting => Ok(store.keep_followed(view, false, limit)),
                KeptRecords::Best => Ok(store.keep_followed(view, true, limit)),
            }
        })
    }

    /// Whether the yielded records count more than those of the server, which has fewer if `lacks`.
    fn weigh(&mut self, view: &StoreView, lacks: bool) -> KeptRecords {
        let (is_held, is_whole) = (view.lease.is_some(), self.is_followed_whole);
        if self.epoch.is_some() {
            return KeptRecords::None;
        }
        if view.is_filling {
            // Its holder has all records, and writes them again.
            return match (is_held, is_whole) {
                (true, _) => KeptRecords::Waiting,
                (false, true) => KeptRecords::Best,
                (false, false) => KeptRecords::Unusable,
            };
        }
        if !lacks || !is_whole || self.followed == Some(GroupPosition::default()) {
            return KeptRecords::None;
        }
        // The holder has the groups that the server lost, and reaches it within two lengths of the
        // lease if it lives.
        let since = *self.lacking_since.get_or_insert_with(Instant::now);
        match (since.elapsed() < self.options.lease * 2, is_held) {
            (true, _) => KeptRecords::Waiting,
            (false, false) => KeptRecords::Best,
            (false, true) => KeptRecords::None,
        }
    }

    /// Keeps the yielded records.
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

    /// Yields all records.
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
        if let Err(error) = self.judge(&findings.damage) {
            self.tell_of_damage()?;
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

    /// Takes groups that are written during a scan, before the server trims them.
    pub(crate) fn gather(&mut self, gathered: &mut GatheredGroups) -> Result<(), LinkError> {
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

    /// Has the holder of the lease write all records again.
    fn tell_of_damage(&mut self) -> Result<(), LinkError> {
        let command = vec![&b"HSET"[..], self.keys.state(), b"damaged", b"1"];
        self.link.exchange(&[command], Duration::ZERO, &mut |_, _| {})
    }

    /// Yields known groups, which end with `last`, or waits for `limit` if there are none.
    fn take_known(
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

    /// Yields the groups behind `reached`, and notes which ones those were. False if groups are
    /// missing.
    fn read_followed(
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

    /// Hands over the groups behind `reached`, which becomes the last one. False if groups are
    /// missing.
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
            // Zero would wait forever.
            if !is_behind && limit.as_millis() > 0 {
                command.extend([&b"BLOCK"[..], limit_ms.as_bytes()]);
            }
            command.extend([&b"STREAMS"[..], self.keys.groups(), position.as_bytes()]);
            let mut read = GroupsRead { reached: before, is_gapless: true, is_sound: true };
            self.link.exchange(&[command], limit, &mut |_, value| {
                read.take(value, visitor);
            })?;
            *reached = read.reached;
            if !read.is_sound {
                return Err(unreadable());
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

    /// The last group and the lease.
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
        self.link.exchange(&commands, Duration::ZERO, &mut |at, value| match (at, value) {
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
            return Err(LinkError::Final(self.newer(version)));
        }
        let (last, is_filling) = (seen.last, seen.is_filling);
        // Without a holder there is nothing to measure.
        let lease = seen.sight().map(|sight| self.measure(sight));
        let lease = lease.filter(|lease| !lease.left.is_zero());
        Ok(StoreView { last, lease, is_filling })
    }
}

/// The state of the records as a server shows it.
#[derive(Default)]
struct SeenState {
    format: u64,
    last: GroupPosition,
    epoch: u64,
    beat: u64,
    is_held: bool,
    holder: Option<String>,
    lease_ms: Option<u64>,
    /// Its holder writes all records again.
    is_filling: bool,
    /// The key of the lease, and its time to live.
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

    /// The lease; `None` if nobody holds it.
    fn sight(self) -> Option<LeaseSight> {
        let Self { epoch, beat, lease_ms, .. } = self;
        // An adit of release 0.1.0 holds it by the key alone.
        let former = self.leased.filter(|holder| !holder.ends_with(";beat"));
        let former_left_ms = former.is_some().then_some(self.former_left_ms);
        let lease_ms = if former.is_some() { None } else { lease_ms };
        let holder = former.or(self.holder.filter(|_| self.is_held))?;
        Some(LeaseSight { holder, lease_ms, epoch, beat, former_left_ms })
    }
}

/// The entries of a stream as they are read.
struct GroupsRead {
    reached: GroupPosition,
    /// Each group so far followed the one before it.
    is_gapless: bool,
    is_sound: bool,
}

impl GroupsRead {
    /// Reads a reply to `XREAD`, which is null if there are no groups.
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
        let (name, after) = pair(&mut fields)?;
        if name != b"after" {
            return None;
        }
        if GroupPosition::parse(after)? != self.reached {
            self.is_gapless = false;
            return Some(());
        }
        let mut checksums = None;
        while fields.count_left() > 0 {
            let (name, value) = pair(&mut fields)?;
            if name == CHECKSUMS {
                checksums = Some(value.get(1..)?.chunks_exact(4));
                continue;
            }
            if let Some(known) = &mut checksums
                && known.next() != Some(&checksum(&[name, value]))
            {
                // The hashes have the record.
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

fn pair<'a>(fields: &mut RespElements<'a>) -> Option<(&'a [u8], &'a [u8])> {
    Some((octets(fields.next()?)?, octets(fields.next()?)?))
}
