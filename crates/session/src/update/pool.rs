//! Credit pools: URRs whose usage is the weighted sum of the usage of other URRs. Spec: TS 29.244
//! §7.5.2.4, table 7.5.2.4-2.

use adit_types::UrrId;
use adit_types::limits::POOL_MEMBERS_PER_SESSION_MAX;

use crate::record::{Aggregated, MeasurementMethod, Urr};
use crate::refusal::Refusal;

/// Checks that every pool measures only volume, that its members exist and are in no other pool,
/// and that there are not too many members.
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
            if taken.len() >= POOL_MEMBERS_PER_SESSION_MAX {
                return Err(Refusal::TooManyPoolMembers { urr: pool.id });
            }
            taken.push(urr);
        }
    }
    Ok(())
}
