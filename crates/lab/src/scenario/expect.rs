//! What must arrive.

use anyhow::{Result, bail};

use super::probe::{DATAGRAMS, ProbeSockets};

/// All datagrams must arrive, in their order and once.
///
/// # Errors
/// They do not.
pub(super) fn all(what: &str, arrived: &[u32]) -> Result<()> {
    if !arrived.iter().copied().eq(0..DATAGRAMS) {
        bail!("{what}: of {DATAGRAMS} datagrams arrived {arrived:?}");
    }
    Ok(())
}

/// No datagram may arrive.
///
/// # Errors
/// One does.
pub(super) fn none(what: &str, arrived: &[u32]) -> Result<()> {
    if !arrived.is_empty() {
        bail!("{what}: {arrived:?} arrived, nothing should");
    }
    Ok(())
}

/// Both directions pass.
///
/// # Errors
/// They do not.
pub(super) fn both(what: &str, probe: &ProbeSockets) -> Result<()> {
    all(&format!("{what}, uplink"), &probe.uplink()?)?;
    all(&format!("{what}, downlink"), &probe.downlink()?)
}
