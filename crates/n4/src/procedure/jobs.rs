//! Runs the jobs of [`crate::backlog`], a bounded part in each iteration of the control thread.

use adit_rules::DeltaId;
use adit_types::Nanos;
use adit_types::limits::{BACKGROUND_CHANGES_MAX, SESSIONS_PER_TURN_MAX};

use crate::answers::Condition;
use crate::backlog::{BacklogJob, SessionTask, next_session_task};
use crate::backlog::{JobTask, JobWaiter};
use crate::node::Node;
use crate::session_state::ReportItem;

impl Node {
    /// Returns how many jobs on many sessions are open: they have sessions to process, or some
    /// worker has not observed their last change yet.
    #[must_use]
    pub fn open_jobs_len(&self) -> usize {
        self.backlog.open_job_count()
    }

    /// Starts a job. Its end is a condition for the answer to the message that is being handled.
    pub(crate) fn start_job(&mut self, waiter: Option<JobWaiter>, task: JobTask) -> Condition {
        Condition::JobEnded(self.backlog.push(waiter, task))
    }

    /// Returns the condition that all open jobs of the peer have ended; `None` if it has none.
    pub(crate) fn wait_for_jobs(&mut self, waiter: JobWaiter) -> Option<Condition> {
        let waits = self.backlog.has_job_for(&waiter);
        waits.then(|| self.start_job(Some(waiter), JobTask::Wait))
    }

    /// Resets the allowance of sessions for a new iteration, and continues the jobs.
    pub(crate) fn begin_turn(&mut self, now: Nanos) {
        self.backlog.allowance = SESSIONS_PER_TURN_MAX;
        self.sessions.states.begin_turn();
        self.advance_jobs(now);
    }

    /// Continues the jobs while the iteration's allowance lasts and workers keep up with changes.
    pub(crate) fn advance_jobs(&mut self, now: Nanos) {
        self.end_jobs(now);
        while self.has_job_to_do() && self.backlog.allowance > 0 {
            self.advance_job(now);
            self.backlog.jobs.rotate_left(1);
            self.end_jobs(now);
        }
    }

    /// True if a job can continue now.
    pub(crate) fn has_job_to_do(&self) -> bool {
        self.pending_len() < BACKGROUND_CHANGES_MAX
            && self.backlog.jobs.iter().any(|job| !job.is_done)
    }

    /// Returns how many sessions jobs have processed since the node was created: at most
    /// [`SESSIONS_PER_TURN_MAX`] more after each [`Node::handle_timeout`].
    #[doc(hidden)]
    #[must_use]
    pub const fn sessions_touched_by_jobs(&self) -> u64 {
        self.backlog.touched
    }

    /// Processes one session of the job at the front.
    fn advance_job(&mut self, now: Nanos) {
        let Some(job) = self.backlog.jobs.front_mut().filter(|job| !job.is_done) else { return };
        let (id, part) = (job.id, next_session_task(&mut job.task, &mut self.sessions));
        let Some(part) = part else {
            job.is_done = true;
            return;
        };
        // The job has advanced past this session, so a fault does not make it try the session
        // again.
        self.backlog.take_allowance();
        let mut change = None;
        let removed = self.run_contained("a job", |node| change = node.run_session_task(now, part));
        let change = change.or(removed);
        let job = self.backlog.jobs.front_mut().filter(|job| job.id == id);
        if let (Some(job), Some(change)) = (job, change) {
            job.last = Some(change);
        }
    }

    fn run_session_task(&mut self, now: Nanos, part: SessionTask) -> Option<DeltaId> {
        match part {
            SessionTask::Skip => None,
            SessionTask::End(up_seid) => self.end_session_with_association(up_seid),
            SessionTask::EndReports(up_seid) => {
                self.discard_reports(up_seid);
                None
            }
            SessionTask::ApplyDisposition(up_seid) => {
                let ended = self.apply_disposition(up_seid);
                self.send_reports(now);
                ended
            }
            SessionTask::Delete(up_seid, by) => {
                self.apply_disposition(up_seid);
                let owner = self.sessions.store().session(up_seid)?.owner();
                self.peers.shares_control(by, owner).then_some(())?;
                self.counters.scalars.sessions_deleted += 1;
                self.delete_session(up_seid)
            }
            SessionTask::Recompile(index, changed) => self.sessions.recompile(index, &changed),
            SessionTask::Republish(index) => self.sessions.republish(index),
            SessionTask::Move(up_seid, by, to) => {
                self.move_control(by, up_seid, to);
                None
            }
            SessionTask::Report(up_seid, tunnel) => {
                self.report(now, up_seid, ReportItem::ErrorIndication { tunnel });
                None
            }
        }
    }

    /// Ends jobs that have processed all sessions: their answers leave when workers have observed
    /// the last change of each.
    fn end_jobs(&mut self, now: Nanos) {
        while let Some(BacklogJob { id, last, .. }) = self.backlog.take_ended() {
            match last.filter(|last| self.sessions.is_pending(*last)) {
                Some(last) => self.backlog.ended.push_back((last, id)),
                None => self.meet(now, Condition::JobEnded(id)),
            }
        }
    }

    /// Notes that all workers have observed the change `id`; ends the jobs that waited for it or an
    /// earlier one.
    pub(crate) fn end_jobs_through(&mut self, now: Nanos, id: DeltaId) {
        while let Some(at) = self.backlog.ended.iter().position(|(last, _)| *last <= id)
            && let Some((_, job)) = self.backlog.ended.remove(at)
        {
            self.meet(now, Condition::JobEnded(job));
        }
    }
}
