//! Adit beside routing daemons: it follows the kernel's routes, and announces its own prefixes.
//!
//! A thread reads the kernel's messages ([`follower`]); the control thread chooses the best route
//! of each prefix ([`route_base`]) and publishes it. Another thread writes announcements
//! ([`announcer`]): the kernel takes several microseconds for each.

pub(crate) mod announcements;
pub(crate) mod announcer;
pub(crate) mod follower;
mod interned;
pub(crate) mod route_base;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
