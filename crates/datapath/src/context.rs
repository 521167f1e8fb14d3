//! State that is constant during one step.

use adit_tables::TablesView;
use adit_types::Nanos;

use crate::interfaces::Interfaces;

/// State that every part of the packet path reads during one step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepContext<'v> {
    /// The tables.
    pub view: TablesView<'v>,
    /// Our interfaces.
    pub interfaces: &'v Interfaces,
    /// The time of the step.
    pub now: Nanos,
    /// When this node started: the Recovery Time Stamp of Echo messages; `None`: they are sent
    /// without it.
    pub recovery_time_stamp: Option<u32>,
}
