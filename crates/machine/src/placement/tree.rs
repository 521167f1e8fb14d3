//! Draws the machine as a tree.

use std::fmt::{self, Write as _};

use crate::placement::{CpuSet, HostDeviceKind, MachineTopology, NumaNode};

impl fmt::Display for MachineTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.source)?;
        self.write_limits(f)?;
        for package in &self.packages {
            writeln!(f, "├─ package {}: CPUs {}", package.index, package.cpus)?;
            for node in self.nodes.iter().filter(|node| is_within(node, &package.cpus)) {
                self.write_node(f, node, "│  ")?;
            }
        }
        let in_package =
            |node: &NumaNode| self.packages.iter().any(|package| is_within(node, &package.cpus));
        for node in self.nodes.iter().filter(|node| !in_package(node)) {
            self.write_node(f, node, "")?;
        }
        let nowhere = |node: &Option<u32>| {
            node.is_none_or(|index| self.nodes.iter().all(|node| node.index != index))
        };
        for device in self.devices.iter().filter(|device| nowhere(&device.node)) {
            writeln!(f, "├─ {} (node unknown)", describe(device))?;
        }
        self.write_interrupts(f)
    }
}

impl MachineTopology {
    fn write_limits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = &self.limits;
        let mut text = format!("├─ CPUs online {}", limits.online);
        if !limits.online.difference(&limits.allowed).is_empty() {
            write!(text, ", allowed to this process {}", limits.allowed)?;
        }
        match limits.isolated.is_empty() {
            true => text.push_str(", none isolated"),
            false => write!(text, ", isolated {}", limits.isolated)?,
        }
        if !limits.tickless.is_empty() {
            write!(text, ", without periodic tick {}", limits.tickless)?;
        }
        if let Some(quota) = limits.quota_millicpus {
            write!(text, ", at most {}.{:03} CPUs by cgroup", quota / 1000, quota % 1000)?;
        }
        writeln!(f, "{text}")
    }

    fn write_node(&self, f: &mut fmt::Formatter<'_>, node: &NumaNode, indent: &str) -> fmt::Result {
        let mut text = format!("{indent}├─ node {}: {}", node.index, bytes(node.memory_bytes));
        for pages in &node.huge_pages {
            write!(text, ", {} hugepages of {}", pages.total_count, bytes(pages.page_bytes))?;
            if let Some(free) = pages.free_count {
                write!(text, " ({free} free)")?;
            }
        }
        if node.cpus.is_empty() {
            text.push_str(", no CPUs");
        }
        writeln!(f, "{text}")?;
        // Only caches that several cores share have a line here; a core's own caches are on its
        // line.
        let shared = |cpus: &CpuSet| self.cores.iter().all(|core| !is_subset(cpus, &core.cpus));
        for cache in self.caches.iter().filter(|cache| is_subset(&cache.cpus, &node.cpus)) {
            if shared(&cache.cpus) {
                let size = bytes(cache.size_bytes);
                writeln!(f, "{indent}│  ├─ L{} {size}: CPUs {}", cache.level, cache.cpus)?;
            }
        }
        for core in self.cores.iter().filter(|core| core.node == node.index) {
            let own = self.caches.iter().filter(|cache| is_subset(&cache.cpus, &core.cpus));
            let own: String = own
                .map(|cache| format!(", L{} {}", cache.level, bytes(cache.size_bytes)))
                .collect();
            let siblings = if core.cpus.len() > 1 { "siblings" } else { "CPU" };
            writeln!(
                f,
                "{indent}│  ├─ core: {siblings} {}{own}{}",
                core.cpus,
                self.marks(&core.cpus)
            )?;
        }
        for device in self.devices.iter().filter(|device| device.node == Some(node.index)) {
            writeln!(f, "{indent}│  ├─ {}", describe(device))?;
        }
        Ok(())
    }

    fn marks(&self, cpus: &CpuSet) -> String {
        let mut marks = String::new();
        if !self.limits.isolated.intersection(cpus).is_empty() {
            marks.push_str(", isolated");
        }
        if self.limits.usable().intersection(cpus).is_empty() {
            marks.push_str(", not usable");
        }
        marks
    }

    fn write_interrupts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.interrupts.is_empty() {
            return Ok(());
        }
        writeln!(f, "└─ {} interrupts", self.interrupts.len())?;
        let came = self.interrupts.iter().filter(|interrupt| interrupt.count > 0);
        for interrupt in came {
            writeln!(
                f,
                "   ├─ {}: {}, {} times, CPUs {}",
                interrupt.number, interrupt.name, interrupt.count, interrupt.cpus
            )?;
        }
        Ok(())
    }
}

fn is_within(node: &NumaNode, cpus: &CpuSet) -> bool {
    !node.cpus.is_empty() && is_subset(&node.cpus, cpus)
}

fn is_subset(part: &CpuSet, whole: &CpuSet) -> bool {
    part.difference(whole).is_empty()
}

fn describe(device: &crate::placement::HostDevice) -> String {
    let what = match device.kind {
        HostDeviceKind::Network => "network",
        HostDeviceKind::Other => "device",
    };
    match device.pci_address.as_deref() {
        Some(address) if address != device.name => format!("{what} {} at {address}", device.name),
        _ => format!("{what} {}", device.name),
    }
}

/// Formats a size in the largest binary unit of which it has at least one.
fn bytes(size: u64) -> String {
    let (unit, name) = match size {
        0x4000_0000.. => (0x4000_0000, "GiB"),
        0x10_0000.. => (0x10_0000, "MiB"),
        _ => (0x400, "KiB"),
    };
    match size % unit {
        0 => format!("{} {name}", size / unit),
        _ => format!("{}.{} {name}", size / unit, size % unit * 10 / unit),
    }
}
