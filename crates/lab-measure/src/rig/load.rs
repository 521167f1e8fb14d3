//! Reads the load of the target at a rate.

use anyhow::{Result, anyhow};

use super::{Rig, TrialCase};
use crate::target::load::{LOAD_TRIAL_NS, LoadReading};
use adit_lab_engine::pacer::OfferedRate;
use adit_lab_process::stop::environment;

impl Rig {
    /// Runs the case at `pps` packets per second, even if packets are lost, and reads the load of
    /// the started adit meanwhile. At rate zero nothing is sent.
    ///
    /// # Errors
    /// The target is no adit that the tester started, or has ended;
    /// [`Interrupted`](adit_lab_process::stop::Interrupted).
    pub(crate) fn load(&mut self, case: &TrialCase, pps: u64) -> Result<LoadReading> {
        let probe = self.target.load_probe().ok_or_else(|| {
            environment(
                "--load is for the adit that adit-lab starts; other targets do not report it",
            )
        })?;
        let reading = if pps == 0 {
            probe.read()
        } else {
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| probe.read());
                let rate = OfferedRate::Pps(pps);
                self.run(case, rate, LOAD_TRIAL_NS, "load")?;
                reader.join().map_err(|_| anyhow!("the thread that reads the load panicked"))?
            })
        };
        self.stop.check()?;
        self.target.check()?;
        reading
    }
}
