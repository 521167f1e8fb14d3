//! Roles of the threads of the packet path, and the order of the threads.

use crate::WorkerId;

/// The role of one thread of the packet path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// It owns sessions, processes their packets and transmits them.
    Worker,
    /// It owns no session: it answers packets that are addressed to the UPF itself (ARP, neighbor
    /// discovery, ICMP, GTP-U path management).
    Signaling,
    /// It receives packets from ports, finds a worker for each, and hands them over.
    Receiver,
    /// It receives packets from ports for an event scheduler, and transmits frames that workers
    /// send.
    RxTx,
}

impl Role {
    /// Its name in configuration, logs and `adit show`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Signaling => "signaling",
            Self::Receiver => "receiver",
            Self::RxTx => "rx-tx",
        }
    }
}

/// The threads of a packet path, in the order of their indices: the workers; then, with receivers,
/// the signaling worker and the receivers, or, with an event scheduler, the Rx/Tx threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    workers: usize,
    receivers: usize,
    rx_tx: usize,
}

impl Roles {
    /// Returns the threads if `workers` receive packets themselves. Zero counts as one.
    #[must_use]
    pub const fn run_to_completion(workers: usize) -> Self {
        Self { workers: if workers == 0 { 1 } else { workers }, receivers: 0, rx_tx: 0 }
    }

    /// Returns the threads if `receivers` receive for `workers`. Zero counts as one.
    #[must_use]
    pub const fn pipeline(receivers: usize, workers: usize) -> Self {
        let receivers = if receivers == 0 { 1 } else { receivers };
        Self { receivers, ..Self::run_to_completion(workers) }
    }

    /// Returns the threads if an event scheduler distributes packets of Rx/Tx threads to workers.
    /// Zero counts as one.
    #[must_use]
    pub const fn event_driven(rx_tx: usize, workers: usize) -> Self {
        let rx_tx = if rx_tx == 0 { 1 } else { rx_tx };
        Self { rx_tx, ..Self::run_to_completion(workers) }
    }

    /// How many Rx/Tx threads there are.
    #[must_use]
    pub const fn rx_tx(self) -> usize {
        self.rx_tx
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
        self.processing_thread_count() + self.receivers + self.rx_tx
    }

    /// How many threads process packets: the first ones. They also transmit unless there are Rx/Tx
    /// threads.
    #[must_use]
    pub const fn processing_thread_count(self) -> usize {
        self.workers + (self.receivers > 0) as usize
    }

    /// Indices of the threads that receive.
    #[must_use]
    pub const fn receiving(self) -> core::ops::Range<usize> {
        match self.receivers + self.rx_tx {
            0 => 0..self.workers,
            _ => self.processing_thread_count()..self.threads(),
        }
    }

    /// Indices of the threads that transmit.
    #[must_use]
    pub const fn transmitting(self) -> core::ops::Range<usize> {
        match self.rx_tx {
            0 => 0..self.processing_thread_count(),
            _ => self.workers..self.threads(),
        }
    }

    /// The signaling worker. `None` without receivers: each worker then processes all packets that
    /// it receives.
    #[must_use]
    pub fn signaling(self) -> Option<WorkerId> {
        (self.receivers > 0).then(|| WorkerId(u8::try_from(self.workers).unwrap_or(u8::MAX)))
    }

    /// Returns the role of a thread, by its index.
    #[must_use]
    pub fn of(self, thread: usize) -> Role {
        match thread {
            _ if thread < self.workers => Role::Worker,
            _ if thread < self.processing_thread_count() => Role::Signaling,
            _ if self.rx_tx > 0 => Role::RxTx,
            _ => Role::Receiver,
        }
    }

    /// Returns the roles of all threads, in the order of their indices.
    pub fn all(self) -> impl Iterator<Item = Role> {
        (0..self.threads()).map(move |thread| self.of(thread))
    }

    /// True if the thread `from` hands packets to the thread `to`.
    #[must_use]
    pub fn connects(self, from: usize, to: usize) -> bool {
        match self.of(to) {
            // Rx/Tx threads pass packets to workers through the scheduler.
            Role::Worker => from != to && self.of(from) != Role::RxTx,
            Role::Signaling => self.of(from) == Role::Receiver,
            Role::Receiver | Role::RxTx => false,
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
        assert_eq!(
            (alone.threads(), alone.processing_thread_count(), alone.signaling()),
            (1, 1, None)
        );
        assert_eq!(Roles::pipeline(1, 2).signaling(), Some(WorkerId(2)));
    }

    #[test]
    fn event_driven_workers_come_before_rx_tx_threads_and_are_connected_with_each_other() {
        let roles = Roles::event_driven(2, 2);
        let names: Vec<_> = roles.all().map(Role::name).collect();
        assert_eq!(names, ["worker", "worker", "rx-tx", "rx-tx"]);
        assert_eq!(
            (roles.processing_thread_count(), roles.rx_tx(), roles.signaling()),
            (2, 2, None)
        );
        assert_eq!((roles.receiving(), roles.transmitting()), (2..4, 2..4));
        let to = |from| (0..4).filter(|to| roles.connects(from, *to)).collect::<Vec<_>>();
        assert_eq!([0, 2].map(to), [vec![1], vec![]]);
    }

    #[test]
    fn packets_go_to_workers_and_from_receivers_to_the_signaling_worker() {
        let roles = Roles::pipeline(1, 2);
        let to = |from| (0..4).filter(|to| roles.connects(from, *to)).collect::<Vec<_>>();
        assert_eq!([0, 1, 2, 3].map(to), [vec![1], vec![0], vec![0, 1], vec![0, 1, 2]]);
    }
}
