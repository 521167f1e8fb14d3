//! Settings of a made-up machine.

mod frequency;
mod made_up;
mod power;
mod profiles;
