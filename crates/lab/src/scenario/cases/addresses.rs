//! UE addresses that adit gives. Spec: TS 29.244 §5.21.

use std::net::Ipv4Addr;

use anyhow::{Context, Result, ensure};

use super::PORT;
use crate::scenario::probe::Probe;
use crate::scenario::session::{Rules, Stage, both, none};

/// The octets that all addresses of the configured pool begin with.
const POOL: [u8; 3] = [10, 45, 200];

/// The SMF leaves the address to adit: traffic of the address that it got passes, of another not.
pub fn ue_pool(stage: &Stage<'_>) -> Result<String> {
    let session = stage.establish_with(&Rules { ue_from_pool: true, ..Rules::USUAL })?;
    let addr = session.established().ue_ipv4.context("adit gave no address")?;
    let [a, b, c, host] = addr.octets();
    ensure!([a, b, c] == POOL, "{addr} is not of the pool");
    let topology = &stage.network.topology;
    topology.give_address(stage.ue, addr)?;
    both("the address of the pool", &Probe::open_from(stage, addr, PORT)?)?;
    let stolen = Ipv4Addr::from([a, b, c, host.wrapping_add(1)]);
    topology.give_address(stage.ue, stolen)?;
    none("another address", &Probe::open_from(stage, stolen, PORT)?.uplink()?)?;
    session.end()?;
    Ok(format!("adit gave {addr}, which works; a stolen address does not"))
}
