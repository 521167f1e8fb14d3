//! Groups of sessions, each with its own sequence of rates.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};

use super::{DRAIN_NS, Rig};
use crate::groups::SessionGroup;
use adit_lab_engine::pacer::RateStep;
use adit_lab_engine::plan::{PlanConfig, SessionOrder, draw_plan};
use adit_lab_engine::trial::{TrialConfig, TrialOutcome};

impl Rig {
    /// Makes an uplink and a downlink stream for each group, whose sessions send in turns.
    ///
    /// # Errors
    /// A size is impossible, or the groups have more sessions than the target.
    pub(crate) fn set_groups(&mut self, groups: &[SessionGroup]) -> Result<()> {
        let gnbs = self.arguments.network.gnb_addresses();
        let mut streams = Vec::new();
        for group in groups {
            let place = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
            let (first, last) = (place(group.first), place(group.first + group.sessions));
            let teids = self.sessions.uplink_teids.get(first..last);
            let teids = teids.context("a group has more sessions than there are")?;
            let plan: Arc<[_]> = draw_plan(&PlanConfig {
                teids,
                first,
                gnbs: &gnbs,
                source_ports: self.arguments.network.source_ports,
                weights: &group.size.weights,
                order: SessionOrder::Sequential,
                seed: 1,
            })
            .into();
            streams.push(self.stream(true, &group.size, Arc::clone(&plan))?);
            streams.push(self.stream(false, &group.size, plan)?);
        }
        self.engine.set_streams(streams);
        Ok(())
    }

    /// Runs one trial in which each stream follows its sequence of rates.
    ///
    /// # Errors
    /// The target has ended.
    pub(crate) fn run_rate_sequences(
        &mut self,
        courses: Vec<Vec<RateStep>>,
        duration_ns: u64,
        window_ns: u64,
    ) -> Result<TrialOutcome> {
        let config = self.trial_config(courses, 0, duration_ns);
        let config = TrialConfig { quiet_ns: DRAIN_NS, window_ns, ..config };
        self.cpu.get_or_insert_with(|| self.target.cpu_by_core());
        self.live.rate_pps.store(0, Ordering::Relaxed);
        self.run_trial(&config, "rates")
    }
}
