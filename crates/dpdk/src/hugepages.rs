//! Hugepages for packet memory.

use std::fs;
use std::path::Path;

/// Whether packet memory uses hugepages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HugepageMode {
    /// Uses hugepages if enough are free; otherwise ordinary pages, with a warning.
    #[default]
    Auto,
    /// Uses hugepages; too few free ones are an error.
    Require,
    /// Uses ordinary pages.
    Never,
}

/// Returns the free hugepages of all page sizes; zero if the kernel has none. Unit: MiB.
pub(crate) fn free_mib() -> u64 {
    free_mib_in(Path::new("/sys/kernel/mm/hugepages"))
}

/// Returns the free hugepages of a NUMA node. Unit: MiB.
pub(crate) fn free_mib_of(node: u32) -> u64 {
    free_mib_in(Path::new(&format!("/sys/devices/system/node/node{node}/hugepages")))
}

fn free_mib_in(folder: &Path) -> u64 {
    let Ok(sizes) = fs::read_dir(folder) else {
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
