//! Types of values in `[datapath]`: CPUs of threads, and a word for all threads or one for each.

use std::collections::BTreeSet;

use adit_machine::placement::{PlacedPort, PlanModel, PlanRequest, SiblingPolicy};
use adit_types::limits::WORKERS_MAX;

use super::described::Takes;
use super::kinds::{Kind, Words, integer};
use super::section::{ConfigDocument, ConfigValue};

/// CPU cores, which a file lists or leaves to a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CpuKey {
    /// True if a plan chooses the cores: `"auto"`, or `{ count = 2 }`.
    pub is_planned: bool,
    /// Number of threads to plan for; `None` if the file leaves it to the plan.
    pub count: Option<usize>,
    pub cores: Vec<u16>,
}

impl CpuKey {
    /// Returns the cores of `key`: those in `planned`, which then replace its value, or its own.
    pub(super) fn resolve(key: &mut Option<Self>, planned: Option<Vec<u16>>) -> Vec<u16> {
        if let Some(cores) = planned {
            *key = Some(Self { is_planned: true, count: None, cores });
        }
        key.as_ref().map_or_else(Vec::new, |key| key.cores.clone())
    }
}

/// The rules for a list of cores of threads other than workers, and words for its mistakes.
pub(super) struct OtherCores<'a> {
    pub path: &'a str,
    pub most: usize,
    /// Name of a thread in the list, for messages; `does` is its task.
    pub thread: &'a str,
    pub does: &'a str,
}

impl OtherCores<'_> {
    /// Adds a problem if there are too many cores, too few, or one twice.
    pub(super) fn check(&self, document: &ConfigDocument<'_>, cores: &[u16]) {
        let Self { path, most, thread, does } = self;
        if cores.is_empty() && !document.has(path) {
            document.problem(path, "is missing and has no default");
        } else if cores.is_empty() || cores.len() > *most {
            let what = format!("takes 1 to {most} CPU cores, one for each thread that {does}");
            document.problem(path, what);
        } else if has_duplicate(cores) {
            document.problem(path, format!("names a CPU core twice; each {thread} needs its own"));
        }
    }
}

/// True if a list of CPU cores names one twice.
pub(super) fn has_duplicate(cores: &[u16]) -> bool {
    cores.iter().collect::<BTreeSet<_>>().len() != cores.len()
}

/// How CPUs are chosen for threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PlacementSettings {
    /// True if a plan chooses the CPUs; false if the file lists them.
    pub is_planned: bool,
    /// Permitted use of the siblings of a core.
    pub siblings: SiblingPolicy,
    /// True if NUMA nodes are ignored, for comparisons.
    pub ignores_nodes: bool,
}

impl PlacementSettings {
    /// Makes the request for a plan. Without `workers` the plan has as many as fit.
    pub(crate) fn request(
        self,
        model: PlanModel,
        workers: Option<usize>,
        ports: Vec<PlacedPort>,
    ) -> PlanRequest {
        let signaling = usize::from(matches!(model, PlanModel::Pipeline { .. }));
        let Self { siblings, ignores_nodes, .. } = self;
        let threads_max = WORKERS_MAX - signaling;
        let is_per_node = false;
        PlanRequest { model, workers, threads_max, ports, siblings, ignores_nodes, is_per_node }
    }
}

/// The CPUs of all threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ThreadCpus {
    pub settings: PlacementSettings,
    pub control: u16,
    pub workers: Vec<u16>,
    /// CPUs that the plan chose for these threads; `None` if the keys of the model list them.
    pub planned: Option<DistributorCpus>,
}

/// The CPUs of the threads that pass packets to workers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DistributorCpus {
    /// CPUs of receivers or of Rx/Tx threads.
    pub receivers: Vec<u16>,
    pub scheduler: Option<u16>,
}

/// Message for a value that is no [`CpuKey`].
const CPUS_REFUSAL: &str = "takes a list of CPU cores such as [1], \"auto\", or { count = 2 }";

/// The [`Kind`] of values that are a [`CpuKey`].
pub(super) struct Cpus;

impl Kind<CpuKey> for Cpus {
    fn of(&self, value: &ConfigValue<'_>) -> Result<CpuKey, String> {
        let value = value.get_ref();
        let planned = |count| CpuKey { is_planned: true, count, cores: Vec::new() };
        if value.as_str() == Some("auto") {
            return Ok(planned(None));
        }
        if let Some(table) = value.as_table() {
            let count = table.get("count").filter(|_| table.len() == 1);
            // The plan checks the count.
            let count = count.map(|count| integer(0..=usize::MAX).of(count).unwrap_or(0));
            return count.map(|count| planned(Some(count))).ok_or_else(|| CPUS_REFUSAL.to_owned());
        }
        let items = value.as_array().ok_or(CPUS_REFUSAL)?;
        let cores: Result<_, _> =
            items.iter().map(|item| integer(0..=1023).of_item(item)).collect();
        cores.map(|cores| CpuKey { cores, ..CpuKey::default() })
    }

    fn show(&self, value: &CpuKey) -> String {
        format!("{:?}", value.cores)
    }

    fn takes(&self) -> Takes {
        let cores = Takes::List(Box::new(integer(0..=1023).takes()));
        Takes::AnyOf(vec![cores, Takes::Words(vec!["auto"]), Takes::Count(WORKERS_MAX)])
    }
}

/// One value for all items, or one for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PerItem<T> {
    One(T),
    Each(Vec<T>),
}

impl<T: Clone> PerItem<T> {
    /// Returns the values of `count` items; `None` if a list has another length.
    pub(super) fn of(&self, count: usize) -> Option<Vec<T>> {
        match self {
            Self::One(value) => Some(vec![value.clone(); count]),
            Self::Each(values) => Some(values.clone()).filter(|values| values.len() == count),
        }
    }
}

/// The [`Kind`] of values that are a [`PerItem`].
pub(super) struct PerItemKind<T: 'static>(Words<T>);

pub(super) const fn per_item<T>(words: Words<T>) -> PerItemKind<T> {
    PerItemKind(words)
}

impl<T: Copy> PerItemKind<T> {
    /// Returns the message for a wrong value: the values that the key accepts for `count` items.
    pub(super) fn refusal(&self, count: Option<usize>) -> String {
        let count = count.map_or_else(String::new, |count| format!("{count} of "));
        format!("takes {}, or a list of {count}them", self.0.names(" or "))
    }
}

impl<T: Copy + PartialEq> Kind<PerItem<T>> for PerItemKind<T> {
    fn of(&self, value: &ConfigValue<'_>) -> Result<PerItem<T>, String> {
        let read = match value.get_ref().as_array() {
            None => self.0.find(value).map(PerItem::One),
            Some(items) => {
                items.iter().map(|item| self.0.find(item)).collect::<Option<_>>().map(PerItem::Each)
            }
        };
        read.ok_or_else(|| self.refusal(None))
    }

    fn show(&self, value: &PerItem<T>) -> String {
        match value {
            PerItem::One(value) => self.0.written(value),
            PerItem::Each(values) => {
                let words: Vec<_> = values.iter().map(|value| self.0.written(value)).collect();
                format!("[{}]", words.join(", "))
            }
        }
    }

    fn takes(&self) -> Takes {
        Takes::AnyOf(vec![self.0.takes(), Takes::List(Box::new(self.0.takes()))])
    }
}
