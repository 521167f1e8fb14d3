//! Waiting for a target's memif server.

use std::time::{Duration, Instant};

use adit_lab_engine::memif::MemifAddress;
use adit_lab_process::stop::{POLL, environment};
use anyhow::Result;

/// Waits until a server listens at `address`. A server in another network namespace is not visible:
/// if there is a socket file, the wait ends after `timeout` without an error.
///
/// Does not try to connect, because a connection that ends at once makes DPDK's memif server abort.
///
/// # Errors
/// `watch` fails; no server within `timeout`; the kernel's list of sockets cannot be read.
pub(super) fn wait_for_server(
    address: &MemifAddress,
    timeout: Duration,
    mut watch: impl FnMut() -> Result<()>,
) -> Result<()> {
    let end = Instant::now() + timeout;
    loop {
        if address.is_listed()? {
            return Ok(());
        }
        if Instant::now() >= end {
            return if address.has_socket_file() {
                Ok(())
            } else {
                Err(environment(format!(
                    "no memif server at {address} within {timeout:?}; start the target, or correct the path"
                )))
            };
        }
        watch()?;
        std::thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use adit_lab_engine::memif::Listener;

    use super::*;

    fn path(name: &str) -> PathBuf {
        let name = format!("adit-lab-test-{name}-{}.sock", std::process::id());
        std::env::temp_dir().join(name)
    }

    fn file(name: &str) -> MemifAddress {
        MemifAddress::File(path(name))
    }

    #[test]
    fn server_is_awaited_and_a_missing_one_is_named() {
        for address in [file("wait"), MemifAddress::from(&*format!("@lab-{}", std::process::id()))]
        {
            let error =
                wait_for_server(&address, Duration::from_millis(30), || Ok(())).unwrap_err();
            assert!(error.to_string().contains(&address.to_string()), "{error}");
            let mut listener = None;
            let waited = wait_for_server(&address, Duration::from_secs(60), || {
                listener = Some(Listener::bind(&address)?);
                Ok(())
            });
            waited.unwrap();
            assert!(listener.is_some(), "it waited for the server");
        }
    }

    #[test]
    fn socket_file_that_is_not_listed_is_left_to_the_driver() {
        let address = file("unlisted");
        drop(UnixListener::bind(path("unlisted")).unwrap());
        wait_for_server(&address, Duration::from_millis(30), || Ok(())).unwrap();
        fs::remove_file(path("unlisted")).unwrap();
        wait_for_server(&address, Duration::from_millis(30), || Ok(())).unwrap_err();
    }

    #[test]
    fn wait_for_a_server_ends_with_the_target() {
        let watch = || anyhow::bail!("the target ended");
        let error = wait_for_server(&file("ended"), Duration::from_secs(60), watch).unwrap_err();
        assert_eq!(error.to_string(), "the target ended");
    }
}
