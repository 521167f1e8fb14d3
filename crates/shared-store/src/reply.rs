//! Replies to the commands of the pipeline.

use adit_resp::RespValue;

use crate::connection::PipelineTag;
use crate::greeting::replicas;
use crate::scripts::{ScriptAnswer, octets};

/// A reply to a command of the pipeline.
#[derive(Debug)]
pub(crate) enum PipelineReply {
    /// What a script says; `None` if it cannot be read.
    Script(Option<ScriptAnswer>),
    /// Replicas of the server; `None` if it is no primary.
    Role(Option<u32>),
    /// Replicas that have what was written.
    Waited(i64),
    /// The server's own figures, as text.
    Info(Vec<u8>),
}

impl PipelineReply {
    pub(crate) fn read(tag: PipelineTag, value: RespValue<'_>) -> Self {
        match (tag, value) {
            (PipelineTag::Role, value) => Self::Role(replicas(value)),
            (PipelineTag::Info, value) => Self::Info(octets(value).unwrap_or_default().to_vec()),
            (PipelineTag::Wait { .. }, RespValue::Integer(replicas)) => Self::Waited(replicas),
            (_, value) => Self::Script(ScriptAnswer::read(value)),
        }
    }
}
