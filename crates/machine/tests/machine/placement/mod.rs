//! Plans for made-up machines.

mod breaking;
mod made_up;
mod study;
