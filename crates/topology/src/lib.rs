//! Reads the machine: through hwloc, and what hwloc does not have from `/proc` and `/sys`.
//!
//! The machine is the one that this process runs on, one that an XML file of hwloc describes, or a
//! made-up one. The result is plain data, [`MachineTopology`]. This crate changes nothing on the
//! machine.
#![deny(unsafe_code)]

mod error;
mod facts;
mod hwloc;
mod hwloc_sys;
mod machine;

use std::path::Path;

use adit_machine::placement::MachineTopology;

pub use error::TopologyError;

use facts::HostFacts;
use hwloc::HwlocTopology;

/// Maximum size of an XML file. Descriptions of machines with hundreds of cores have less than 1
/// MiB. Unit: octets.
const XML_BYTES_MAX: u64 = 64 << 20;

/// Reads the machine that this process runs on.
///
/// # Errors
/// [`TopologyError`] if hwloc cannot read it.
pub fn read_live() -> Result<MachineTopology, TopologyError> {
    let topology = HwlocTopology::live()?;
    let facts = HostFacts::read(Path::new("/"));
    machine::build("this machine".to_owned(), &topology, &facts)
}

/// Reads an XML file of hwloc that describes a machine, as `lstopo machine.xml` writes. `root`: a
/// folder with copies of that machine's `/proc` and `/sys`, for facts that the file does not have
/// (isolated CPUs, quotas, interrupts).
///
/// # Errors
/// [`TopologyError`] if the file cannot be read or is not such a file.
pub fn read_xml(path: &Path, root: Option<&Path>) -> Result<MachineTopology, TopologyError> {
    let unreadable = |error| TopologyError::Unreadable { path: path.to_owned(), error };
    let metadata = path.metadata().map_err(unreadable)?;
    if !metadata.is_file() || metadata.len() > XML_BYTES_MAX {
        return Err(TopologyError::NotXml { path: path.to_owned() });
    }
    std::fs::File::open(path).map_err(unreadable)?;
    let topology = HwlocTopology::of_xml(path)?;
    let facts = root.map(HostFacts::read).unwrap_or_default();
    machine::build(format!("machine of {}", path.display()), &topology, &facts)
}

/// Describes a made-up machine, given in hwloc's synthetic format, such as `pack:2 [numa] core:8
/// pu:2`.
///
/// # Errors
/// [`TopologyError`] if hwloc refuses the text.
pub fn read_synthetic(text: &str) -> Result<MachineTopology, TopologyError> {
    let topology = HwlocTopology::of_synthetic(text)?;
    machine::build(format!("made-up machine {text}"), &topology, &HostFacts::default())
}
