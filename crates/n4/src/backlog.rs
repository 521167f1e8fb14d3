//! Jobs: work on many sessions, of which each iteration does a bounded part.
//!
//! A message or timer that concerns many sessions (an association ended, PFDs changed, a set is
//! deleted) starts a job. Each iteration of the control thread processes at most
//! [`SESSIONS_PER_TURN_MAX`] sessions. Jobs take turns, so that a large one does not delay the
//! others, and responses to other requests leave in between. The response to the request that
//! started a job waits until all workers have observed the last change of the job and of earlier
//! jobs of the same peer.

use core::net::IpAddr;
use std::collections::VecDeque;

use adit_rules::{DeltaId, GtpuTunnel};
use adit_session::{ChangedApplications, OwnerId, Session, SessionStore};
use adit_types::limits::SESSIONS_PER_TURN_MAX;
use adit_types::{Seid, SessionIndex};

use crate::association::NodeIdentity;
use crate::session_state::{MemberCursor, SessionStates, SetKey};
use crate::sessions::Sessions;

/// How many entries of the session table one step searches for the next session.
const INDICES_SEARCHED_PER_STEP: usize = 16;

/// Identifies a job; later jobs have greater values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobId(pub u64);

/// The peer that waits for a job: its next requests are answered after the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobWaiter {
    pub address: IpAddr,
    pub node_id: NodeIdentity,
}

impl JobWaiter {
    fn is_same_peer(&self, other: &Self) -> bool {
        self.address == other.address || self.node_id == other.node_id
    }
}

/// The work of a job.
#[derive(Debug)]
pub(crate) enum JobTask {
    /// Ends the sessions of an association that ended, and the remaining reports of deleted ones.
    EndAssociation { owner: OwnerId, next: SessionIndex },
    /// Applies a disposition of the CP function to the sessions of an association.
    Transition { owner: OwnerId, number: u64 },
    /// Recompiles the sessions that name applications whose PFDs changed.
    Recompile { changed: ChangedApplications, next: SessionIndex },
    /// Recompiles all sessions, since objects that their rules refer to have changed.
    RecompileAll { next: SessionIndex },
    /// Deletes the sessions in these sets that the association, or another one of its SMF set,
    /// controls.
    DeleteSets { owner: OwnerId, keys: VecDeque<SetKey>, next: MemberCursor },
    /// Moves the control of the sessions in these sets to another address.
    MoveSets { owner: OwnerId, keys: VecDeque<SetKey>, next: MemberCursor, to: IpAddr },
    /// Moves the control of sessions whose CP F-SEID is at one of the listed addresses.
    MoveListed {
        owner: OwnerId,
        owners: VecDeque<OwnerId>,
        listed: Vec<IpAddr>,
        next: SessionIndex,
        to: IpAddr,
    },
    /// Reports an Error Indication for all sessions that send into the tunnel.
    ReportTunnel { tunnel: GtpuTunnel, next: SessionIndex },
    /// Does nothing: the job ends when the earlier jobs of its peer have ended.
    Wait,
}

/// The work that a job does on one session.
pub(crate) enum SessionTask {
    /// The task does not concern this session.
    Skip,
    End(Seid),
    /// Ends the reports of a session that is deleted already.
    EndReports(Seid),
    ApplyDisposition(Seid),
    /// Deletes the session if this association controls it.
    Delete(Seid, OwnerId),
    Recompile(SessionIndex, ChangedApplications),
    Republish(SessionIndex),
    /// Moves the session's control to the address if this association controls the session.
    Move(Seid, OwnerId, IpAddr),
    Report(Seid, GtpuTunnel),
}

#[derive(Debug)]
pub(crate) struct BacklogJob {
    pub id: JobId,
    waiter: Option<JobWaiter>,
    pub task: JobTask,
    /// The last change that the job made.
    pub last: Option<DeltaId>,
    /// True once all sessions were processed.
    pub is_done: bool,
}

/// All jobs that are open.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// Jobs that have sessions to process, in the order in which they take turns.
    pub jobs: VecDeque<BacklogJob>,
    /// Jobs whose last change some worker has not observed yet, with that change.
    pub ended: VecDeque<(DeltaId, JobId)>,
    last_id: u64,
    /// How many more sessions may be processed in this iteration.
    pub allowance: usize,
    /// How many sessions were processed, in total.
    pub touched: u64,
}

impl Backlog {
    pub(crate) const fn new() -> Self {
        Self {
            jobs: VecDeque::new(),
            ended: VecDeque::new(),
            last_id: 0,
            allowance: SESSIONS_PER_TURN_MAX,
            touched: 0,
        }
    }

    /// Returns how many jobs have not processed all their sessions.
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// True if a job of this peer has not processed all its sessions.
    pub(crate) fn has_job_for(&self, waiter: &JobWaiter) -> bool {
        let mut waiters = self.jobs.iter().filter_map(|job| job.waiter.as_ref());
        waiters.any(|other| other.is_same_peer(waiter))
    }

    /// True if a job of the peer at `address` has not processed all its sessions.
    pub(crate) fn has_job_at(&self, address: IpAddr) -> bool {
        let mut waiters = self.jobs.iter().filter_map(|job| job.waiter.as_ref());
        waiters.any(|waiter| waiter.address == address)
    }

    /// True while a job reports an Error Indication for `tunnel`.
    pub(crate) fn is_reporting_tunnel(&self, tunnel: GtpuTunnel) -> bool {
        let is_it = |job: &BacklogJob| matches!(job.task, JobTask::ReportTunnel { tunnel: of, .. } if of == tunnel);
        self.jobs.iter().any(is_it)
    }

    /// Counts one session against the allowance of this iteration; false if the allowance is used
    /// up.
    pub(crate) fn take_allowance(&mut self) -> bool {
        let Some(rest) = self.allowance.checked_sub(1) else { return false };
        self.allowance = rest;
        self.touched += 1;
        true
    }

    /// Returns how many jobs are open: they have sessions to process, or some worker has not
    /// observed their last change yet.
    pub(crate) fn open_job_count(&self) -> usize {
        self.jobs.len() + self.ended.len()
    }

    /// True if the job is open.
    pub(crate) fn is_open(&self, id: JobId) -> bool {
        self.jobs.iter().any(|job| job.id == id) || self.ended.iter().any(|(_, job)| *job == id)
    }

    pub(crate) fn push(&mut self, waiter: Option<JobWaiter>, task: JobTask) -> JobId {
        self.last_id += 1;
        let id = JobId(self.last_id);
        self.jobs.push_back(BacklogJob { id, waiter, task, last: None, is_done: false });
        id
    }

    /// Removes and returns a job that has processed all its sessions, unless an earlier job of its
    /// peer has not.
    pub(crate) fn take_ended(&mut self) -> Option<BacklogJob> {
        let is_held = |job: &BacklogJob| {
            let earlier = self.jobs.iter().filter(|other| other.id < job.id);
            let mut waiters = earlier.filter_map(|other| other.waiter.as_ref());
            waiters.any(|other| job.waiter.as_ref().is_some_and(|own| own.is_same_peer(other)))
        };
        let ended = self.jobs.iter().position(|job| job.is_done && !is_held(job))?;
        let job = self.jobs.remove(ended)?;
        let later = self.jobs.iter_mut().filter(|later| later.id > job.id);
        for later in later {
            let waiters = job.waiter.as_ref().zip(later.waiter.as_ref());
            if waiters.is_some_and(|(own, later)| own.is_same_peer(later)) {
                later.last = later.last.max(job.last);
            }
        }
        Some(job)
    }
}

/// Returns the next session of a task, and advances the task; `None` if no session is left.
pub(crate) fn next_session_task(
    task: &mut JobTask,
    sessions: &mut Sessions,
) -> Option<SessionTask> {
    Some(match task {
        JobTask::Wait => return None,
        JobTask::EndAssociation { owner, next } => match sessions.states.pop_ended(*owner) {
            Some(up_seid) => SessionTask::EndReports(up_seid),
            None => SessionTask::End(next_owned(sessions.store(), *owner, next)?.up_seid()),
        },
        JobTask::Transition { owner, number } => match sessions.take_ended(*owner) {
            Some(up_seid) => SessionTask::EndReports(up_seid),
            None => SessionTask::ApplyDisposition(sessions.next_transition(*owner, *number)?),
        },
        JobTask::Recompile { changed, next } => {
            let found = next_in_session_table(sessions.store(), next)?;
            found.map_or(SessionTask::Skip, |index| SessionTask::Recompile(index, changed.clone()))
        }
        JobTask::RecompileAll { next } => next_in_session_table(sessions.store(), next)?
            .map_or(SessionTask::Skip, SessionTask::Republish),
        JobTask::DeleteSets { owner, keys, next } => {
            let session = sessions.store().session_at(next_member(&sessions.states, keys, next)?);
            session
                .map_or(SessionTask::Skip, |session| SessionTask::Delete(session.up_seid(), *owner))
        }
        JobTask::MoveSets { owner, keys, next, to } => {
            let session = sessions.store().session_at(next_member(&sessions.states, keys, next)?);
            session.map_or(SessionTask::Skip, |session| {
                SessionTask::Move(session.up_seid(), *owner, *to)
            })
        }
        JobTask::MoveListed { owner, owners, listed, next, to } => {
            let session = loop {
                match next_owned(sessions.store(), *owners.front()?, next) {
                    Some(session) => break session,
                    None => owners.pop_front(),
                };
                *next = SessionIndex(0);
            };
            let is_listed = listed.iter().any(|&address| session.cp_f_seid().is_at(address));
            if is_listed {
                SessionTask::Move(session.up_seid(), *owner, *to)
            } else {
                SessionTask::Skip
            }
        }
        JobTask::ReportTunnel { tunnel, next } => {
            let session = sessions.store().tunnel_users_from(*tunnel, *next).next()?;
            *next = session.index().next();
            SessionTask::Report(session.up_seid(), *tunnel)
        }
    })
}

/// Searches one part of the session table for the next session; `Some(None)` if the part has none,
/// `None` after the last part.
fn next_in_session_table(
    store: &SessionStore,
    next: &mut SessionIndex,
) -> Option<Option<SessionIndex>> {
    if *next == SessionIndex::NONE {
        return None;
    }
    let (mut found, behind) = store.sessions_from(*next, INDICES_SEARCHED_PER_STEP);
    let found = found.next().map(Session::index);
    *next = found.map(SessionIndex::next).or(behind).unwrap_or(SessionIndex::NONE);
    Some(found)
}

fn next_owned<'s>(
    store: &'s SessionStore,
    owner: OwnerId,
    next: &mut SessionIndex,
) -> Option<&'s Session> {
    let session = store.next_owned(owner, *next)?;
    *next = session.index().next();
    Some(session)
}

/// Returns the next session of the first set, then of the further sets.
fn next_member(
    states: &SessionStates,
    keys: &mut VecDeque<SetKey>,
    next: &mut MemberCursor,
) -> Option<SessionIndex> {
    loop {
        match states.next_member(keys.front()?, next) {
            Some(session) => return Some(session),
            None => next.rewind(),
        }
        keys.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{TUNNEL, establish, sessions};

    fn waiter(host: u8) -> JobWaiter {
        let address = IpAddr::from([192, 0, 2, host]);
        JobWaiter { address, node_id: NodeIdentity::Fqdn(format!("smf{host}")) }
    }

    fn end(backlog: &mut Backlog, id: JobId, last: Option<DeltaId>) {
        for job in backlog.jobs.iter_mut().filter(|job| job.id == id) {
            (job.is_done, job.last) = (true, last);
        }
    }

    #[test]
    fn job_ends_after_the_earlier_ones_of_its_peer_and_with_their_last_change() {
        let mut backlog = Backlog::new();
        let first = backlog.push(Some(waiter(1)), JobTask::Wait);
        let second = backlog.push(Some(waiter(1)), JobTask::Wait);
        let other = backlog.push(Some(waiter(2)), JobTask::Wait);
        end(&mut backlog, second, Some(DeltaId(3)));
        end(&mut backlog, other, None);
        assert_eq!(backlog.take_ended().map(|job| (job.id, job.last)), Some((other, None)));
        assert!(backlog.take_ended().is_none(), "the first job of the peer is under way");
        assert!(backlog.has_job_for(&waiter(1)) && !backlog.has_job_at(waiter(2).address));
        end(&mut backlog, first, Some(DeltaId(8)));
        assert_eq!(backlog.take_ended().map(|job| job.id), Some(first));
        let ended = backlog.take_ended().map(|job| (job.id, job.last));
        assert_eq!(ended, Some((second, Some(DeltaId(8)))), "the later one of both changes");
        assert_eq!(backlog.len(), 0);
    }

    #[test]
    fn job_is_open_until_workers_run_its_last_change() {
        let mut backlog = Backlog::new();
        let id = backlog.push(None, JobTask::Wait);
        end(&mut backlog, id, Some(DeltaId(1)));
        let job = backlog.take_ended().unwrap();
        backlog.ended.extend(job.last.map(|last| (last, job.id)));
        assert_eq!((backlog.is_open(id), backlog.len(), backlog.open_job_count()), (true, 0, 1));
        backlog.ended.clear();
        assert!(!backlog.is_open(id));
    }

    #[test]
    fn turn_has_its_share_of_sessions() {
        let mut backlog = Backlog::new();
        let taken = core::iter::from_fn(|| backlog.take_allowance().then_some(())).count();
        assert_eq!((taken, backlog.touched), (SESSIONS_PER_TURN_MAX, taken as u64));
    }

    #[test]
    fn task_names_each_session_that_it_concerns_once() {
        let mut sessions = sessions();
        let (one, other) = (OwnerId(1), OwnerId(2));
        let seids: Vec<Seid> = [(1, one), (2, other), (3, one)]
            .map(|(last, owner)| establish(&mut sessions, owner, last).up_seid)
            .into();
        let cursor = sessions.states.set_cursor();
        let mut task = JobTask::RecompileAll { next: SessionIndex(0) };
        let mut all = Vec::new();
        while let Some(part) = next_session_task(&mut task, &mut sessions) {
            match part {
                SessionTask::Republish(index) => all.push(index),
                SessionTask::Skip => {}
                _ => panic!("another kind of task"),
            }
        }
        let indices = sessions.store().sessions().map(Session::index);
        assert_eq!(all, indices.collect::<Vec<_>>());
        let mut named = |mut task| -> Vec<Seid> {
            let mut next = || next_session_task(&mut task, &mut sessions);
            core::iter::from_fn(&mut next)
                .map(|task| match task {
                    SessionTask::End(seid)
                    | SessionTask::Delete(seid, _)
                    | SessionTask::Report(seid, _) => seid,
                    _ => panic!("another kind of task"),
                })
                .collect()
        };
        let next = SessionIndex(0);
        assert_eq!(named(JobTask::EndAssociation { owner: one, next }), [seids[0], seids[2]]);
        assert_eq!(named(JobTask::ReportTunnel { tunnel: TUNNEL, next }), seids);
        let keys = [SetKey::Group(vec![6]), SetKey::Group(vec![7])].into();
        let next = cursor;
        assert_eq!(named(JobTask::DeleteSets { owner: one, keys, next }), seids);
        assert!(named(JobTask::Wait).is_empty());
    }
}
