//! Whether hugepages can back packet memory.

use std::fs;

/// Where packet memory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HugepageMode {
    /// Hugepages when enough are free, ordinary pages with a notice when not.
    #[default]
    Auto,
    /// Hugepages or a refusal to start.
    Require,
    /// Ordinary pages.
    Never,
}

/// Hugepages that no process uses, in MiB, over all page sizes. Zero without kernel support.
pub(crate) fn free_mib() -> u64 {
    let Ok(sizes) = fs::read_dir("/sys/kernel/mm/hugepages") else {
        return 0;
    };
    sizes
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let free = fs::read_to_string(entry.path().join("free_hugepages")).ok()?;
            Some(kib.saturating_mul(free.trim().parse().ok()?) / 1024)
        })
        .sum()
}
