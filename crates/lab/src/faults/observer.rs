//! Promotes a replica when the primary does not answer, as Redis Sentinel does, and makes the
//! former primary a replica.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_lab_process::netns::NetNamespace;
use adit_lab_process::stop::Stop;
use anyhow::{Context, Result};

use crate::faults::addresses::server_address;
use crate::faults::server::{PORT, command_over_network};
use crate::faults::timeline::{EventKind, Timeline};

const INTERVAL: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_millis(300);
/// How long a primary may not answer before a replica is promoted.
const PRIMARY_TIMEOUT: Duration = Duration::from_millis(1000);

/// The role that a server reports.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ServerRole {
    Primary,
    /// A replica, with its offset in the stream of the primary `of`.
    Replica {
        of: String,
        offset: u64,
    },
}

/// The running observer. Drop ends it.
#[derive(Debug)]
pub(crate) struct PromotingObserver {
    is_on: Arc<AtomicBool>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl PromotingObserver {
    /// Starts to watch the servers from a host. The first server is the primary at the start.
    ///
    /// # Errors
    /// The system can start no thread.
    pub(crate) fn start(host: &NetNamespace, servers: usize, timeline: &Timeline) -> Result<Self> {
        let (stop, is_on) = (Stop::default(), Arc::new(AtomicBool::new(true)));
        let mut running = RunningObserver {
            servers: (0..servers).map(|at| (server_address(at), PORT).into()).collect(),
            primary: 0,
            seen: Instant::now(),
            timeline: timeline.clone(),
        };
        let (stopped, enabled) = (stop.clone(), Arc::clone(&is_on));
        let watch = move || {
            while !stopped.is_raised() {
                if enabled.load(Ordering::Relaxed) {
                    running.turn();
                } else {
                    running.seen = Instant::now();
                }
                thread::sleep(INTERVAL);
            }
        };
        // A thread starts in the network namespace of the thread that starts it.
        let start = || {
            thread::Builder::new()
                .name("observer".to_owned())
                .spawn(watch)
                .context("start the observer")
        };
        let thread = host.enter(start)?;
        Ok(Self { is_on, stop, thread: Some(thread) })
    }

    /// Enables or disables promotions.
    pub(crate) fn set_enabled(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }
}

impl Drop for PromotingObserver {
    fn drop(&mut self) {
        self.stop.raise();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            eprintln!("adit-lab: the observer panicked");
        }
    }
}

struct RunningObserver {
    servers: Vec<SocketAddr>,
    primary: usize,
    seen: Instant,
    timeline: Timeline,
}

impl RunningObserver {
    fn turn(&mut self) {
        let roles: Vec<Option<ServerRole>> =
            self.servers.iter().map(|server| role(*server)).collect();
        let is_primary =
            |at: usize| roles.get(at).is_some_and(|role| *role == Some(ServerRole::Primary));
        if is_primary(self.primary) {
            self.seen = Instant::now();
        } else if let Some(other) = (0..roles.len())
            .find(|at| is_primary(*at) && roles.get(self.primary).is_some_and(Option::is_some))
        {
            // Another program has promoted this server.
            (self.primary, self.seen) = (other, Instant::now());
        } else if self.seen.elapsed() >= PRIMARY_TIMEOUT {
            self.promote(&roles);
        }
        let Some(primary) = self.servers.get(self.primary).copied() else { return };
        if !is_primary(self.primary) {
            return;
        }
        let own = primary.ip().to_string();
        for (server, role) in self.servers.iter().zip(&roles) {
            let is_right = match role {
                None => true,
                Some(ServerRole::Primary) => *server == primary,
                Some(ServerRole::Replica { of, .. }) => *of == own,
            };
            if !is_right {
                let words = ["REPLICAOF", &own, &PORT.to_string()];
                // On failure the next turn tries again.
                let _ = command_over_network(*server, &words, PATIENCE);
            }
        }
    }

    /// Promotes the replica with the highest offset.
    fn promote(&mut self, roles: &[Option<ServerRole>]) {
        let offset = |role: &Option<ServerRole>| match role {
            Some(ServerRole::Replica { offset, .. }) => Some(*offset),
            _ => None,
        };
        let candidates =
            roles.iter().enumerate().filter_map(|(at, role)| Some((offset(role)?, at)));
        let Some((_, best)) = candidates.max() else { return };
        let Some(server) = self.servers.get(best) else { return };
        if command_over_network(*server, &["REPLICAOF", "NO", "ONE"], PATIENCE).is_ok() {
            (self.primary, self.seen) = (best, Instant::now());
            self.timeline.note(EventKind::Promotion, &format!("s{}", best + 1), "is promoted");
        }
    }
}

fn role(server: SocketAddr) -> Option<ServerRole> {
    let words = command_over_network(server, &["ROLE"], PATIENCE).ok()?;
    match words.first()?.as_str() {
        "master" => Some(ServerRole::Primary),
        // The reply of a replica: slave, address, port, state, offset
        "slave" => Some(ServerRole::Replica {
            of: words.get(1)?.clone(),
            offset: words.get(4).and_then(|offset| offset.parse().ok()).unwrap_or(0),
        }),
        _ => None,
    }
}
