//! Credit pools: URRs whose usage is the weighted usage of others. Spec: TS 29.244 §7.5.2.4,
//! table 7.5.2.4-2.

use adit_types::UrrId;

use crate::record::{Aggregated, MeasurementMethod, Urr};
use crate::refusal::Refusal;

/// Checks that every pool measures volume, of URRs that are there and in no other pool.
pub(super) fn check(urrs: &[Urr]) -> Result<(), Refusal> {
    let mut taken: Vec<UrrId> = Vec::new();
    for pool in urrs {
        let Some(members) = pool.settings.aggregated.as_deref() else { continue };
        if pool.method != (MeasurementMethod { volume: true, ..MeasurementMethod::default() }) {
            return Err(Refusal::PoolMeasuresOthers { urr: pool.id });
        }
        for &Aggregated { urr, .. } in members {
            let is_plain = |known: &Urr| known.id == urr && known.settings.aggregated.is_none();
            if taken.contains(&urr) || !urrs.iter().any(is_plain) {
                return Err(Refusal::AggregatedUrrUnusable { urr: pool.id, aggregated: urr });
            }
            taken.push(urr);
        }
    }
    Ok(())
}
