//! A pseudo terminal and what a program shows on it.

use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// Both ends of a pseudo terminal of 100 columns and 30 rows.
pub(crate) fn pseudo_terminal() -> (OwnedFd, OwnedFd) {
    let (mut near, mut far) = (-1, -1);
    let size = libc::winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: both descriptors are written, the name and the modes are absent, and the size is
    // read.
    let opened = unsafe {
        libc::openpty(
            &raw mut near,
            &raw mut far,
            std::ptr::null_mut(),
            std::ptr::null(),
            &raw const size,
        )
    };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: openpty returned it, and nobody else has it.
    let near = unsafe { OwnedFd::from_raw_fd(near) };
    // SAFETY: the same.
    (near, unsafe { OwnedFd::from_raw_fd(far) })
}

/// The contents of a terminal, in a thread that ends with it.
pub(crate) fn screen(near: &OwnedFd) -> Arc<Mutex<String>> {
    let seen = Arc::new(Mutex::new(String::new()));
    let (mut terminal, writes) = (File::from(near.try_clone().unwrap()), Arc::clone(&seen));
    std::thread::spawn(move || {
        let mut octets = [0; 4096];
        while let Ok(len @ 1..) = terminal.read(&mut octets) {
            writes.lock().unwrap().push_str(&String::from_utf8_lossy(&octets[..len]));
        }
    });
    seen
}

/// Waits until `is_so`; else panics with the contents of the terminal.
#[track_caller]
pub(crate) fn wait_until(what: &str, seen: &Mutex<String>, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: {:?}", seen.lock().unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
}
