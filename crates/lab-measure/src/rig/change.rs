//! Establishes, deletes and changes sessions during a measurement.

use anyhow::{Context, Result};

use super::{NO_SESSIONS, Rig, serve_while};
use adit_lab_smf::churn::{Churn, ChurnPlan};
use adit_lab_smf::exchange::ProcedureReport;

impl Rig {
    /// Returns the number of established sessions.
    #[must_use]
    pub(crate) fn session_count(&self) -> u32 {
        u32::try_from(self.sessions.uplink_teids.len()).unwrap_or(u32::MAX)
    }

    /// Establishes sessions until there are `count`. The report counts refusals.
    ///
    /// # Errors
    /// The target does not support sessions or has ended; a request was not answered.
    pub(crate) fn grow(&mut self, count: u32) -> Result<ProcedureReport> {
        let config = self.sessions_config.as_ref().context(NO_SESSIONS)?;
        let from = self.session_count();
        let smf = self.smf.as_mut().context(NO_SESSIONS)?;
        let (sessions, target, stop) = (&mut self.sessions, &mut self.target, &self.stop);
        let report = serve_while(
            &self.bench,
            || self.engine.serve(),
            || {
                let watch = || stop.check().and_then(|()| target.check());
                smf.establish_range(config, from..count.max(from), sessions, watch)
            },
        )?;
        smf.answer_in_background()?;
        Ok(report)
    }

    /// Deletes sessions until there are `count`.
    ///
    /// # Errors
    /// See [`Self::grow`]; the target refuses a deletion.
    pub(crate) fn shrink(&mut self, count: u32) -> Result<ProcedureReport> {
        let from = self.session_count();
        let smf = self.smf.as_mut().context(NO_SESSIONS)?;
        let (target, stop) = (&mut self.target, &self.stop);
        let report = serve_while(
            &self.bench,
            || self.engine.serve(),
            || {
                let watch = || stop.check().and_then(|()| target.check());
                smf.delete_range(count.min(from)..from, watch)
            },
        )?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.sessions.up_seids.truncate(count);
        self.sessions.uplink_teids.truncate(count);
        smf.set_sessions(&self.sessions);
        smf.answer_in_background()?;
        Ok(report)
    }

    /// Starts to change the last `count` sessions during the following trials.
    ///
    /// # Errors
    /// The target does not support sessions.
    pub(crate) fn begin_churn(&mut self, plan: ChurnPlan, count: u32) -> Result<()> {
        let config = self.sessions_config.as_ref().context(NO_SESSIONS)?;
        let all = self.session_count();
        let smf = self.smf.as_mut().context(NO_SESSIONS)?;
        smf.poll_for_answers()?;
        let count = count.min(all);
        let range = all - count..all;
        let sessions = self.sessions.clone();
        self.churn = Some(Churn::new(plan, config.clone(), smf, sessions, range));
        Ok(())
    }

    /// Ends the changes and restores the first state of every session. `None` if none were begun.
    ///
    /// # Errors
    /// The target has ended; a request was not answered.
    pub(crate) fn end_churn(&mut self) -> Result<Option<ProcedureReport>> {
        let Some(churn) = self.churn.take() else { return Ok(None) };
        let smf = self.smf.as_mut().context(NO_SESSIONS)?;
        smf.wait_for_answers()?;
        let target = &mut self.target;
        let (report, sessions) = serve_while(
            &self.bench,
            || self.engine.serve(),
            || churn.finish(smf, || target.check()),
        )?;
        smf.set_sessions(&sessions);
        self.sessions = sessions;
        smf.answer_in_background()?;
        Ok(Some(report))
    }
}
