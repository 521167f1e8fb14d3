//! `adit-bench publication`: the cost of a session modification on the control side, and for the
//! packets of a worker that observes it.
//!
//! One thread does both in turns, so nothing waits and the figures are cycles. It changes,
//! publishes and reclaims some handovers (new tunnels of downlink FARs); then one step receives a
//! burst of random sessions, some of them just changed.

use std::net::IpAddr;

use adit_rules::{DeltaId, GtpuTunnel, HeaderCreation};
use adit_session::{Change, FarUpdate, ForwardingUpdate, Refusal, SessionChange};
use adit_types::{FarId, Teid};
use anyhow::{Context, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::measure::{BenchNode, Figures, establish, timed};
use super::packet::BenchPacket;
use super::report::{self, rounded};
use super::sessions::BenchProfile;
use crate::size::BenchSize;

/// Numbers of modifications between two bursts.
const MODIFICATIONS_PER_STEP: [usize; 3] = [0, 1, 8];

/// Measures with the sessions and packets of `size`.
///
/// # Errors
/// A modification is refused or a packet is not forwarded.
pub(crate) fn run(size: &BenchSize) -> anyhow::Result<Value> {
    let &BenchSize { sessions: count, packets, burst } = size;
    eprintln!("establishing {count} sessions");
    let mut resident = establish(BenchProfile::USUAL, count)?;
    let mut rows = Vec::new();
    for per_step in MODIFICATIONS_PER_STEP {
        rows.push(measure(&mut resident, per_step, packets.div_ceil(burst), burst)?);
    }
    Ok(report::of("publication", &rows))
}

fn measure(
    resident: &mut BenchNode,
    per_step: usize,
    steps: usize,
    burst: usize,
) -> anyhow::Result<Value> {
    let BenchNode { store, publisher, bench, sessions } = resident;
    let mut random = SmallRng::seed_from_u64(7);
    let (mut cycles, mut spent) = (Vec::with_capacity(steps), 0);
    let mut number = 1 << 40;
    // Four packets per session, to touch its pages.
    for _ in 0..(4 * sessions.len()).div_ceil(burst) {
        bench.prepare(BenchPacket::DOWNLINK, sessions, burst)?;
        bench.run()?;
    }
    for _ in 0..steps {
        bench.prepare(BenchPacket::DOWNLINK, sessions, burst)?;
        for _ in 0..per_step {
            let session = sessions.get(random.random_range(0..sessions.len()));
            let up_seid = session.context("a session")?.up_seid;
            let change = handover(random.random());
            number += 1;
            let (cycles, modified) = timed(|| {
                let delta = store.modify(up_seid, change)?.delta;
                Ok::<_, Refusal>(delta.map(|delta| publisher.apply(DeltaId(number), delta)))
            });
            modified.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
            spent += cycles;
        }
        let (step_cycles, sent) = bench.run()?;
        ensure!(sent == burst, "a step forwarded {sent} of {burst} packets");
        cycles.push(step_cycles);
        spent += timed(|| while publisher.poll_observed().is_some() {}).0;
    }
    let figures = Figures::of(&mut cycles, burst);
    let modifications = steps * per_step;
    let each = (modifications > 0).then(|| rounded(report::ratio(spent, modifications)));
    Ok(figures.add_to(json!({
        "modifications_per_burst": per_step,
        "modifications": modifications,
        "sessions": sessions.len(),
        "burst_pkts": burst,
        "cycles_per_modification": each,
    })))
}

/// Makes a change that moves the downlink to another tunnel.
fn handover(teid: u32) -> SessionChange {
    let gnb = GtpuTunnel { teid: Teid(teid | 1), addr: IpAddr::V4(crate::network::GNB_ADDR) };
    let forwarding = ForwardingUpdate {
        outer_header_creation: Change::Set(HeaderCreation::Gtpu(gnb)),
        ..ForwardingUpdate::default()
    };
    let far = FarUpdate { id: FarId(2), forwarding: Some(forwarding), ..FarUpdate::default() };
    SessionChange { update_fars: vec![far], ..SessionChange::default() }
}
