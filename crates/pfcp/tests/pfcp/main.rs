//! The codec against itself and against tshark.
#![allow(clippy::unwrap_used, reason = "a test stops where its premise fails")]

mod capture;
mod differential;
mod leaf;
mod leaves;
mod message;
mod samples;
mod tshark;
