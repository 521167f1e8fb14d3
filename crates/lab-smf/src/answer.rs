//! Checks of the UPF's answers, and the SMF's Recovery Time Stamp.

use std::time::{SystemTime, UNIX_EPOCH};

use adit_pfcp::ie::RecoveryTimeStamp;
use adit_pfcp::{Cause, Message};
use anyhow::{Result, anyhow, bail};

/// Seconds from 1900-01-01 to 1970-01-01.
const NTP_OFFSET_S: u64 = 2_208_988_800;

/// Returns a Recovery Time Stamp of the current time.
#[must_use]
pub fn recovery_time_stamp() -> RecoveryTimeStamp {
    let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_secs());
    // The field holds the low 32 bits; the next NTP era begins in 2036.
    let era_s = (unix_s + NTP_OFFSET_S) & u64::from(u32::MAX);
    RecoveryTimeStamp(u32::try_from(era_s).unwrap_or(u32::MAX))
}

/// Checks the Cause of an answer.
///
/// # Errors
/// The UPF refused the request; the message has Cause and Offending IE.
pub fn check_cause(request: &str, cause: Cause, offending_ie: Option<u16>) -> Result<()> {
    if cause == Cause::RequestAccepted {
        return Ok(());
    }
    let offending = offending_ie.map_or(String::new(), |ie| format!(", offending IE {ie}"));
    bail!("the UPF refused a PFCP {request} Request with \"{cause}\"{offending}")
}

/// Makes the error for an answer whose type does not match the request.
#[must_use]
pub fn unexpected_answer(message: &Message<'_>) -> anyhow::Error {
    anyhow!("the UPF answered with an unexpected {}", message.message_type())
}
