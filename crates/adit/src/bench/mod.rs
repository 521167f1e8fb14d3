//! `adit bench`: measurements of parts of adit in this process.

pub mod datapath;
mod io;
pub mod n4;
mod sessions;
mod smf;
