//! Lowers the frequencies of CPUs while their threads are not busy.
//!
//! A polling thread keeps the frequency of its CPU high even without work, because the kernel sees
//! no idle time. [`FrequencyScaling`] instead uses the busy share that the threads measure
//! themselves, and sets `scaling_max_freq` to one of the two limits that it finds. A journal has
//! both limits before the first change. So the limit is restored even after a crash, by
//! [`revert_frequencies`], which the next process calls before [`FrequencyScaling::begin`].

use std::io;
use std::time::Duration;

use crate::placement::CpuSet;

use crate::tuning::apply::{self, take_back};
use crate::tuning::journal::{JournalEntry, TuningJournal};
use crate::tuning::{HostFiles, RevertedTuning, SettingForm, SettingPlace, TuningError};

const POLICIES: &str = "sys/devices/system/cpu/cpufreq";
const JOURNALS: &str = "run/adit";
const JOURNAL_PREFIX: &str = "frequency-";
const JOURNAL_SUFFIX: &str = ".journal";

/// Minimum recent busy share that raises the frequency at once. Unit: thousandths.
const RAISE_PERMILLE: u64 = 700;

/// Maximum busy share, as it would be at the low frequency, that lowers the frequency. Unit:
/// thousandths.
const LOWER_PERMILLE: u64 = 400;

/// How long the busy share has to stay that low before the frequency is lowered.
const CALM_SPAN_MIN: Duration = Duration::from_secs(3);

/// CPUs that share a frequency policy, and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrequencyRange {
    /// The CPUs.
    pub cpus: CpuSet,
    /// The lowest frequency. Unit: kHz.
    pub low_khz: u64,
    /// The highest frequency. Unit: kHz.
    pub high_khz: u64,
    /// Path of the policy's `scaling_max_freq`.
    path: String,
}

/// The CPUs whose frequencies can be lowered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrequencySurvey {
    /// The ranges of CPUs whose frequency can be set.
    pub ranges: Vec<FrequencyRange>,
    /// Reasons why the frequency of the other CPUs cannot be set, each a sentence.
    pub left: Vec<String>,
}

/// Finds the frequency ranges of `cpus`. Only threads with a known load may run on these.
#[must_use]
pub fn frequency_survey(files: &dyn HostFiles, cpus: &CpuSet) -> FrequencySurvey {
    let mut survey = FrequencySurvey::default();
    let mut unknown = cpus.clone();
    let policies = files.names(POLICIES).into_iter();
    for policy in policies.filter(|name| name.starts_with("policy")) {
        let policy = format!("{POLICIES}/{policy}");
        let of_policy = policy_cpus(files, &policy);
        let own = of_policy.intersection(cpus);
        if own.is_empty() {
            continue;
        }
        unknown = unknown.difference(&own);
        match range(files, &policy, of_policy, &own) {
            Ok(range) => survey.ranges.push(range),
            Err(why) => survey.left.push(why),
        }
    }
    if !unknown.is_empty() {
        survey.left.push(format!(
            "the kernel does not control the frequency of CPUs {unknown}, as in guests without cpufreq"
        ));
    }
    survey
}

/// Returns the online CPUs of a policy; if it has none, the CPU with the policy's number.
fn policy_cpus(files: &dyn HostFiles, policy: &str) -> CpuSet {
    let text = files.read(&format!("{policy}/affected_cpus")).unwrap_or_default();
    let cpus: CpuSet = text.split_whitespace().filter_map(|cpu| cpu.parse().ok()).collect();
    let number = policy.rsplit_once("policy").and_then(|(_, number)| number.parse().ok());
    if cpus.is_empty() { number.into_iter().collect() } else { cpus }
}

/// Reads the frequency range of a policy with the CPUs `cpus`, of which `own` run only threads with
/// a known load.
///
/// # Errors
/// The reason why adit must not change the frequency of these CPUs, as a sentence.
fn range(
    files: &dyn HostFiles,
    policy: &str,
    cpus: CpuSet,
    own: &CpuSet,
) -> Result<FrequencyRange, String> {
    let others = cpus.difference(own);
    if !others.is_empty() {
        return Err(format!(
            "CPUs {own} have one frequency with CPUs {others}, which do other work as well"
        ));
    }
    let number = |name: &str| -> Result<u64, String> {
        let path = format!("{policy}/{name}");
        let text = files.read(&path).map_err(|error| format!("/{path} cannot be read: {error}"))?;
        text.trim().parse().map_err(|_| format!("/{path} has no number: \"{}\"", text.trim()))
    };
    let (low_khz, high_khz) = (number("scaling_min_freq")?, number("scaling_max_freq")?);
    let path = format!("{policy}/scaling_max_freq");
    if low_khz >= high_khz || low_khz == 0 {
        return Err(format!("the frequency of CPUs {cpus} is fixed at {} MHz", high_khz / 1000));
    }
    if !files.is_writable(&path) {
        return Err(format!("this process may not write /{path}; it needs root"));
    }
    Ok(FrequencyRange { cpus, low_khz, high_khz, path })
}

/// The load of the thread that runs on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuLoad {
    /// The CPU.
    pub cpu: u32,
    /// Busy share of the last few milliseconds. Unit: thousandths.
    pub recent_permille: u16,
    /// Busy share of the last second. Unit: thousandths.
    pub second_permille: u16,
}

/// A change that [`FrequencyScaling::turn`] made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrequencyChange {
    /// The limit of these CPUs is now the low frequency.
    Lowered(FrequencyRange),
    /// The limit of these CPUs is the high frequency again.
    Raised(FrequencyRange),
    /// The kernel refused, or another program changed the limit; the sentence says which. adit does
    /// not change this limit again.
    GivenUp(String),
}

/// Changes the frequencies of CPUs by their load.
#[derive(Debug)]
pub struct FrequencyScaling {
    scaled: Vec<ScaledRange>,
    journal: TuningJournal,
    journal_path: String,
}

#[derive(Debug)]
struct ScaledRange {
    range: FrequencyRange,
    is_low: bool,
    /// Time since which the load has been small; `None` if it is not.
    calm_since: Option<Duration>,
}

impl FrequencyScaling {
    /// Starts with the ranges that `survey` found, all at the high frequency. `owner`: the id of
    /// this process.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn begin(
        files: &mut dyn HostFiles,
        owner: u32,
        survey: &FrequencySurvey,
    ) -> Result<Self, TuningError> {
        let journal_path = format!("{JOURNALS}/{JOURNAL_PREFIX}{owner}{JOURNAL_SUFFIX}");
        let entries = survey.ranges.iter().map(|range| entry(range, false)).collect();
        let journal = TuningJournal { profile: "frequency".to_owned(), entries };
        journal.keep_at(files, &journal_path)?;
        let scaled = survey.ranges.iter().map(|range| ScaledRange {
            range: range.clone(),
            is_low: false,
            calm_since: None,
        });
        Ok(Self { scaled: scaled.collect(), journal, journal_path })
    }

    /// Sets the limits that the loads of all threads at the time `now` require. Writes a file only
    /// if its limit changes.
    pub fn turn(
        &mut self,
        files: &mut dyn HostFiles,
        now: Duration,
        loads: &[CpuLoad],
    ) -> Vec<FrequencyChange> {
        let mut changes = Vec::new();
        self.scaled.retain_mut(|scaled| {
            if scaled.decide(now, loads) == scaled.is_low {
                return true;
            }
            match apply::write(files, &entry(&scaled.range, scaled.is_low)) {
                Ok(()) => {
                    scaled.is_low = !scaled.is_low;
                    let range = scaled.range.clone();
                    changes.push(match scaled.is_low {
                        true => FrequencyChange::Lowered(range),
                        false => FrequencyChange::Raised(range),
                    });
                    true
                }
                Err(failure) => {
                    changes.push(FrequencyChange::GivenUp(failure.why));
                    false
                }
            }
        });
        changes
    }

    /// Restores all limits.
    ///
    /// # Errors
    /// The kernel refuses a limit; the journal then stays.
    pub fn end(self, files: &mut dyn HostFiles) -> Result<RevertedTuning, TuningError> {
        revert_journal(files, &self.journal, &self.journal_path)
    }
}

impl ScaledRange {
    /// True if the frequency should be low.
    fn decide(&mut self, now: Duration, loads: &[CpuLoad]) -> bool {
        let FrequencyRange { cpus, low_khz, high_khz, .. } = &self.range;
        let own = || loads.iter().filter(|load| cpus.contains(load.cpu));
        let recent = own().map(|load| u64::from(load.recent_permille)).max().unwrap_or(0);
        let second = own().map(|load| u64::from(load.second_permille)).max().unwrap_or(0);
        if recent >= RAISE_PERMILLE {
            self.calm_since = None;
            return false;
        }
        if self.is_low {
            return true;
        }
        let at_low = second.saturating_mul(*high_khz) / low_khz;
        if at_low > LOWER_PERMILLE {
            self.calm_since = None;
            return false;
        }
        let since = *self.calm_since.get_or_insert(now);
        let is_calm = now.saturating_sub(since) >= CALM_SPAN_MIN;
        if is_calm {
            self.calm_since = None;
        }
        is_calm
    }
}

/// Makes the entry for a change of limit. The journal has the entry for the change to the low
/// limit.
fn entry(range: &FrequencyRange, is_low: bool) -> JournalEntry {
    let (high, low) = (range.high_khz.to_string(), range.low_khz.to_string());
    let (previous, wanted) = if is_low { (low, high) } else { (high, low) };
    JournalEntry {
        place: SettingPlace::File,
        form: SettingForm::Text,
        path: range.path.clone(),
        previous,
        wanted,
    }
}

/// Restores the limits of processes that ended without restoring them. `own`: the id of this
/// process, which must not have called [`FrequencyScaling::begin`] yet.
///
/// # Errors
/// A journal is damaged, or the kernel refuses a previous limit.
pub fn revert_frequencies(
    files: &mut dyn HostFiles,
    own: u32,
) -> Result<RevertedTuning, TuningError> {
    let mut reverted = RevertedTuning::default();
    for name in files.names(JOURNALS) {
        let owner =
            name.strip_prefix(JOURNAL_PREFIX).and_then(|rest| rest.strip_suffix(JOURNAL_SUFFIX));
        let Some(owner) = owner.and_then(|owner| owner.parse::<u32>().ok()) else { continue };
        if owner != own && is_adit(files, owner) {
            let what = format!("frequencies that the running adit (process {owner}) changes");
            reverted.left.push(what);
            continue;
        }
        let path = format!("{JOURNALS}/{name}");
        let Some(journal) = TuningJournal::read_at(files, &path)? else { continue };
        let mut of_owner = revert_journal(files, &journal, &path)?;
        reverted.restored.append(&mut of_owner.restored);
        reverted.left.append(&mut of_owner.left);
    }
    Ok(reverted)
}

/// True if the process with this id runs and is adit: another program may have the id now.
fn is_adit(files: &dyn HostFiles, process: u32) -> bool {
    let name = files.read(&format!("proc/{process}/comm"));
    name.is_ok_and(|name| name.starts_with("adit"))
}

fn revert_journal(
    files: &mut dyn HostFiles,
    journal: &TuningJournal,
    path: &str,
) -> Result<RevertedTuning, TuningError> {
    let taken_back = take_back(files, journal);
    if !taken_back.failed.is_empty() {
        return Err(TuningError::HalfReverted { left: taken_back.failed.join("; ") });
    }
    match TuningJournal::forget_at(files, path) {
        Err(TuningError::Journal { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
        forgotten => forgotten?,
    }
    Ok(taken_back.reverted)
}
