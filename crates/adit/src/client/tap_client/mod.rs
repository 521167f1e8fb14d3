//! `adit trace` and `adit capture`: the clients of [`crate::tap`].

pub(crate) mod capture;
pub(crate) mod capture_writer;
mod connection;
mod pcapng;
pub(crate) mod trace;
