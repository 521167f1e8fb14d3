//! Errors of reading a machine.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The reason why a machine could not be read.
#[derive(Debug, Error)]
pub enum TopologyError {
    /// The file cannot be opened.
    #[error("{path} cannot be read: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file is not a topology.
    #[error(
        "{path} is not an XML description of a machine by hwloc; `lstopo machine.xml` writes one"
    )]
    NotXml {
        /// The file.
        path: PathBuf,
    },
    /// hwloc cannot parse the text.
    #[error(
        "\"{text}\" is not a synthetic description of hwloc, such as \"pack:2 [numa] core:8 pu:2\""
    )]
    NotSynthetic {
        /// The text.
        text: String,
    },
    /// The text describes a machine that is larger than any real one.
    #[error("\"{text}\" is a machine with more than 16,384 CPUs; describe a smaller one")]
    TooLarge {
        /// The text.
        text: String,
    },
    /// hwloc failed on the live machine.
    #[error("hwloc cannot read this machine: {error}")]
    Live {
        /// The system's error.
        error: io::Error,
    },
    /// The installed hwloc library has another ABI than the header that adit was built with.
    #[error(
        "the installed hwloc does not fit the one that adit was built with; install libhwloc15 of the same version"
    )]
    OtherLibrary,
    /// The description has CPU indexes beyond the kernel's maximum.
    #[error("the description names CPUs that no Linux kernel has: {cpus}")]
    TooManyCpus {
        /// The CPUs in the description.
        cpus: String,
    },
    /// The description has no CPU.
    #[error("the description has no CPU")]
    NoCpus,
}
