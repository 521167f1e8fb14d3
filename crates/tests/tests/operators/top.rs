//! `adit top` in a pseudo terminal: SIGTERM ends it, and the terminal is as before.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::process::Child;

use adit_tests::daemon::{Daemon, adit};

use crate::terminal::{pseudo_terminal, screen, wait_until};

/// Enters and leaves the other screen, and shows the cursor.
const ENTERS: &str = "\u{1b}[?1049h";
const LEAVES: &str = "\u{1b}[?1049l";
const CURSOR: &str = "\u{1b}[?25h";

/// The modes of a terminal.
fn modes(terminal: &impl AsRawFd) -> [u32; 4] {
    let mut modes = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the descriptor is a terminal, and the modes are written.
    let known = unsafe { libc::tcgetattr(terminal.as_raw_fd(), modes.as_mut_ptr()) };
    assert_eq!(known, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: tcgetattr wrote them.
    let modes = unsafe { modes.assume_init() };
    [modes.c_iflag, modes.c_oflag, modes.c_cflag, modes.c_lflag]
}

/// Ends the process if the test fails.
struct Top(Child);

impl Drop for Top {
    fn drop(&mut self) {
        // The process can have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn signal_and_key_end_top_and_the_terminal_is_as_before() {
    let Some(daemon) = Daemon::start("top", 10) else { return };
    for ends_by_key in [false, true] {
        let (near, far) = pseudo_terminal();
        let before = modes(&far);
        let seen = screen(&near);
        let mut command = adit(daemon.dir(), &["top"]);
        command.stdin(far.try_clone().unwrap()).stdout(far.try_clone().unwrap());
        let mut top =
            Top(command.stderr(far.try_clone().unwrap()).env("TERM", "xterm").spawn().unwrap());
        wait_until("the first figures", &seen, || seen.lock().unwrap().contains("uplink"));
        assert!(seen.lock().unwrap().contains(ENTERS));
        assert_ne!(modes(&far), before, "keys come one by one");
        if ends_by_key {
            std::io::Write::write_all(&mut File::from(near.try_clone().unwrap()), b"q").unwrap();
        } else {
            let pid = i32::try_from(top.0.id()).unwrap();
            // SAFETY: the child was not waited for, so the pid is its own.
            assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
        }
        wait_until("its end", &seen, || top.0.try_wait().unwrap().is_some());
        assert!(top.0.wait().unwrap().success());
        wait_until("the former screen", &seen, || seen.lock().unwrap().contains(LEAVES));
        assert!(seen.lock().unwrap().contains(CURSOR));
        assert_eq!(modes(&far), before);
    }
    assert!(daemon.stop().status.success());
}
