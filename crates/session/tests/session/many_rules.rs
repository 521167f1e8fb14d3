//! Sessions with as many rules of each kind as they may have, and with one more.

use adit_rules::DestinationInterface;
use adit_session::{
    Aggregated, Bar, Qer, Rates, Refusal, RuleKind, SessionChange, Urr, UrrSettings, UsageTriggers,
};
use adit_types::limits::{
    POOL_MEMBERS_PER_SESSION_MAX, RATES_PER_SESSION_MAX, RULES_PER_SESSION_MAX,
};
use adit_types::{BarId, BitRate, Direction, FarId, PdrId, Precedence, QerId, UrrId};

use crate::builders::*;
use crate::usage::volume_urr;

/// Each PDR has a FAR, a QER and a URR of its own, of the same number.
fn rules(count: usize) -> SessionChange {
    let all = || 1..=u32::try_from(count).unwrap();
    let mut change = SessionChange {
        create_fars: all().map(|id| far(id, DestinationInterface::Core)).collect(),
        create_qers: all().map(qer).collect(),
        create_urrs: all().map(urr).collect(),
        ..SessionChange::default()
    };
    for number in all() {
        let mut pdr = uplink(1);
        pdr.id = PdrId(u16::try_from(number).unwrap());
        pdr.precedence = Precedence(1000 - number);
        pdr.far = Some(FarId(number));
        pdr.qers = vec![QerId(number)];
        pdr.urrs = vec![UrrId(number)];
        change.create_pdrs.push(pdr);
    }
    change
}

fn urr(id: u32) -> Urr {
    volume_urr(id, UsageTriggers::empty(), UrrSettings::default())
}

/// The refusal of a session with these rules. The store stays as it was.
fn refused(change: SessionChange) -> Option<Refusal> {
    let mut store = store(RULES_PER_SESSION_MAX);
    let before = store.clone();
    let refusal = store.establish(OWNER, CP, change).err();
    if refusal.is_some() {
        assert_eq!(store, before, "{refusal:?}");
    }
    refusal
}

#[test]
fn each_of_as_many_pdrs_as_there_may_be_has_its_own_rules() {
    let mut store = store(RULES_PER_SESSION_MAX);
    let established = store.establish(OWNER, CP, rules(RULES_PER_SESSION_MAX)).unwrap();
    let rules = established.delta.rules.unwrap();
    let pdrs = rules.pdrs(Direction::Uplink);
    assert_eq!(pdrs.len(), RULES_PER_SESSION_MAX);
    let last = u16::try_from(RULES_PER_SESSION_MAX).unwrap();
    for (pdr, number) in pdrs.iter().zip((1..=last).rev()) {
        assert_eq!(pdr.id, PdrId(number), "by precedence");
        let number = u32::from(number);
        assert_eq!(rules.fars[usize::from(pdr.far)].id, FarId(number));
        let qers: Vec<QerId> = pdr.qers.iter().map(|&at| rules.qers[usize::from(at)].id).collect();
        let urrs: Vec<UrrId> = pdr.urrs.iter().map(|&at| rules.urrs[usize::from(at)].id).collect();
        assert_eq!((qers, urrs), (vec![QerId(number)], vec![UrrId(number)]));
    }
    let mut teids: Vec<_> = pdrs.iter().map(|pdr| pdr.teid).collect();
    teids.sort_unstable();
    teids.dedup();
    assert_eq!(teids.len(), RULES_PER_SESSION_MAX, "a TEID each");
    let mut slots: Vec<_> = rules.urrs.iter().map(|urr| urr.slot).collect();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), RULES_PER_SESSION_MAX, "a slot each");
}

#[test]
fn one_rule_more_of_any_kind_is_refused_by_kind_and_limit() {
    assert_eq!(refused(rules(RULES_PER_SESSION_MAX)), None);
    let more = |kind| {
        let (mut change, whole) = (rules(RULES_PER_SESSION_MAX), rules(RULES_PER_SESSION_MAX + 1));
        match kind {
            RuleKind::Pdr => {
                let mut pdr = whole.create_pdrs.last().unwrap().clone();
                (pdr.far, pdr.qers, pdr.urrs) = (Some(FarId(1)), vec![QerId(1)], vec![UrrId(1)]);
                change.create_pdrs.push(pdr);
            }
            RuleKind::Far => change.create_fars = whole.create_fars,
            RuleKind::Qer => change.create_qers = whole.create_qers,
            RuleKind::Urr => change.create_urrs = whole.create_urrs,
            RuleKind::Bar => {
                let bar = |id| Bar { id: BarId(id), notification_delay: 0, suggested_pkts: None };
                change.create_bars =
                    (0..=u8::MAX).take(kind.max_per_session() + 1).map(bar).collect();
            }
        }
        change
    };
    let kinds = [(RuleKind::Pdr, 256), (RuleKind::Far, 256), (RuleKind::Qer, 256)];
    for (kind, most) in kinds.into_iter().chain([(RuleKind::Urr, 256), (RuleKind::Bar, 64)]) {
        let refusal = refused(more(kind)).unwrap();
        assert_eq!(refusal, Refusal::TooManyRules { kind });
        let text = format!("too many rules of one kind: {kind} (at most {most})");
        assert_eq!(refusal.to_string(), text);
    }
}

/// Maximum rates, and guaranteed ones without.
#[test]
fn qers_with_a_bit_rate_beyond_their_limit_are_refused_by_it() {
    let rate = || Some(Rates { uplink: BitRate::from_kbps(1), downlink: BitRate::from_kbps(1) });
    let rated = |count: usize| {
        let mut change = rules(RULES_PER_SESSION_MAX);
        for (at, qer) in change.create_qers.iter_mut().rev().take(count).enumerate() {
            let (mbr, gbr) = if at % 2 == 0 { (rate(), None) } else { (None, rate()) };
            *qer = Qer { mbr, gbr, ..qer.clone() };
        }
        change
    };
    assert_eq!(refused(rated(RATES_PER_SESSION_MAX)), None);
    let refusal = refused(rated(RATES_PER_SESSION_MAX + 1)).unwrap();
    assert_eq!(refusal, Refusal::TooManyRates);
    assert!(refusal.to_string().ends_with(&format!("(at most {RATES_PER_SESSION_MAX})")));
}

#[test]
fn urrs_of_credit_pools_beyond_their_limit_are_refused_by_it() {
    let pooled = |members: usize| {
        let mut change = rules(RULES_PER_SESSION_MAX);
        let members: Vec<u32> = (3..).take(members).collect();
        for (pool, of) in [1, 2].into_iter().zip(members.chunks(members.len().div_ceil(2))) {
            let of = of.iter().map(|&id| Aggregated { urr: UrrId(id), weight: 1_000_000 });
            let settings = UrrSettings { aggregated: Some(of.collect()), ..UrrSettings::default() };
            change.create_urrs[pool - 1] =
                volume_urr(u32::try_from(pool).unwrap(), UsageTriggers::empty(), settings);
        }
        change
    };
    assert_eq!(refused(pooled(POOL_MEMBERS_PER_SESSION_MAX)), None);
    let refusal = refused(pooled(POOL_MEMBERS_PER_SESSION_MAX + 1)).unwrap();
    assert_eq!(refusal, Refusal::TooManyPoolMembers { urr: UrrId(2) });
    assert!(refusal.to_string().ends_with(&format!("(at most {POOL_MEMBERS_PER_SESSION_MAX})")));
}
