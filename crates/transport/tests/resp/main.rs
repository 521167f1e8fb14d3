//! RESP in octets, and connections without sockets.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test stops where its premise fails")]

mod codec;
mod connection;
