//! Headers in octets: what is read, written and recognized.
#![allow(clippy::unwrap_used, reason = "a test stops where its premise fails")]

mod encapsulation;
mod fragments;
mod glance;
mod properties;
mod toeplitz;
mod usual;
mod usual_over_v6;
mod walk;
