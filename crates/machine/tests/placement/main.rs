//! Plans for made-up machines.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test stops where its premise fails")]

mod breaking;
mod made_up;
mod study;
