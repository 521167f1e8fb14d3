//! `adit bench`: measures parts of adit in this process.
#![deny(unsafe_code)]

mod c_floor;
mod churn;
pub mod command;
pub mod control_plane;
mod datapath;
mod handoff;
mod io;
mod kinds;
mod measure;
mod memory;
mod models;
mod n4;
mod n4_standby;
mod n4_store;
mod network;
mod offload;
mod packet;
mod poll;
mod publication;
mod report;
mod scrape;
mod sessions;
mod size;
pub mod smf;
