//! Settings of a made-up machine.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test stops where its premise fails")]

mod frequency;
mod made_up;
mod power;
mod profiles;
