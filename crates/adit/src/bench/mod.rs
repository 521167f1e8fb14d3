//! `adit bench`: measurements of parts of adit in this process.

pub mod churn;
pub mod datapath;
mod io;
pub mod kinds;
mod measure;
pub mod memory;
pub mod n4;
mod packet;
pub mod plant;
pub mod poll;
pub mod publication;
mod report;
pub mod scrape;
pub mod sessions;
pub mod smf;
