//! The operations on sessions. Each file implements a part of
//! [`SessionStore`](crate::SessionStore).

mod control;
mod packet_rates;
mod pfd;
mod recovery;
mod restore;
mod session;
mod usage;
mod utilization;

pub use restore::Restored;
pub use session::{Established, Modified, ReplacedSession};
