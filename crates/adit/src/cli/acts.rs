//! The commands that change something in a running adit.

use clap::{Subcommand, ValueEnum};

use super::AdminSocket;
use crate::admin_act::AdminAct;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// End a session. Its SMF gets the last usage if it takes such reports.
    End {
        /// Its UP SEID, as `adit show sessions` prints it.
        seid: String,
        #[command(flatten)]
        socket: AdminSocket,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Remove the records of sessions that are set aside. Their SMFs get the last usage if it can be read and they take such
    /// reports.
    Discard {
        /// The UP SEID of one, as `adit show store` prints it, or `all`.
        #[arg(value_name = "SEID|all")]
        seid: String,
        #[command(flatten)]
        socket: AdminSocket,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TapCommand {
    /// End a trace or a capture.
    End {
        /// Its number, as `adit show taps` prints it.
        tap: String,
        #[command(flatten)]
        socket: AdminSocket,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AssociationCommand {
    /// Request an SMF to release its association. The association goes on until the SMF does.
    Release {
        /// Its Node ID or address, as `adit show associations` prints it.
        node_id: String,
        /// End the association and all of its sessions at once, for an SMF that does not answer or comply. Their usage since
        /// the last reports is lost, and the SMF learns of it by Cause 72 at its next request.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        socket: AdminSocket,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkerDrainCommand {
    /// Give the sessions of a worker to the others while packets pass.
    Drain {
        /// Its number, as `adit show workers` prints it.
        worker: String,
        #[command(flatten)]
        socket: AdminSocket,
    },
    /// Give a worker sessions again.
    Resume {
        /// Its number, as `adit show workers` prints it.
        worker: String,
        #[command(flatten)]
        socket: AdminSocket,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DrainSwitch {
    /// Refuse new sessions with Cause 74, and report full load.
    On,
    /// Accept new sessions.
    Off,
}

impl SessionCommand {
    pub(crate) fn into_act(self) -> (AdminSocket, AdminAct) {
        let Self::End { seid, socket } = self;
        (socket, AdminAct::EndSession(seid))
    }
}

impl StoreCommand {
    pub(crate) fn into_act(self) -> (AdminSocket, AdminAct) {
        let Self::Discard { seid, socket } = self;
        (socket, AdminAct::DiscardSession(seid))
    }
}

impl TapCommand {
    pub(crate) fn into_act(self) -> (AdminSocket, AdminAct) {
        let Self::End { tap, socket } = self;
        (socket, AdminAct::EndTap(tap))
    }
}

impl AssociationCommand {
    pub(crate) fn into_act(self) -> (AdminSocket, AdminAct) {
        let Self::Release { node_id, force, socket } = self;
        match force {
            true => (socket, AdminAct::EndAssociation(node_id)),
            false => (socket, AdminAct::ReleaseAssociation(node_id)),
        }
    }
}

impl WorkerDrainCommand {
    pub(crate) fn into_act(self) -> (AdminSocket, AdminAct) {
        match self {
            Self::Drain { worker, socket } => (socket, AdminAct::DrainWorker(worker)),
            Self::Resume { worker, socket } => (socket, AdminAct::ResumeWorker(worker)),
        }
    }
}

impl DrainSwitch {
    pub(crate) fn into_act(self) -> AdminAct {
        AdminAct::Drain(self == Self::On)
    }
}
