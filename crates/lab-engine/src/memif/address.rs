//! Address of a memif's socket: a file, or a name in the abstract namespace of Linux.

use std::fmt;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use adit_lab_process::stop::environment;
use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with,
};

/// The kernel's list of the Unix sockets of this network namespace.
const SOCKETS: &str = "/proc/net/unix";
/// Flag in [`SOCKETS`] of a socket that accepts connections.
const FLAG_ACCEPTS: u32 = 1 << 16;

/// Address of a memif's socket. As text, `@` starts an abstract name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemifAddress {
    /// A name in the abstract namespace, without a file.
    Abstract(String),
    /// A socket file.
    File(PathBuf),
}

impl fmt::Display for MemifAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abstract(name) => write!(f, "@{name}"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl From<&str> for MemifAddress {
    fn from(text: &str) -> Self {
        match text.strip_prefix('@') {
            Some(name) => Self::Abstract(name.to_owned()),
            None => Self::File(text.into()),
        }
    }
}

impl MemifAddress {
    fn socket_address(&self) -> Result<SocketAddrUnix> {
        let address = match self {
            Self::Abstract(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
            Self::File(path) => SocketAddrUnix::new(path),
        };
        address.map_err(|error| environment(format!("memif socket {self}: {error}")))
    }

    /// Binds a socket. Replaces a socket file on which nobody listens.
    ///
    /// # Errors
    /// The address is in use or cannot be created.
    pub(super) fn bind_socket(&self) -> Result<OwnedFd> {
        let (address, socket) = (self.socket_address()?, socket()?);
        let bound = match bind(&socket, &address) {
            Err(Errno::ADDRINUSE) if self.is_stale(&address)? => {
                self.remove_file();
                bind(&socket, &address)
            }
            other => other,
        };
        bound.map_err(|error| environment(format!("memif socket {self}: {error}")))?;
        Ok(socket)
    }

    /// True for a socket file that an ended process left behind.
    fn is_stale(&self, address: &SocketAddrUnix) -> Result<bool> {
        Ok(self.has_socket_file()
            && !self.is_listed()?
            && connect(socket()?.as_fd(), address) == Err(Errno::CONNREFUSED))
    }

    /// True if the address is a socket file that exists, with or without a server.
    #[must_use]
    pub fn has_socket_file(&self) -> bool {
        let Self::File(path) = self else { return false };
        fs::metadata(path).is_ok_and(|file| file.file_type().is_socket())
    }

    /// True if the kernel lists a server here. Other network namespaces' servers are not listed.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn is_listed(&self) -> Result<bool> {
        let sockets = fs::read_to_string(SOCKETS).with_context(|| format!("read {SOCKETS}"))?;
        Ok(listening(&sockets).any(|name| self.is_name(name)))
    }

    /// True if `name`, from the kernel's list, is this address. The list has a path in the form
    /// that the server used, which may differ from ours.
    fn is_name(&self, name: &str) -> bool {
        match self {
            Self::Abstract(own) => name.strip_prefix('@') == Some(own),
            Self::File(path) => {
                Path::new(name) == path
                    || fs::canonicalize(name)
                        .ok()
                        .is_some_and(|name| fs::canonicalize(path).is_ok_and(|own| own == name))
            }
        }
    }

    /// Removes the socket file, if any.
    pub(super) fn remove_file(&self) {
        if let Self::File(path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns the names of the sockets that accept connections, from the kernel's list.
fn listening(sockets: &str) -> impl Iterator<Item = &str> {
    sockets.lines().skip(1).filter_map(|line| {
        // Fields: Num, RefCount, Protocol, Flags, Type, St, Inode; then the name, if there is one.
        let mut rest = line;
        let mut flags = 0;
        for field in 0..7 {
            let (text, after) = rest.trim_start().split_once(' ')?;
            if field == 3 {
                flags = u32::from_str_radix(text, 16).ok()?;
            }
            rest = after;
        }
        (flags & FLAG_ACCEPTS != 0).then_some(rest)
    })
}

fn socket() -> Result<OwnedFd> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    socket_with(family, kind, SocketFlags::CLOEXEC, None).context("socket")
}

#[cfg(test)]
mod tests {
    use super::super::Listener;
    use super::*;

    fn file(name: &str) -> MemifAddress {
        let name = format!("adit-lab-test-{name}-{}.sock", std::process::id());
        MemifAddress::File(std::env::temp_dir().join(name))
    }

    #[test]
    fn text_names_a_file_or_an_abstract_name() {
        assert_eq!(MemifAddress::from("/run/n3.sock"), MemifAddress::File("/run/n3.sock".into()));
        assert_eq!(MemifAddress::from("@n3"), MemifAddress::Abstract("n3".to_owned()));
        assert_eq!(MemifAddress::from("@n3").to_string(), "@n3");
        assert_eq!(MemifAddress::from("/run/n3.sock").to_string(), "/run/n3.sock");
    }

    #[test]
    fn list_of_sockets_names_those_that_accept_connections() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0005 01    77 /run/a b.sock\n\
            0000000000000000: 00000003 00000000 00000000 0005 03 10078 @/run/c.sock\n\
            0000000000000000: 00000002 00000000 00010000 0005 01 10079 @/run/d.sock\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 10080\n";
        assert_eq!(listening(list).collect::<Vec<_>>(), ["/run/a b.sock", "@/run/d.sock"]);
    }

    #[test]
    fn only_a_socket_file_without_a_server_is_replaced() {
        let address = file("stale");
        let MemifAddress::File(path) = &address else { unreachable!() };
        let first = address.bind_socket().unwrap();
        rustix::net::listen(&first, 1).unwrap();
        assert!(address.bind_socket().unwrap_err().to_string().contains(&address.to_string()));
        drop(first);
        assert!(path.exists(), "a socket leaves its file behind");
        drop(Listener::bind(&address).unwrap());
        assert!(!path.exists(), "a listener removes its file");
        fs::write(path, "data").unwrap();
        assert!(Listener::bind(&address).is_err());
        assert_eq!(fs::read_to_string(path).unwrap(), "data");
        fs::remove_file(path).unwrap();
    }
}
