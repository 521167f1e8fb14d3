//! The machine that adit runs on.

use std::sync::OnceLock;

use adit_machine::placement::MachineTopology;
use adit_topology::{TopologyError, read_live};

/// The machine as this process first read it. A later reading would show a single CPU of the
/// process: DPDK pins the main thread to `datapath.main_core`.
static THIS_MACHINE: OnceLock<MachineTopology> = OnceLock::new();

/// Returns the machine, which the first call reads.
///
/// # Errors
/// hwloc cannot read it.
pub(crate) fn this_machine() -> Result<&'static MachineTopology, TopologyError> {
    match THIS_MACHINE.get() {
        Some(machine) => Ok(machine),
        None => read_live().map(|machine| THIS_MACHINE.get_or_init(|| machine)),
    }
}
