//! Options of measurements that offer traffic to a target, and the cases that result from them.

use anyhow::Result;

use super::report::{OutputArguments, Report};
use super::rig::{Rig, TrialCase};
use super::target::TargetArguments;
use super::testbed::TestbedArguments;
use super::traffic::{Size, TrafficDirection, order};
use adit_lab_engine::plan::SessionOrder;
use adit_lab_process::stop::{Stop, environment};

/// Options of tester, target, offered traffic and report.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CaseArguments {
    #[command(flatten)]
    pub bench: TestbedArguments,
    /// Lengths of the UEs' IP packets: bytes, `imix`, `pcap:FILE`, or
    /// `LENGTH:WEIGHT/…`.
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', default_value = "64")]
    size: Vec<Size>,
    /// Lengths of the UEs' UDP or TCP payloads instead, in bytes.
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', conflicts_with = "size")]
    payload: Vec<usize>,
    /// Directions to measure.
    #[arg(
        long,
        value_enum,
        value_name = "DIRECTION,…",
        value_delimiter = ',',
        default_value = "uplink,downlink,duplex"
    )]
    direction: Vec<TrafficDirection>,
    /// Sessions with traffic; default: all.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    active: Vec<u32>,
    /// Order of the sessions: `random`, `sequential`, or `zipf:EXPONENT`.
    #[arg(long, value_name = "ORDER", default_value = "random", value_parser = order)]
    order: SessionOrder,
    /// Skip the measurement of the tester's own highest rate.
    #[arg(long)]
    no_calibration: bool,
    #[command(flatten)]
    pub output: OutputArguments,
    #[command(flatten)]
    pub target: TargetArguments,
}

impl CaseArguments {
    /// Builds the rig of a target, and lists the cases; `None` if this machine lacks the CPUs for
    /// the target's placement.
    ///
    /// # Errors
    /// Options are wrong; the rig cannot be built; `stop` was raised.
    pub(crate) fn prepare(
        &self,
        mut target: TargetArguments,
        report: &mut Report,
        stop: &Stop,
    ) -> Result<Option<(Rig, Vec<TrialCase>)>> {
        if let Some(why) = target.choose_placement(&self.bench)? {
            report.leave_out(why);
            return Ok(None);
        }
        let cases = self.cases(&target)?;
        let calibrated = cases.first().filter(|_| !self.no_calibration).map(|case| &case.size);
        let rig = Rig::build(report, &self.bench, &target, calibrated, stop)?;
        Ok(Some((rig, cases)))
    }

    /// Returns all combinations of direction, size and number of active sessions.
    fn cases(&self, target: &TargetArguments) -> Result<Vec<TrialCase>> {
        let all = [target.sessions];
        let active = if self.active.is_empty() { &all[..] } else { &self.active };
        let payload = |len: &usize| {
            Size::of_payload(target.network.inner, *len)
                .map_err(|error| environment(format!("--payload {len}: {error}")))
        };
        let payloads = self.payload.iter().map(payload).collect::<Result<Vec<_>>>()?;
        let sizes = if payloads.is_empty() { &self.size } else { &payloads };
        let mut cases = Vec::new();
        for size in sizes {
            for &direction in &self.direction {
                for &active in active {
                    let (size, order) = (size.clone(), self.order);
                    cases.push(TrialCase { direction, size, active, order });
                }
            }
        }
        Ok(cases)
    }
}
