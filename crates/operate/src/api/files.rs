//! Reads files with secrets, certificates and the like after checks of type, owner and permissions.

use std::fmt;
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Largest file that is read: room for thousands of certificates. Unit: octets.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSecrecy {
    /// Everybody: a certificate.
    Public,
    /// Its owner and its group: a key, a token, a password.
    Secret,
}

/// Why a file is not used.
#[derive(Debug)]
pub enum FileError {
    /// It cannot be opened or read.
    Unreadable(io::Error),
    /// It is not a regular file; it was not read.
    NotRegular(&'static str),
    /// It belongs to this user, who is neither root nor the user of the process.
    Owner(u32),
    /// Other users may write the file, or read a secret. The text is the argument of `chmod` that
    /// takes these permissions away.
    Mode(&'static str),
    /// It has more than 1 MiB.
    TooLarge,
    /// It is no text.
    NoText,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "{error}"),
            Self::NotRegular(kind) => write!(f, "it is {kind}, not a file"),
            Self::Owner(user) => write!(
                f,
                "it belongs to user {user}, who could change it: chown it to root or to the user of adit"
            ),
            Self::Mode(mode) => {
                write!(f, "other users of this host may read or write it: chmod {mode} it")
            }
            Self::TooLarge => f.write_str("it has more than 1 MiB"),
            Self::NoText => f.write_str("it is not UTF-8 text"),
        }
    }
}

impl std::error::Error for FileError {}

/// Reads a file of at most 1 MiB. The file must belong to root or to the user of the process,
/// nobody else may write it, and only its owner and its group may read a secret. Never waits: a
/// FIFO or a device is refused.
///
/// # Errors
/// See [`FileError`].
pub fn read_file(path: &Path, secrecy: FileSecrecy) -> Result<Vec<u8>, FileError> {
    // Without NONBLOCK, opening a FIFO would wait for its writer.
    let flags = i32::try_from(OFlags::NONBLOCK.bits() | OFlags::NOCTTY.bits()).unwrap_or_default();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(FileError::Unreadable)?;
    let metadata = file.metadata().map_err(FileError::Unreadable)?;
    check(&metadata, secrecy, rustix::process::geteuid().as_raw())?;
    read_bounded(file)
}

/// Reads a text under the rules of [`read_file`].
///
/// # Errors
/// See [`FileError`].
pub fn read_text_file(path: &Path, secrecy: FileSecrecy) -> Result<String, FileError> {
    String::from_utf8(read_file(path, secrecy)?).map_err(|_| FileError::NoText)
}

fn check(metadata: &Metadata, secrecy: FileSecrecy, own_user: u32) -> Result<(), FileError> {
    if !metadata.is_file() {
        return Err(FileError::NotRegular(kind_of(metadata.file_type())));
    }
    if ![0, own_user].contains(&metadata.uid()) {
        return Err(FileError::Owner(metadata.uid()));
    }
    let (too_much, mode) = match secrecy {
        FileSecrecy::Public => (0o022, "go-w"),
        FileSecrecy::Secret => (0o027, "g-w,o="),
    };
    match metadata.mode() & too_much {
        0 => Ok(()),
        _ => Err(FileError::Mode(mode)),
    }
}

fn kind_of(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

fn read_bounded(file: File) -> Result<Vec<u8>, FileError> {
    let mut octets = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut octets);
    read.map_err(FileError::Unreadable)?;
    match octets.len() as u64 > FILE_BYTES_MAX {
        true => Err(FileError::TooLarge),
        false => Ok(octets),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{CWD, Mode};

    use super::*;

    fn refusal(path: &Path, secrecy: FileSecrecy) -> String {
        read_file(path, secrecy).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn file_that_others_may_change_or_read_is_refused_alike() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "secret").unwrap();
        for (mode, is_secret_refused, is_public_refused) in [
            (0o600, false, false),
            (0o640, false, false),
            (0o400, false, false),
            (0o644, true, false),
            (0o660, true, true),
            (0o602, true, true),
            (0o601, true, false),
        ] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let is_refused = |secrecy| refusal(&path, secrecy).contains("chmod");
            assert_eq!(is_refused(FileSecrecy::Secret), is_secret_refused, "{mode:o}");
            assert_eq!(is_refused(FileSecrecy::Public), is_public_refused, "{mode:o}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read_text_file(&path, FileSecrecy::Secret).unwrap(), "secret");
        let metadata = fs::metadata(&path).unwrap();
        let other = check(&metadata, FileSecrecy::Public, metadata.uid());
        assert!(other.is_ok(), "{other:?}");
    }

    #[test]
    fn file_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "x").unwrap();
        if std::os::unix::fs::chown(&path, Some(65534), None).is_err() {
            eprintln!("skipped: only root gives files away");
            return;
        }
        for secrecy in [FileSecrecy::Public, FileSecrecy::Secret] {
            assert!(refusal(&path, secrecy).contains("user 65534"));
        }
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (path, word) in [
            (fifo.as_path(), "a FIFO"),
            (folder.path(), "a directory"),
            (Path::new("/dev/zero"), "a device"),
            (socket.as_path(), ""),
            (&folder.path().join("none"), "No such file"),
        ] {
            let refused = refusal(path, FileSecrecy::Secret);
            assert!(!refused.is_empty() && refused.contains(word), "{path:?}: {refused}");
        }
    }

    #[test]
    fn file_beyond_the_bound_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(read_file(&path, FileSecrecy::Secret).is_ok());
        fs::write(&path, vec![b'x'; (1 << 20) + 1]).unwrap();
        assert!(refusal(&path, FileSecrecy::Secret).contains("1 MiB"));
    }
}
