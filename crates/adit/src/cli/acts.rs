//! The commands that change something in a running adit.

use clap::{Subcommand, ValueEnum};

use super::AdminSocket;
use crate::request::admin_act::AdminAct;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// End a session. Its SMF gets the last usage if it takes such reports.
    End {
        /// UP SEID of the session, as `adit show sessions` prints it.
        seid: String,
        #[command(flatten)]
        socket: AdminSocket,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Remove the records of sessions that are set aside. Their SMFs get the last usage if it can
    /// be read and they take such reports.
    Discard {
        /// The UP SEID of a session, as `adit show store` prints it, or `all`.
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
        /// Number of the trace or capture, as `adit show taps` prints it.
        tap: String,
        #[command(flatten)]
        socket: AdminSocket,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AssociationCommand {
    /// Request an SMF to release its association. The association goes on until the SMF does.
    Release {
        /// Node ID or address of the SMF, as `adit show associations` prints it.
        node_id: String,
        /// End the association and all of its sessions at once, for an SMF that does not answer or
        /// comply. Their usage since the last reports is lost, and the SMF learns of it by Cause 72
        /// at its next request.
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
        /// Number of the worker, as `adit show workers` prints it.
        worker: String,
        #[command(flatten)]
        socket: AdminSocket,
    },
    /// Give a worker sessions again.
    Resume {
        /// Number of the worker, as `adit show workers` prints it.
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

/// An act, and the adit that is to carry it out.
#[derive(Debug)]
pub(crate) struct RequestedAct {
    pub socket: AdminSocket,
    pub act: AdminAct,
}

impl SessionCommand {
    pub(crate) fn into_act(self) -> RequestedAct {
        let Self::End { seid, socket } = self;
        RequestedAct { socket, act: AdminAct::EndSession(seid) }
    }
}

impl StoreCommand {
    pub(crate) fn into_act(self) -> RequestedAct {
        let Self::Discard { seid, socket } = self;
        RequestedAct { socket, act: AdminAct::DiscardSession(seid) }
    }
}

impl TapCommand {
    pub(crate) fn into_act(self) -> RequestedAct {
        let Self::End { tap, socket } = self;
        RequestedAct { socket, act: AdminAct::EndTap(tap) }
    }
}

impl AssociationCommand {
    pub(crate) fn into_act(self) -> RequestedAct {
        let Self::Release { node_id, force, socket } = self;
        let act = match force {
            true => AdminAct::EndAssociation(node_id),
            false => AdminAct::ReleaseAssociation(node_id),
        };
        RequestedAct { socket, act }
    }
}

impl WorkerDrainCommand {
    pub(crate) fn into_act(self) -> RequestedAct {
        let (socket, act) = match self {
            Self::Drain { worker, socket } => (socket, AdminAct::DrainWorker(worker)),
            Self::Resume { worker, socket } => (socket, AdminAct::ResumeWorker(worker)),
        };
        RequestedAct { socket, act }
    }
}
