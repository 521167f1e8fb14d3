//! The kinds of faults, and plans of faults that follow from a seed.

use clap::ValueEnum;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use crate::faults::setting::StoreSetting;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FaultKind {
    /// The active adit is killed, and started again at the end.
    KillActive,
    /// The standby is killed, and started again at the end.
    KillStandby,
    /// The active adit ends in an orderly way, and is started again at the end.
    TerminateActive,
    /// The process of the active adit stands still.
    StopActive,
    /// The process of the standby stands still.
    StopStandby,
    /// A network device of the active adit is down.
    LinkDown,
    /// Packets from and to the active adit vanish on one network.
    Silent,
    /// Packets from the active adit, or those to it, vanish on one network.
    SilentOneWay,
    /// Packets of the active adit are late, and some are lost, on one network.
    Degraded,
    /// The SMF is cut off.
    N4Cut,
    /// The SMF restarts.
    SmfRestart,
    /// The SMF sets up its association again, without a restart.
    SmfSetup,
    /// The primary server is killed, and started again with its files at the end.
    KillServer,
    /// The process of the primary server stands still.
    StopServer,
    /// Packets from and to the primary server vanish.
    SilentServer,
    /// The primary server is killed, and started again without its files.
    EmptyServer,
    /// The primary server has no memory left.
    FullServer,
    /// The primary server throws records away.
    EvictingServer,
    /// A replica that lacks changes is promoted.
    StalePromotion,
    /// The wall clock of a server or an adit is one hour off.
    ClockStep,
    /// The disk of the journal is full.
    DiskFull,
    /// The disk of the journal returns errors.
    DiskFails,
    /// All files of the journal are removed.
    FilesRemoved,
    /// Syncs of the journal or of the primary server take long.
    SlowSync,
    /// The active adit is replaced by the previous release, and that one by this one.
    Update,
}

impl FaultKind {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// True if the store setting has what the fault needs.
    pub(crate) fn fits(self, setting: StoreSetting) -> bool {
        use StoreSetting::{Journal, Pair, Replicated};
        match self {
            Self::KillActive
            | Self::TerminateActive
            | Self::StopActive
            | Self::LinkDown
            | Self::Silent
            | Self::SilentOneWay
            | Self::Degraded
            | Self::N4Cut
            | Self::SmfRestart
            | Self::SmfSetup
            | Self::ClockStep
            | Self::SlowSync => true,
            // The two adits of a pair must run the same version.
            Self::Update => setting != Pair,
            Self::KillStandby
            | Self::StopStandby
            | Self::KillServer
            | Self::StopServer
            | Self::SilentServer
            | Self::EmptyServer
            | Self::FullServer
            | Self::EvictingServer => setting != Journal,
            Self::StalePromotion => setting == Replicated,
            Self::DiskFull | Self::DiskFails | Self::FilesRemoved => setting == Journal,
        }
    }

    /// True if the fault needs the preloaded library.
    pub(crate) fn needs_shim(self) -> bool {
        matches!(self, Self::ClockStep | Self::SlowSync | Self::DiskFails)
    }

    /// True if the fault ends the process of the active adit, or makes another adit take over.
    pub(crate) fn ends_process(self) -> bool {
        !matches!(
            self,
            Self::KillStandby
                | Self::StopStandby
                | Self::Degraded
                | Self::N4Cut
                | Self::SmfRestart
                | Self::SmfSetup
                | Self::KillServer
                | Self::FullServer
                | Self::DiskFull
                | Self::DiskFails
                | Self::FilesRemoved
                | Self::SlowSync
        )
    }

    /// True if no store setting keeps its promises during this fault. It is only injected if it is
    /// named.
    pub(crate) fn is_beyond_promises(self) -> bool {
        // A server that evicts records evicts the lease as well.
        self == Self::EvictingServer
    }

    /// Returns the minimum and maximum duration. Unit: ms.
    fn span_ms(self) -> [u64; 2] {
        match self {
            Self::KillActive | Self::KillStandby | Self::TerminateActive => [200, 4000],
            Self::SmfRestart | Self::SmfSetup => [100, 200],
            Self::N4Cut => [500, 9000],
            Self::DiskFull => [5000, 9000],
            Self::Update | Self::StalePromotion => [3000, 5000],
            _ => [500, 6000],
        }
    }
}

/// A planned fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct PlannedFault {
    pub(crate) kind: FaultKind,
    /// Time without a fault before it. Unit: ms.
    pub(crate) gap_ms: u64,
    /// Duration. Unit: ms.
    pub(crate) hold_ms: u64,
    /// A random number that selects the network, host or direction.
    pub(crate) pick: u32,
}

/// The endless sequence of faults in a run, which follows from the seed alone.
#[derive(Debug)]
pub(crate) struct FaultPlan {
    kinds: Vec<FaultKind>,
    rng: StdRng,
}

impl FaultPlan {
    /// Creates a plan with these kinds of faults.
    pub(crate) fn new(kinds: Vec<FaultKind>, seed: u64) -> Self {
        Self { kinds, rng: StdRng::seed_from_u64(seed) }
    }
}

impl Iterator for FaultPlan {
    type Item = PlannedFault;

    fn next(&mut self) -> Option<PlannedFault> {
        let at = self.rng.random_range(0..self.kinds.len().max(1));
        let kind = self.kinds.get(at).copied()?;
        let [shortest, longest] = kind.span_ms();
        Some(PlannedFault {
            kind,
            gap_ms: self.rng.random_range(300..1500),
            hold_ms: self.rng.random_range(shortest..=longest),
            pick: self.rng.random(),
        })
    }
}

/// A fault that was injected, and its consequences.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FaultRecord {
    pub(crate) kind: FaultKind,
    /// Description of the fault and its target.
    pub(crate) text: String,
    /// Start of the fault. Unit: ms since the start of the run.
    pub(crate) start_ms: u64,
    pub(crate) end_ms: u64,
    /// Changes must be accepted again within `bound_ms` after this time, which is the end of the
    /// fault or, if earlier, when another adit or server could take over. Unit: ms since the start
    /// of the run.
    pub(crate) due_from_ms: u64,
    pub(crate) bound_ms: u64,
    /// When the first change was accepted after that; `None` if none was.
    pub(crate) accepted_ms: Option<u64>,
    /// When all processes were back in their roles.
    pub(crate) whole_ms: u64,
    /// True if the machine was too busy for a verdict about the time.
    pub(crate) is_too_slow_to_judge: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_follows_from_its_seed() {
        let kinds: Vec<FaultKind> = FaultKind::value_variants().to_vec();
        let plan = |seed| FaultPlan::new(kinds.clone(), seed).take(20).collect::<Vec<_>>();
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7), plan(8));
    }

    #[test]
    fn every_kind_fits_a_setting_and_lasts_for_a_while() {
        for kind in FaultKind::value_variants() {
            assert!(StoreSetting::ALL.iter().any(|setting| kind.fits(*setting)), "{kind:?}");
            let [shortest, longest] = kind.span_ms();
            assert!(0 < shortest && shortest < longest, "{kind:?}");
        }
    }
}
