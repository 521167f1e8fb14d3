//! `adit bench`: measurements of parts of adit in this process.

pub mod datapath;
mod io;
mod sessions;
