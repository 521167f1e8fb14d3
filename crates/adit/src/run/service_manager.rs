//! Notifies the service manager (systemd) of readiness, status and liveness.
//!
//! The protocol is one datagram of lines to the socket that `NOTIFY_SOCKET` names, see
//! sd_notify(3). Without that variable nothing is sent.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tracing::warn;

use crate::config::ConfigFileError;
use crate::threads::liveness::{Liveness, LivenessReading};

/// Shortest interval between two status notifications.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);

/// Exit status of an adit whose configuration is refused: another start would find the same
/// mistakes. Source: sysexits(3), `EX_CONFIG`; `RestartPreventExitStatus` of the unit.
const REFUSED_CONFIGURATION_STATUS: u8 = 78;

/// Notifies the service manager why adit ends, and returns the exit status of adit.
pub(crate) fn report_failure(error: &anyhow::Error) -> ExitCode {
    ServiceManager::of_environment(Liveness::default()).failed(error);
    match error.is::<ConfigFileError>() {
        true => ExitCode::from(REFUSED_CONFIGURATION_STATUS),
        false => ExitCode::FAILURE,
    }
}

/// Notifies the service manager, if there is one.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    socket: Option<NotifySocket>,
    watchdog: Option<Watchdog>,
    liveness: Liveness,
    /// The last status that was notified, and when.
    status: String,
    status_at: Option<Instant>,
    is_ready: bool,
}

#[derive(Debug)]
struct NotifySocket {
    socket: UnixDatagram,
    to: SocketAddr,
}

/// Sends signs of life: the service manager ends a process that sends none for `WATCHDOG_USEC`.
#[derive(Debug)]
struct Watchdog {
    /// Half of `WATCHDOG_USEC`.
    interval: Duration,
    next: Instant,
    /// Iterations of the control thread at the last sign of life.
    turns: u64,
}

impl ServiceManager {
    /// Finds the service manager by the environment. Signs of life are sent if `liveness` allows.
    pub(crate) fn of_environment(liveness: Liveness) -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let socket = variable("NOTIFY_SOCKET").and_then(|path| {
            let opened = NotifySocket::open(&path);
            opened
                .inspect_err(|error| warn!(%error, path, "cannot notify the service manager"))
                .ok()
        });
        let is_ours =
            variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let micros = variable("WATCHDOG_USEC").and_then(|micros| micros.parse().ok());
        let span = micros.filter(|micros| is_ours && *micros > 0).map(Duration::from_micros);
        Self::new(socket, span, liveness, Instant::now())
    }

    fn new(
        socket: Option<NotifySocket>,
        watchdog: Option<Duration>,
        liveness: Liveness,
        now: Instant,
    ) -> Self {
        let watchdog =
            watchdog.map(|span| Watchdog { interval: span / 2, next: now, turns: u64::MAX });
        let (status, status_at) = (String::new(), None);
        Self { socket, watchdog, liveness, status, status_at, is_ready: false }
    }

    /// Notifies that all threads run.
    pub(crate) fn ready(&mut self) {
        self.is_ready = true;
        self.send("READY=1");
    }

    /// Notifies that the configuration is being read again, until [`ServiceManager::ready`].
    pub(crate) fn reloading(&mut self) {
        let at = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = at.tv_sec.saturating_mul(1_000_000).saturating_add(at.tv_nsec / 1000);
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// Notifies that adit stops.
    pub(crate) fn stopping(&mut self) {
        self.send("STOPPING=1\nSTATUS=stopping");
    }

    /// Notifies that adit ends by a fault.
    fn failed(&self, error: &anyhow::Error) {
        // A status is one line.
        let lines = format!("{error:#}");
        let words = lines.lines().map(str::trim).collect::<Vec<_>>().join("; ");
        self.send(&format!("STATUS={words}"));
    }

    /// Notifies the status when it has changed, and sends a sign of life if the control thread has
    /// iterated since the last one and all workers take steps. Call it several times a second.
    pub(crate) fn turn(&mut self, now: Instant) {
        if self.socket.is_none() || !self.is_ready {
            return;
        }
        let reading = self.liveness.read();
        if reading.turns == 0 {
            // The control thread has yet to report the state of adit.
            return;
        }
        let is_due = self.status_at.is_none_or(|at| now.duration_since(at) >= STATUS_INTERVAL);
        let status = status(reading);
        if is_due && status != self.status {
            self.send(&format!("STATUS={status}"));
            (self.status, self.status_at) = (status, Some(now));
        }
        let Some(watchdog) = &mut self.watchdog else { return };
        if now < watchdog.next || !shows_life(reading, watchdog.turns) {
            return;
        }
        (watchdog.next, watchdog.turns) = (now + watchdog.interval, reading.turns);
        self.send("WATCHDOG=1");
    }

    fn send(&self, lines: &str) {
        let Some(NotifySocket { socket, to }) = &self.socket else { return };
        if let Err(error) = socket.send_to_addr(lines.as_bytes(), to) {
            warn!(%error, lines, "cannot notify the service manager");
        }
    }
}

impl NotifySocket {
    /// Opens a socket to a path or, after "@", to a name in the abstract namespace.
    fn open(path: &str) -> std::io::Result<Self> {
        let to = match path.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(path)?,
        };
        let socket = UnixDatagram::unbound()?;
        // A service manager that does not read must not hold adit up.
        socket.set_nonblocking(true)?;
        Ok(Self { socket, to })
    }
}

/// True if the control thread has iterated since `turns`, and no worker stands still.
const fn shows_life(reading: LivenessReading, turns: u64) -> bool {
    reading.turns != turns && reading.stopped_workers == 0
}

/// Returns the status in one line, as `systemctl status` shows it.
fn status(reading: LivenessReading) -> String {
    let LivenessReading { stopped_workers, ports_down, is_active, is_restoring, .. } = reading;
    let role = match (is_active, is_restoring) {
        (false, _) => "standby",
        (true, true) => "restoring sessions",
        (true, false) => "forwarding",
    };
    let mut status = role.to_owned();
    for (count, what) in [(stopped_workers, "workers stand still"), (ports_down, "links are down")]
    {
        if count > 0 {
            status.push_str(&format!("; {count} {what}"));
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> Vec<String> {
        socket.set_nonblocking(true).unwrap();
        let mut buffer = [0; 256];
        let datagrams = std::iter::from_fn(|| {
            socket
                .recv(&mut buffer)
                .ok()
                .map(|len| String::from_utf8_lossy(&buffer[..len]).into_owned())
        });
        datagrams.collect()
    }

    #[test]
    fn service_manager_hears_of_readiness_state_and_life_and_of_none_while_a_worker_stands_still() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let socket = NotifySocket::open(path.to_str().unwrap()).unwrap();
        let (liveness, start) = (Liveness::default(), Instant::now());
        let mut told = ServiceManager::new(
            Some(socket),
            Some(Duration::from_secs(4)),
            liveness.clone(),
            start,
        );
        let at = |seconds| start + Duration::from_secs(seconds);
        let forwards = LivenessReading { is_active: true, ..LivenessReading::default() };
        told.turn(start);
        assert_eq!(received(&manager), [""; 0], "it is not ready");
        told.ready();
        liveness.note_turn(forwards);
        told.turn(at(1));
        assert_eq!(received(&manager), ["READY=1", "STATUS=forwarding", "WATCHDOG=1"]);
        liveness.note_turn(forwards);
        told.turn(at(2));
        assert_eq!(received(&manager), [""; 0], "half of four seconds did not pass");
        told.turn(at(4));
        assert_eq!(received(&manager), ["WATCHDOG=1"]);
        told.turn(at(8));
        assert_eq!(received(&manager), [""; 0], "the control thread took no turn");
        liveness.note_turn(LivenessReading { stopped_workers: 1, ports_down: 2, ..forwards });
        told.turn(at(9));
        let status = "STATUS=forwarding; 1 workers stand still; 2 links are down";
        assert_eq!(received(&manager), [status], "and no sign of life");
        told.reloading();
        let reloading = received(&manager).concat();
        assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
        told.stopping();
        assert_eq!(received(&manager), ["STOPPING=1\nSTATUS=stopping"]);
    }

    #[test]
    fn service_manager_hears_in_one_line_why_adit_does_not_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let socket = NotifySocket::open(path.to_str().unwrap()).unwrap();
        let told = ServiceManager::new(Some(socket), None, Liveness::default(), Instant::now());
        told.failed(&anyhow::anyhow!("adit.toml: 2 mistakes\n  line 1\n  line 2"));
        assert_eq!(received(&manager), ["STATUS=adit.toml: 2 mistakes; line 1; line 2"]);
        let code = |error| format!("{:?}", report_failure(&error));
        let refused = ConfigFileError::Mistakes("adit.toml".into(), Vec::new());
        assert_eq!(code(refused.into()), format!("{:?}", ExitCode::from(78)));
        assert_eq!(code(anyhow::anyhow!("no device")), format!("{:?}", ExitCode::FAILURE));
    }

    #[test]
    fn without_a_service_manager_nothing_happens() {
        let mut none = ServiceManager::new(None, None, Liveness::default(), Instant::now());
        none.ready();
        none.turn(Instant::now());
        none.stopping();
    }

    #[test]
    fn abstract_socket_is_reached() {
        let name = format!("adit-test-{}", std::process::id());
        let addr = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&addr).unwrap();
        let socket = NotifySocket::open(&format!("@{name}")).unwrap();
        let mut told = ServiceManager::new(Some(socket), None, Liveness::default(), Instant::now());
        told.ready();
        assert_eq!(received(&manager), ["READY=1"]);
    }
}
