//! `adit trace` and `adit capture`: the clients of [`crate::tap`].

pub(crate) mod capture;
mod connection;
mod pcapng;
mod text;
pub(crate) mod trace;
