//! Checks which datagrams arrived.

use anyhow::{Result, bail};

use super::probe::{DATAGRAMS, ProbeSockets};

/// Checks that all datagrams arrived once and in order.
///
/// # Errors
/// A datagram is missing, duplicated or out of order.
pub(super) fn all(what: &str, arrived: &[u32]) -> Result<()> {
    if !arrived.iter().copied().eq(0..DATAGRAMS) {
        bail!("{what}: expected {DATAGRAMS} datagrams in order, {arrived:?} arrived");
    }
    Ok(())
}

/// Checks that no datagram arrived.
///
/// # Errors
/// A datagram arrived.
pub(super) fn none(what: &str, arrived: &[u32]) -> Result<()> {
    if !arrived.is_empty() {
        bail!("{what}: expected no datagram, {arrived:?} arrived");
    }
    Ok(())
}

/// Checks that datagrams pass in both directions.
///
/// # Errors
/// Datagrams do not pass in one direction.
pub(super) fn both(what: &str, probe: &ProbeSockets) -> Result<()> {
    all(&format!("{what}, uplink"), &probe.uplink()?)?;
    all(&format!("{what}, downlink"), &probe.downlink()?)
}
