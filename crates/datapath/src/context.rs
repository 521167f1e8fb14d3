//! State that is constant during one step.

use adit_tables::TablesView;
use adit_types::Nanos;

use crate::interfaces::Interfaces;

/// State that every part of the packet path reads during one step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepContext<'v> {
    pub view: TablesView<'v>,
    pub interfaces: &'v Interfaces,
    pub now: Nanos,
    /// When this node started, for the Recovery Time Stamp of Echo messages; `None` omits that IE.
    pub recovery_time_stamp: Option<u32>,
}
