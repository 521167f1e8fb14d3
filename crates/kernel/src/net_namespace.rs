//! Network namespaces by name, as `ip netns` makes them.

use std::fs::File;
use std::io;
use std::path::Path;
use std::thread;

use nix::sched::{CloneFlags, setns};

use crate::error::KernelError;

/// The folder in which `ip netns` keeps namespaces.
const NAMESPACES: &str = "/run/netns";

/// Runs `action` on a thread in a network namespace, or on this thread for `None`, and returns what
/// it returns. Sockets that it opens stay in the namespace.
///
/// # Errors
/// There is no such namespace, or the process may not enter it; the message names it.
pub fn in_namespace<T: Send>(
    name: Option<&str>,
    action: impl FnOnce() -> T + Send,
) -> Result<T, KernelError> {
    let Some(name) = name else { return Ok(action()) };
    let enter = || {
        let namespace = File::open(Path::new(NAMESPACES).join(name))?;
        setns(namespace, CloneFlags::CLONE_NEWNET)?;
        Ok(action())
    };
    let outcome = thread::scope(|scope| {
        let entered = thread::Builder::new().spawn_scoped(scope, enter)?;
        entered.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    });
    outcome.map_err(|reason| KernelError::Namespace { name: name.to_owned(), reason })
}
