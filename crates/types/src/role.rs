//! What the threads of the packet path do, and how they are numbered.

use crate::WorkerId;

/// What one thread of the packet path does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// It owns sessions, processes their packets and transmits them.
    Worker,
    /// It owns no session: it answers what is addressed to the UPF itself (ARP, neighbor discovery, ICMP, GTP-U path
    /// management).
    Signaling,
    /// It receives packets from ports, finds a worker for each, and hands them over.
    Receiver,
}

impl Role {
    /// Its name in configuration, logs and `adit show`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Signaling => "signaling",
            Self::Receiver => "receiver",
        }
    }
}

/// The threads of a packet path, by number: the workers, then, with receivers, the signaling worker and the receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    workers: usize,
    receivers: usize,
}

impl Roles {
    /// Workers that receive themselves, at least one.
    #[must_use]
    pub const fn run_to_completion(workers: usize) -> Self {
        Self { workers: if workers == 0 { 1 } else { workers }, receivers: 0 }
    }

    /// Workers that `receivers` receive for, at least one of each.
    #[must_use]
    pub const fn pipeline(receivers: usize, workers: usize) -> Self {
        let receivers = if receivers == 0 { 1 } else { receivers };
        Self { receivers, ..Self::run_to_completion(workers) }
    }

    /// How many workers share the sessions.
    #[must_use]
    pub const fn workers(self) -> usize {
        self.workers
    }

    /// How many threads only receive.
    #[must_use]
    pub const fn receivers(self) -> usize {
        self.receivers
    }

    /// How many threads there are.
    #[must_use]
    pub const fn threads(self) -> usize {
        self.transmitters() + self.receivers
    }

    /// How many threads transmit: the first ones.
    #[must_use]
    pub const fn transmitters(self) -> usize {
        self.workers + (self.receivers > 0) as usize
    }

    /// The signaling worker; `None` without receivers: then each worker treats what it receives.
    #[must_use]
    pub fn signaling(self) -> Option<WorkerId> {
        (self.receivers > 0).then(|| WorkerId(u8::try_from(self.workers).unwrap_or(u8::MAX)))
    }

    /// The role of a thread.
    #[must_use]
    pub fn of(self, thread: usize) -> Role {
        match thread {
            _ if thread < self.workers => Role::Worker,
            _ if thread < self.transmitters() => Role::Signaling,
            _ => Role::Receiver,
        }
    }

    /// The roles of all threads, by number.
    pub fn all(self) -> impl Iterator<Item = Role> {
        (0..self.threads()).map(move |thread| self.of(thread))
    }

    /// True if the thread `from` hands packets to the thread `to`.
    #[must_use]
    pub fn connects(self, from: usize, to: usize) -> bool {
        match self.of(to) {
            Role::Worker => from != to,
            Role::Signaling => self.of(from) == Role::Receiver,
            Role::Receiver => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_come_first_then_the_signaling_worker_then_receivers() {
        let roles: Vec<_> = Roles::pipeline(2, 3).all().map(Role::name).collect();
        assert_eq!(roles, ["worker", "worker", "worker", "signaling", "receiver", "receiver"]);
        let alone = Roles::run_to_completion(0);
        assert_eq!((alone.threads(), alone.transmitters(), alone.signaling()), (1, 1, None));
        assert_eq!(Roles::pipeline(1, 2).signaling(), Some(WorkerId(2)));
    }

    #[test]
    fn packets_go_to_workers_and_from_receivers_to_the_signaling_worker() {
        let roles = Roles::pipeline(1, 2);
        let to = |from| (0..4).filter(|to| roles.connects(from, *to)).collect::<Vec<_>>();
        assert_eq!([0, 1, 2, 3].map(to), [vec![1], vec![0], vec![0, 1], vec![0, 1, 2]]);
    }
}
