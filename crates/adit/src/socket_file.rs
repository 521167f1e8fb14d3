//! Files of Unix sockets: the admin socket, an HTTP interface for operators of this host, whose
//! file only its owner can read and write; and removal of files that killed processes leave behind.

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use adit_operate::api::ApiServer;
use anyhow::{Context, bail};

/// How long the socket of a killed process may still accept connections.
const DYING_PROCESS_MAX: Duration = Duration::from_secs(3);
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The listening admin socket. Dropping it removes its file.
#[derive(Debug)]
pub(crate) struct SocketFile {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file.
    inode: (u64, u64),
}

impl SocketFile {
    /// Listens at `path`. Replaces a socket without a listener, but nothing else.
    ///
    /// # Errors
    /// `path` exists and is not a socket without a listener, or cannot be created.
    pub(crate) fn bind(path: &Path) -> anyhow::Result<Self> {
        let hint = || {
            format!(
                "cannot listen at {}; set admin.socket to a path that adit may write",
                path.display()
            )
        };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(hint)?;
        }
        remove_dead_socket(path, "admin.socket")?;
        let listener = UnixListener::bind(path).with_context(hint)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
            .with_context(hint)?;
        let inode = inode(path).with_context(hint)?;
        Ok(Self { listener, path: path.to_owned(), inode })
    }

    /// Returns the server of the HTTP interface at the socket.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub(crate) fn server(&self) -> std::io::Result<ApiServer> {
        ApiServer::of_unix_socket(self.listener.try_clone()?)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|inode| inode == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes the socket at `path` if no process listens there. `name`: the key or argument that set
/// `path`, for messages.
///
/// # Errors
/// Anything else is at `path`; it stays unchanged.
pub(crate) fn remove_dead_socket(path: &Path, name: &str) -> anyhow::Result<()> {
    remove_dead_until(Instant::now() + DYING_PROCESS_MAX, path, name)
}

fn remove_dead_until(end: Instant, path: &Path, name: &str) -> anyhow::Result<()> {
    let known = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        known => known.with_context(|| format!("cannot read {name} {}", path.display()))?,
    };
    let kind = known.file_type();
    if !kind.is_socket() {
        let kind = match (kind.is_dir(), kind.is_symlink(), kind.is_file()) {
            (true, ..) => "a directory",
            (_, true, _) => "a symbolic link",
            (.., true) => "a regular file",
            _ => "a device or pipe",
        };
        bail!(
            "{name} {} is {kind}, not a socket; adit left it unchanged: set {name} to another \
             path, or remove it",
            path.display()
        );
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path)
            .with_context(|| {
                format!("cannot remove the dead socket {}; remove it", path.display())
            }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // The socket of a killed process listens until the kernel has freed the process's memory.
        Ok(_) if Instant::now() < end => {
            std::thread::sleep(RETRY_INTERVAL);
            remove_dead_until(end, path, name)
        }
        Ok(_) => bail!(
            "another adit, or another process, listens at {}; stop it or set {name} to another \
             path",
            path.display()
        ),
        Err(error) => bail!(
            "the socket {} may belong to another process ({error}); set {name} to another \
             path, or remove it",
            path.display()
        ),
    }
}

fn inode(path: &Path) -> std::io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|known| (known.dev(), known.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_that_is_no_dead_socket_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let refusal = |name: &str| SocketFile::bind(&path(name)).unwrap_err().to_string();
        std::fs::write(path("file"), "precious").unwrap();
        assert!(refusal("file").contains("a regular file"), "{}", refusal("file"));
        assert_eq!(std::fs::read_to_string(path("file")).unwrap(), "precious");
        std::fs::create_dir(path("dir")).unwrap();
        assert!(refusal("dir").contains("a directory"), "{}", refusal("dir"));
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        assert!(refusal("link").contains("a symbolic link"), "{}", refusal("link"));
        let live = UnixListener::bind(path("live")).unwrap();
        assert!(refusal("live").contains("another process"), "{}", refusal("live"));
        assert!(path("live").exists());
        drop(live);
        drop(SocketFile::bind(&path("live")).unwrap());
        let datagrams = std::os::unix::net::UnixDatagram::bind(path("datagrams")).unwrap();
        assert!(refusal("datagrams").contains("another process"), "{}", refusal("datagrams"));
        assert!(path("datagrams").exists());
        drop(datagrams);
    }

    /// A killed process holds its socket until the kernel has freed its memory; here a thread does.
    #[test]
    fn socket_of_a_process_that_is_dying_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let dying = UnixListener::bind(&path).unwrap();
        let end = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            drop(dying);
        });
        drop(SocketFile::bind(&path).unwrap());
        end.join().unwrap();
    }

    #[test]
    fn file_that_took_the_place_of_the_socket_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let server = SocketFile::bind(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        drop(server);
        assert!(path.exists());
    }
}
