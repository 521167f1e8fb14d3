//! Turns the records of the threads into the outcome of each TTI.

use crate::baseband_app::percentile::percentile_of;

/// One execution of a stage by a thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StageRun {
    /// Index of the TTI.
    pub tti: u64,
    /// Begin of the execution. Unit: ns of the clock.
    pub start_ns: u64,
    /// End of the execution. Unit: ns of the clock.
    pub end_ns: u64,
    /// True if the end of the TTI activated the stage; only for the scheduler.
    pub timed_out: bool,
}

/// The records of the threads.
#[derive(Debug, Default)]
pub(crate) struct PipelineRecord {
    /// TTIs that began.
    pub ttis: u64,
    /// Releases of TTIs by the I/O thread: `start_ns` is the time of the release, `end_ns` is when
    /// the TTI should have begun.
    pub released: Vec<StageRun>,
    /// Runs of the uplink threads by cell.
    pub uplinks: Vec<Vec<StageRun>>,
    /// The runs of the scheduler thread.
    pub scheduler: Vec<StageRun>,
    /// Runs of the downlink threads by cell.
    pub downlinks: Vec<Vec<StageRun>>,
}

/// The outcome of a TTI.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TtiOutcome {
    /// Time from the activation of the first uplink thread to the end of the last downlink thread;
    /// `None` if a stage was skipped. Unit: ns.
    pub response_ns: Option<u64>,
    /// True if the scheduler thread did not wait for all uplink threads.
    pub timed_out: bool,
}

impl TtiOutcome {
    /// True if the response came without all uplink threads, later than a TTI after the activation,
    /// or not at all.
    #[must_use]
    pub fn is_missed(&self, tti_ns: u64) -> bool {
        self.timed_out || self.response_ns.is_none_or(|response_ns| response_ns > tti_ns)
    }
}

/// Execution times of a kind of thread, interruptions included. Unit: ns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StageDurations {
    /// `uplink`, `scheduler`, `downlink`, or `release` for the delay of the I/O thread.
    pub stage: String,
    /// Number of executions.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Longest.
    pub max_ns: u64,
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct WorkloadOutcome {
    /// The outcome of each TTI that began.
    pub ttis: Vec<TtiOutcome>,
    /// Execution times by kind of thread.
    pub stages: Vec<StageDurations>,
    /// False if the run was interrupted.
    pub complete: bool,
}

impl PipelineRecord {
    /// Returns the outcome of each TTI.
    pub(crate) fn outcomes(&self) -> Vec<TtiOutcome> {
        let count = usize::try_from(self.ttis).unwrap_or(0);
        let mut progress = vec![TtiProgress::default(); count];
        let of = |run: &StageRun| usize::try_from(run.tti).unwrap_or(usize::MAX);
        for run in &self.released {
            if let Some(tti) = progress.get_mut(of(run)) {
                tti.released_ns = Some(run.start_ns);
            }
        }
        for run in &self.scheduler {
            if let Some(tti) = progress.get_mut(of(run)) {
                tti.timed_out = run.timed_out;
            }
        }
        for run in self.downlinks.iter().flatten() {
            if let Some(tti) = progress.get_mut(of(run)) {
                tti.downlinks += 1;
                tti.last_end_ns = tti.last_end_ns.max(run.end_ns);
            }
        }
        progress.iter().map(|tti| tti.outcome(self.downlinks.len())).collect()
    }

    /// Returns the execution times by kind of thread.
    pub(crate) fn stage_durations(&self) -> Vec<StageDurations> {
        let late = |run: &StageRun| run.start_ns.saturating_sub(run.end_ns);
        let took = |run: &StageRun| run.end_ns.saturating_sub(run.start_ns);
        vec![
            durations("release", self.released.iter().map(late).collect()),
            durations("uplink", self.uplinks.iter().flatten().map(took).collect()),
            durations("scheduler", self.scheduler.iter().map(took).collect()),
            durations("downlink", self.downlinks.iter().flatten().map(took).collect()),
        ]
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct TtiProgress {
    released_ns: Option<u64>,
    timed_out: bool,
    downlinks: usize,
    last_end_ns: u64,
}

impl TtiProgress {
    fn outcome(&self, cells: usize) -> TtiOutcome {
        let released_ns = self.released_ns.filter(|_| self.downlinks == cells);
        // If the release is late, the scheduler thread may run before it, at the end of the TTI.
        let response_ns = released_ns.and_then(|at_ns| self.last_end_ns.checked_sub(at_ns));
        TtiOutcome { response_ns, timed_out: self.timed_out }
    }
}

fn durations(stage: &str, mut values: Vec<u64>) -> StageDurations {
    values.sort_unstable();
    let at = |percent: f64| percentile_of(&values, values.len(), percent).unwrap_or(0);
    StageDurations {
        stage: stage.to_owned(),
        count: u64::try_from(values.len()).unwrap_or(u64::MAX),
        p50_ns: at(50.0),
        p99_ns: at(99.0),
        max_ns: values.last().copied().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(tti: u64, start_ns: u64, end_ns: u64) -> StageRun {
        StageRun { tti, start_ns, end_ns, timed_out: false }
    }

    fn record() -> PipelineRecord {
        PipelineRecord {
            ttis: 5,
            released: vec![
                stage(0, 100, 90),
                stage(1, 1100, 1090),
                stage(2, 2100, 2090),
                stage(4, 5900, 4090),
            ],
            uplinks: vec![vec![stage(0, 110, 610)], vec![stage(0, 120, 620)]],
            scheduler: vec![
                stage(0, 630, 730),
                StageRun { timed_out: true, ..stage(1, 2090, 2190) },
                stage(2, 2700, 2800),
                StageRun { timed_out: true, ..stage(4, 5090, 5190) },
            ],
            downlinks: vec![
                vec![stage(0, 740, 1000), stage(1, 2200, 2500), stage(4, 5200, 5500)],
                vec![
                    stage(0, 745, 1050),
                    stage(1, 2200, 2600),
                    stage(2, 2900, 3100),
                    stage(4, 5200, 5500),
                ],
            ],
        }
    }

    #[test]
    fn response_is_from_release_to_the_last_downlink_thread() {
        let outcomes = record().outcomes();
        assert_eq!(outcomes[0], TtiOutcome { response_ns: Some(950), timed_out: false });
        assert_eq!(outcomes[1], TtiOutcome { response_ns: Some(1500), timed_out: true });
    }

    #[test]
    fn tti_with_a_skipped_stage_or_without_release_has_no_response() {
        let outcomes = record().outcomes();
        assert_eq!(outcomes[2].response_ns, None);
        assert_eq!(outcomes[3].response_ns, None);
        // TTI 4 was released after its end.
        assert_eq!(outcomes[4].response_ns, None);
        let missed: Vec<bool> = outcomes.iter().map(|one| one.is_missed(1000)).collect();
        assert_eq!(missed, [false, true, true, true, true]);
    }

    #[test]
    fn stages_have_their_durations_and_the_release_its_delay() {
        let stages = record().stage_durations();
        let find = |name: &str| stages.iter().find(|stage| stage.stage == name).unwrap();
        assert_eq!((find("release").count, find("release").p50_ns), (4, 10));
        assert_eq!((find("uplink").p50_ns, find("scheduler").max_ns), (500, 100));
        assert_eq!((find("downlink").count, find("downlink").max_ns), (7, 400));
    }
}
