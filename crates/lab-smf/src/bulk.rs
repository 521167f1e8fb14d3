//! Procedures for many sessions: establishment and deletion at a rate, or as fast as the UPF
//! answers.

pub mod requests;

use std::net::IpAddr;
use std::ops::Range;
use std::time::Instant;

use adit_lab_engine::frame::Endpoints;
use anyhow::Result;

use self::requests::{Deletion, Establishment};
use crate::exchange::{Procedure, ProcedureReport, ProcedureRun};
use crate::profile::SessionProfile;
use crate::smf::{LabSmf, RECEIVE_TIMEOUT};

/// Who chooses the uplink TEIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TeidAllocation {
    /// The SMF: session *k* has this TEID plus *k*.
    Given(u32),
    /// The UPF.
    Chosen,
}

/// The sessions to establish.
#[derive(Debug, Clone)]
pub struct SessionsConfig {
    /// Number of sessions.
    pub count: u32,
    /// Addresses of the UEs and of their server.
    pub endpoints: Endpoints,
    /// True if the UEs have an IPv6 prefix instead of an IPv4 address.
    pub ipv6: bool,
    /// gNB addresses; session *k* is at gNB *k* modulo the number of gNBs.
    pub gnbs: Vec<IpAddr>,
    /// TEID of session 0 at its gNB; session *k* has this TEID plus *k*.
    pub gnb_teid: u32,
    /// GTP-U address of the UPF, of the same family as `gnbs`.
    pub upf: IpAddr,
    /// Who chooses the uplink TEIDs.
    pub teids: TeidAllocation,
    /// The rules of all sessions that `profiles` does not cover.
    pub profile: SessionProfile,
    /// The rules of the first sessions: for each profile, how many sessions use it.
    pub profiles: Vec<(u32, SessionProfile)>,
    /// Octets of the network instances of the access and the core side, if the UPF needs them.
    pub network_instances: [Option<Vec<u8>>; 2],
}

/// Identifiers allocated by the UPF, by session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpfSessionIds {
    /// The UPF's SEIDs.
    pub up_seids: Vec<u64>,
    /// Uplink TEIDs.
    pub uplink_teids: Vec<u32>,
}

impl LabSmf {
    /// Establishes all sessions. Returns the UPF's identifiers and a report.
    ///
    /// # Errors
    /// `watch` fails; the UPF refuses a request (the error has its Cause); the UPF does not answer.
    pub fn establish_all(
        &mut self,
        config: &SessionsConfig,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<(UpfSessionIds, ProcedureReport)> {
        let (identity, mut sessions) = (self.identity().clone(), UpfSessionIds::default());
        let mut procedure = Establishment::new(config, &identity, &mut sessions, config.count);
        let report = self.run_procedure(0..config.count, false, &mut procedure, watch)?;
        self.set_sessions(&sessions);
        Ok((sessions, report))
    }

    /// Establishes the sessions of a range. Counts refusals instead of failing.
    ///
    /// # Errors
    /// `watch` fails; the UPF does not answer a request.
    pub fn establish_range(
        &mut self,
        config: &SessionsConfig,
        range: Range<u32>,
        sessions: &mut UpfSessionIds,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<ProcedureReport> {
        let identity = self.identity().clone();
        let mut procedure = Establishment::new(config, &identity, sessions, range.end);
        let report = self.run_procedure(range, true, &mut procedure, watch)?;
        self.set_sessions(sessions);
        Ok(report)
    }

    /// Sets the UPF's SEIDs, which the SMF writes into its answers to reports.
    pub fn set_sessions(&mut self, sessions: &UpfSessionIds) {
        self.state.up_seids().clone_from(&sessions.up_seids);
    }

    /// Deletes all sessions.
    ///
    /// # Errors
    /// See [`Self::establish_all`].
    pub fn delete_all(&mut self, watch: impl FnMut() -> Result<()>) -> Result<ProcedureReport> {
        let count = u32::try_from(self.state.up_seids().len()).unwrap_or(u32::MAX);
        self.delete_range(0..count, watch)
    }

    /// Deletes the sessions of a range.
    ///
    /// # Errors
    /// See [`Self::establish_all`].
    pub fn delete_range(
        &mut self,
        range: Range<u32>,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<ProcedureReport> {
        let up_seids = self.state.up_seids().clone();
        self.run_procedure(range, false, &mut Deletion { up_seids: &up_seids }, watch)
    }

    /// Runs a procedure for a range of sessions. `tolerant` counts refusals instead of failing.
    fn run_procedure(
        &mut self,
        range: Range<u32>,
        tolerant: bool,
        procedure: &mut dyn Procedure,
        mut watch: impl FnMut() -> Result<()>,
    ) -> Result<ProcedureReport> {
        self.wait_for_answers()?;
        let mut exchange = ProcedureRun::new(range, self.options.rate, tolerant);
        let mut watched = Instant::now();
        while !exchange.is_over() {
            self.step(&mut exchange, procedure)?;
            if watched.elapsed() >= RECEIVE_TIMEOUT {
                watch()?;
                watched = Instant::now();
            }
        }
        Ok(exchange.report())
    }
}
