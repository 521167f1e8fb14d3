//! A made-up machine that behaves as the kernel's files do, with crashes, refusals and meddling.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};

use adit_machine::placement::CpuSet;
use adit_machine::tuning::HostFiles;

pub(crate) const CPU: &str = "sys/devices/system/cpu";

/// The action of another process right after the journal is there.
#[derive(Debug, Clone)]
pub(crate) struct Meddling {
    pub(crate) path: String,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct MadeUpHost {
    pub(crate) files: BTreeMap<String, String>,
    folders: BTreeSet<String>,
    /// Files of siblings that are offline.
    hidden: BTreeMap<String, String>,
    pub(crate) read_only: BTreeSet<String>,
    /// Files whose writes fail although they look writable.
    pub(crate) refusing: BTreeSet<String>,
    pub(crate) meddling: Option<Meddling>,
    /// Operations until the process dies.
    pub(crate) life: Cell<Option<usize>>,
    /// Operations so far.
    pub(crate) operations: Cell<usize>,
}

impl MadeUpHost {
    /// Four cores with two siblings; CPU 4 + n is the sibling of CPU n.
    pub(crate) fn new() -> Self {
        let mut host = Self::default();
        let mut add = |path: String, text: &str| {
            host.files.insert(path, format!("{text}\n"));
        };
        add(format!("{CPU}/online"), "0-7");
        add(format!("{CPU}/smt/control"), "on");
        add(format!("{CPU}/intel_pstate/no_turbo"), "0");
        for cpu in 0..8 {
            let policy = format!("{CPU}/cpufreq/policy{cpu}");
            add(format!("{policy}/scaling_available_governors"), "performance powersave");
            add(format!("{policy}/scaling_governor"), "powersave");
            add(format!("{policy}/cpuinfo_min_freq"), "800000");
            add(format!("{policy}/cpuinfo_max_freq"), "3600000");
            add(format!("{policy}/base_frequency"), "2400000");
            add(format!("{policy}/scaling_min_freq"), "800000");
            add(format!("{policy}/scaling_max_freq"), "3600000");
            let first = cpu % 4;
            add(
                format!("{CPU}/cpu{cpu}/topology/thread_siblings_list"),
                &format!("{first},{}", first + 4),
            );
            for (state, name) in ["POLL", "C1", "C6"].iter().enumerate() {
                let state = format!("{CPU}/cpu{cpu}/cpuidle/state{state}");
                add(format!("{state}/name"), name);
                add(format!("{state}/disable"), "0");
            }
        }
        add("proc/sys/kernel/numa_balancing".to_owned(), "1");
        add("sys/kernel/mm/transparent_hugepage/enabled".to_owned(), "[always] madvise never");
        add("proc/sys/kernel/timer_migration".to_owned(), "1");
        add("proc/sys/kernel/watchdog_cpumask".to_owned(), "0-7");
        add("proc/sys/kernel/sched_rt_runtime_us".to_owned(), "950000");
        let pages = "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages";
        add(pages.to_owned(), "0");
        add("proc/irq/default_smp_affinity".to_owned(), "ff");
        add("proc/irq/30/smp_affinity_list".to_owned(), "0-7");
        add("proc/irq/31/smp_affinity_list".to_owned(), "2");
        add("proc/irq/32/smp_affinity_list".to_owned(), "0-1");
        add("sys/fs/cgroup/cgroup.controllers".to_owned(), "cpuset cpu memory");
        add("sys/fs/cgroup/cgroup.subtree_control".to_owned(), "cpu memory");
        add("proc/cmdline".to_owned(), "quiet nohz_full=2-3");
        host
    }

    /// Dies after so many operations.
    pub(crate) fn dying_after(mut self, operations: usize) -> Self {
        self.life = Cell::new(Some(operations));
        self
    }

    pub(crate) fn revived(mut self) -> Self {
        self.life = Cell::new(None);
        self
    }

    pub(crate) fn value(&self, path: &str) -> &str {
        self.files.get(path).unwrap_or_else(|| panic!("no {path}")).trim_end()
    }

    pub(crate) fn remove(&mut self, prefix: &str) {
        self.files.retain(|path, _| !path.starts_with(prefix));
    }

    fn live(&self) -> io::Result<()> {
        self.operations.set(self.operations.get() + 1);
        match self.life.get() {
            Some(0) => Err(io::Error::other("the process has died")),
            Some(left) => {
                self.life.set(Some(left - 1));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The text that the kernel shows after a write.
    fn shown(&self, path: &str, old: &str, text: &str) -> io::Result<String> {
        let refused = || io::Error::from(ErrorKind::InvalidInput);
        let number = |name: &str| -> u64 {
            let (folder, _) = path.rsplit_once('/').unwrap();
            self.files[&format!("{folder}/{name}")].trim().parse().unwrap()
        };
        let name = path.rsplit('/').next().unwrap();
        Ok(match name {
            "enabled" => {
                let choices: Vec<_> =
                    old.split_whitespace().map(|choice| choice.trim_matches(['[', ']'])).collect();
                let mark = |choice: &&str| match *choice == text {
                    true => format!("[{choice}]"),
                    false => (*choice).to_owned(),
                };
                choices.contains(&text).then_some(()).ok_or_else(refused)?;
                choices.iter().map(mark).collect::<Vec<_>>().join(" ")
            }
            "cgroup.subtree_control" => {
                let mut active: BTreeSet<&str> = old.split_whitespace().collect();
                match text.split_at(1) {
                    ("+", controller) => active.insert(controller),
                    ("-", controller) => active.remove(controller),
                    _ => return Err(refused()),
                };
                active.into_iter().collect::<Vec<_>>().join(" ")
            }
            "smp_affinity_list" | "cpuset.cpus" | "watchdog_cpumask" => {
                text.parse::<CpuSet>().map_err(|_| refused())?.to_string()
            }
            "default_smp_affinity" => {
                let mask = u8::from_str_radix(text.trim_start_matches('0'), 16);
                format!("{:02x}", mask.map_err(|_| refused())?)
            }
            "scaling_min_freq" if text.parse::<u64>().unwrap() > number("scaling_max_freq") => {
                return Err(refused());
            }
            "scaling_max_freq" if text.parse::<u64>().unwrap() < number("scaling_min_freq") => {
                return Err(refused());
            }
            _ => text.to_owned(),
        })
    }

    /// Siblings that go offline take their files along.
    fn switch_siblings(&mut self, text: &str) {
        let is_later = |path: &str| {
            (4..8).any(|cpu| {
                path.starts_with(&format!("{CPU}/cpu{cpu}/"))
                    || path.starts_with(&format!("{CPU}/cpufreq/policy{cpu}/"))
            })
        };
        if text == "off" {
            let later: Vec<_> = self.files.keys().filter(|path| is_later(path)).cloned().collect();
            for path in later {
                let text = self.files.remove(&path).unwrap();
                self.hidden.insert(path, text);
            }
        } else {
            self.files.append(&mut self.hidden);
        }
        let online = if text == "off" { "0-3\n" } else { "0-7\n" };
        self.files.insert(format!("{CPU}/online"), online.to_owned());
    }
}

impl HostFiles for MadeUpHost {
    fn read(&self, path: &str) -> io::Result<String> {
        self.live()?;
        self.files.get(path).cloned().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        self.live()?;
        let old = self.files.get(path).cloned().ok_or(ErrorKind::NotFound)?;
        if self.read_only.contains(path) || self.refusing.contains(path) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let shown = self.shown(path, &old, text)?;
        if path.ends_with("smt/control") {
            self.switch_siblings(text);
        }
        self.files.insert(path.to_owned(), format!("{shown}\n"));
        Ok(())
    }

    fn is_writable(&self, path: &str) -> bool {
        let exists = self.files.contains_key(path) || path == "sys/fs/cgroup";
        exists && !self.read_only.contains(path)
    }

    fn exists(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.folders.contains(path)
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let prefix = format!("{folder}/");
        let below = self.files.keys().filter_map(|path| path.strip_prefix(&prefix));
        let names: BTreeSet<_> =
            below.map(|rest| rest.split('/').next().unwrap().to_owned()).collect();
        names.into_iter().collect()
    }

    fn make_folder(&mut self, path: &str) -> io::Result<()> {
        self.live()?;
        if self.refusing.contains(path) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        self.folders.insert(path.to_owned());
        for (name, text) in
            [("cpuset.cpus", ""), ("cpuset.cpus.partition", "member"), ("cgroup.procs", "")]
        {
            self.files.insert(format!("{path}/{name}"), format!("{text}\n"));
        }
        Ok(())
    }

    fn remove_folder(&mut self, path: &str) -> io::Result<()> {
        self.live()?;
        if !self.value(&format!("{path}/cgroup.procs")).is_empty() {
            return Err(ErrorKind::ResourceBusy.into());
        }
        self.folders.remove(path);
        self.remove(&format!("{path}/"));
        Ok(())
    }

    fn keep(&mut self, path: &str, text: &str) -> io::Result<()> {
        self.live()?;
        self.files.insert(path.to_owned(), text.to_owned());
        if let Some(Meddling { path, text }) = self.meddling.take() {
            self.files.insert(path, text);
        }
        Ok(())
    }

    fn forget(&mut self, path: &str) -> io::Result<()> {
        self.live()?;
        self.files.remove(path).map(|_| ()).ok_or_else(|| ErrorKind::NotFound.into())
    }
}
