//! Random sequences of changes against a naive model: maps of rules, every check a scan.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use adit_rules::{
    ApplyAction, DestinationInterface, KeyChange, RuleDelta, SessionKey, SourceInterface,
};
use adit_session::{
    Change, CreatedPdr, FTeidSpec, Far, FarUpdate, ForwardingUpdate, PdrSpec, PdrUpdate, Qer,
    QerUpdate, ReservedCounts, SessionChange, SessionStore, UeSide,
};
use adit_types::{FarId, Nanos, PdrId, Precedence, QerId, Qfi, Seid, SessionIndex, Teid};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::builders::*;

/// A session as the model sees it. The F-TEID in a PDR is the request; `teids` has the result.
#[derive(Debug, Clone, Default, PartialEq)]
struct ModelSession {
    pdrs: BTreeMap<PdrId, PdrSpec>,
    fars: BTreeMap<FarId, Far>,
    qers: BTreeMap<QerId, Qer>,
    teids: BTreeMap<PdrId, Teid>,
}

impl ModelSession {
    fn ues(&self) -> BTreeSet<std::net::Ipv4Addr> {
        self.pdrs.values().filter_map(|pdr| pdr.pdi.ue?.addresses.v4).collect()
    }

    /// Applies `change`; `None` when it names rules wrongly. Returns PDRs whose F-TEID is new.
    fn apply(&mut self, change: &SessionChange) -> Option<BTreeSet<PdrId>> {
        let mut touched = BTreeSet::new();
        change.remove_pdrs.iter().try_for_each(|id| self.pdrs.remove(id).map(drop))?;
        change.remove_fars.iter().try_for_each(|id| self.fars.remove(id).map(drop))?;
        change.remove_qers.iter().try_for_each(|id| self.qers.remove(id).map(drop))?;
        self.teids.retain(|id, _| self.pdrs.contains_key(id));
        for pdr in &change.create_pdrs {
            if self.pdrs.insert(pdr.id, pdr.clone()).is_some() {
                return None;
            }
            touched.insert(pdr.id);
        }
        for far in &change.create_fars {
            self.fars.insert(far.id, far.clone()).is_none().then_some(())?;
        }
        for qer in &change.create_qers {
            self.qers.insert(qer.id, qer.clone()).is_none().then_some(())?;
        }
        self.apply_updates(change, &mut touched)?;
        Some(touched)
    }

    fn apply_updates(
        &mut self,
        change: &SessionChange,
        touched: &mut BTreeSet<PdrId>,
    ) -> Option<()> {
        let mut seen = BTreeSet::new();
        for update in &change.update_pdrs {
            let pdr = self.pdrs.get_mut(&update.id)?;
            seen.insert(update.id).then_some(())?;
            pdr.precedence = update.precedence.set().unwrap_or(pdr.precedence);
            pdr.far = update.far.set().or(pdr.far);
            if let Some(pdi) = &update.pdi {
                let before = pdr.pdi.clone();
                pdr.pdi = pdi.clone();
                let has_no_more = pdi.f_teid.is_none() && pdi.source == before.source;
                let lost_tunnel = pdi.source == SourceInterface::Access && before.f_teid.is_some();
                if has_no_more && (pdi.ue.is_none() || lost_tunnel) {
                    pdr.pdi.f_teid = before.f_teid;
                    pdr.pdi.ue = pdi.ue.or(before.ue);
                } else {
                    touched.insert(update.id);
                }
            }
        }
        let mut seen = BTreeSet::new();
        for update in &change.update_fars {
            let far = self.fars.get_mut(&update.id)?;
            seen.insert(update.id).then_some(())?;
            far.action = update.action.set().unwrap_or(far.action);
            if let Some(parts) = &update.forwarding {
                let forwarding = far.forwarding.as_mut()?;
                forwarding.outer_header_creation =
                    parts.outer_header_creation.set().or(forwarding.outer_header_creation);
            }
        }
        let mut seen = BTreeSet::new();
        for update in &change.update_qers {
            let qer = self.qers.get_mut(&update.id)?;
            seen.insert(update.id).then_some(())?;
            qer.qfi = update.qfi.set().or(qer.qfi);
        }
        Some(())
    }

    /// PDRs that share a tunnel, by TEID or by the CHOOSE ID of a TEID still to be chosen, have one
    /// source interface.
    fn sides_agree(&self) -> bool {
        let tunnel = |pdr: &PdrSpec| match (self.teids.get(&pdr.id), pdr.pdi.f_teid) {
            (Some(teid), _) => Some((Some(*teid), None)),
            (None, Some(FTeidSpec::Choose { choose_id: Some(id), .. })) => Some((None, Some(id))),
            _ => None,
        };
        self.pdrs.values().all(|a| {
            self.pdrs.values().all(|b| {
                tunnel(a).is_none() || tunnel(a) != tunnel(b) || a.pdi.source == b.pdi.source
            })
        })
    }

    fn is_consistent(&self) -> bool {
        let far_fits = |far: &Far| far.forwarding.is_some() || far.action == ApplyAction::DROP;
        self.fars.values().all(far_fits)
            && self.pdrs.values().all(|pdr| {
                pdr.far.is_some_and(|far| self.fars.contains_key(&far))
                    && pdr.qers.iter().all(|qer| self.qers.contains_key(qer))
            })
    }
}

#[derive(Debug, Default)]
struct StoreModel {
    sessions: BTreeMap<Seid, ModelSession>,
    /// TEIDs that were chosen and are not given by a PDR of the control plane.
    chosen: BTreeSet<Teid>,
    /// Per delta in order: the session, and the chosen TEIDs that it took away.
    owed: VecDeque<(SessionIndex, Vec<Teid>)>,
    /// The contents of the workers' table.
    table: HashMap<SessionKey, SessionIndex>,
}

impl StoreModel {
    /// The session after `change`, or `None` if it must be refused.
    fn expect(&self, up_seid: Option<Seid>, change: &SessionChange) -> Option<ModelSession> {
        let mut session = up_seid.map(|seid| self.sessions[&seid].clone()).unwrap_or_default();
        for id in session.apply(change)? {
            session.teids.remove(&id);
            if let Some(FTeidSpec::Given { teid, .. }) = session.pdrs[&id].pdi.f_teid {
                session.teids.insert(id, teid);
            }
        }
        let retired = || self.owed.iter().flat_map(|(_, teids)| teids.iter().copied());
        let others = || self.sessions.iter().filter(|(seid, _)| Some(**seid) != up_seid);
        let foreign: BTreeSet<Teid> = others()
            .flat_map(|(_, other)| other.teids.values().copied())
            .chain(retired())
            .collect();
        let foreign_ues: BTreeSet<_> = others().flat_map(|(_, other)| other.ues()).collect();
        let is_free = session.teids.values().all(|teid| !foreign.contains(teid))
            && session.ues().is_disjoint(&foreign_ues);
        (is_free && session.is_consistent() && session.sides_agree()).then_some(session)
    }

    fn accept(
        &mut self,
        up_seid: Seid,
        mut session: ModelSession,
        created: &[CreatedPdr],
    ) -> Vec<Teid> {
        for created in created {
            session.teids.insert(created.pdr, created.f_teid.teid);
        }
        let after: BTreeSet<Teid> = session.teids.values().copied().collect();
        let before = self.sessions.insert(up_seid, session).unwrap_or_default();
        self.chosen.extend(created.iter().map(|created| created.f_teid.teid));
        self.gone(before, &after)
    }

    /// Chosen TEIDs that `before` had and that are not in `after`.
    fn gone(&mut self, before: ModelSession, after: &BTreeSet<Teid>) -> Vec<Teid> {
        let before: BTreeSet<Teid> = before.teids.into_values().collect();
        before.difference(after).copied().filter(|teid| self.chosen.remove(teid)).collect()
    }

    fn publish(&mut self, delta: &RuleDelta, retired: Vec<Teid>) {
        for change in &delta.keys {
            match *change {
                KeyChange::Add(key) => {
                    assert_eq!(self.table.insert(key, delta.session), None, "{key:?} in use");
                }
                KeyChange::Remove(key) => {
                    assert_eq!(self.table.remove(&key), Some(delta.session), "{key:?} not there");
                }
            }
        }
        self.owed.push_back((delta.session, retired));
    }

    fn assert_same(&self, store: &SessionStore) {
        assert_eq!(store.len(), self.sessions.len());
        assert_eq!(store.sessions().count(), self.sessions.len());
        for (&up_seid, model) in &self.sessions {
            let session = store.session(up_seid).unwrap();
            assert_eq!(session.pdrs().len(), model.pdrs.len());
            for record in session.pdrs() {
                let spec = &model.pdrs[&record.id];
                assert_eq!(record.precedence, spec.precedence);
                assert_eq!((record.far, record.pdi.ue), (spec.far, spec.pdi.ue));
                assert_eq!(record.pdi.f_teid.map(|f| f.teid), model.teids.get(&record.id).copied());
            }
            let fars: BTreeMap<_, _> = session.fars().iter().map(|r| (r.id, r.clone())).collect();
            let qers: BTreeMap<_, _> = session.qers().iter().map(|r| (r.id, r.clone())).collect();
            assert_eq!((&fars, &qers), (&model.fars, &model.qers));
            for teid in model.teids.values() {
                assert_eq!(self.table.get(&SessionKey::Teid(*teid)), Some(&session.index()));
            }
        }
        let live = self.sessions.values().flat_map(|s| s.teids.values().copied());
        let held = self.owed.iter().flat_map(|(_, teids)| teids.iter().copied());
        let reserved: BTreeSet<Teid> = live.chain(held).collect();
        assert_eq!(store.reserved().teids, reserved.len());
    }
}

#[derive(Debug, Clone)]
enum ModelStep {
    Establish(SessionChange),
    Modify(Index, SessionChange),
    Delete(Index),
    Reclaim,
    /// Another process restores the kept sessions.
    Restart,
}

fn run(steps: Vec<ModelStep>) {
    let mut store = store(6);
    let mut model = StoreModel::default();
    for step in steps {
        let pick =
            |index: Index| model.sessions.keys().nth(index.index(model.sessions.len().max(1)));
        match step {
            ModelStep::Establish(change) => establish(&mut store, &mut model, change),
            ModelStep::Modify(index, change) => {
                if let Some(&up_seid) = pick(index) {
                    modify(&mut store, &mut model, up_seid, change);
                }
            }
            ModelStep::Delete(index) => {
                if let Some(&up_seid) = pick(index) {
                    delete(&mut store, &mut model, up_seid);
                }
            }
            ModelStep::Reclaim => reclaim(&mut store, &mut model),
            ModelStep::Restart => restart(&mut store, &mut model),
        }
        model.assert_same(&store);
    }
    for up_seid in model.sessions.keys().copied().collect::<Vec<_>>() {
        delete(&mut store, &mut model, up_seid);
    }
    while !model.owed.is_empty() {
        reclaim(&mut store, &mut model);
    }
    assert!(model.table.is_empty(), "keys left behind: {:?}", model.table);
    assert_eq!(store.reserved(), ReservedCounts::default());
}

fn establish(store: &mut SessionStore, model: &mut StoreModel, change: SessionChange) {
    let before = store.clone();
    let expected = model.expect(None, &change).filter(|_| store.reserved().sessions < 6);
    match store.establish(OWNER, CP, change) {
        Ok(done) => {
            let session = expected.expect("the model refuses");
            let retired = model.accept(done.up_seid, session, &done.created);
            model.publish(&done.delta, retired);
        }
        Err(refusal) => {
            assert!(expected.is_none() || exhausted(refusal), "the model accepts: {refusal}");
            assert_eq!(*store, before);
        }
    }
}

fn modify(store: &mut SessionStore, model: &mut StoreModel, up_seid: Seid, change: SessionChange) {
    let before = store.clone();
    let expected = model.expect(Some(up_seid), &change);
    match store.modify(up_seid, change) {
        Ok(done) => {
            let session = expected.expect("the model refuses");
            let retired = model.accept(up_seid, session, &done.created);
            match &done.delta {
                Some(delta) => model.publish(delta, retired),
                None => assert!(retired.is_empty()),
            }
        }
        Err(refusal) => {
            assert!(expected.is_none() || exhausted(refusal), "the model accepts: {refusal}");
            assert_eq!(*store, before);
        }
    }
}

/// Refusals by limits that the model lacks: TEIDs to choose, and keys of all sessions together.
fn exhausted(refusal: adit_session::Refusal) -> bool {
    use adit_session::Refusal;
    matches!(refusal, Refusal::TeidsExhausted | Refusal::UeTableFull | Refusal::GivenTeidsFull)
}

fn delete(store: &mut SessionStore, model: &mut StoreModel, up_seid: Seid) {
    let delta = store.delete(up_seid).unwrap();
    let before = model.sessions.remove(&up_seid).unwrap();
    let retired = model.gone(before, &BTreeSet::new());
    model.publish(&delta, retired);
}

fn reclaim(store: &mut SessionStore, model: &mut StoreModel) {
    if let Some((session, _)) = model.owed.pop_front() {
        store.reclaim(session);
    }
}

fn restart(store: &mut SessionStore, model: &mut StoreModel) {
    let kept = kept(store, Nanos(0));
    *store = next_store(store);
    model.owed.clear();
    model.table.clear();
    for mut kept in kept {
        let up_seid = kept.up_seid();
        let restored = store.restore(Nanos(0), &mut kept).unwrap();
        assert_eq!(restored.up_seid, up_seid);
        model.publish(&restored.delta, Vec::new());
    }
    // Nothing is owed for restored sessions.
    model.owed.clear();
}

fn f_teid() -> impl Strategy<Value = Option<FTeidSpec>> {
    prop_oneof![
        Just(None),
        Just(Some(CHOOSE)),
        Just(Some(FTeidSpec::Choose { v4: true, v6: false, choose_id: Some(1) })),
        (1..8u32).prop_map(|teid| Some(given(teid))),
    ]
}

fn pdi_spec() -> impl Strategy<Value = adit_session::PdiSpec> {
    (any::<bool>(), f_teid(), prop::option::of(1..8u8)).prop_map(|(is_uplink, f_teid, last)| {
        let source = if is_uplink { SourceInterface::Access } else { SourceInterface::Core };
        let ue = last.map(|last| ue_match(last, UeSide::Source));
        adit_session::PdiSpec { f_teid, ue, ..pdi(source) }
    })
}

fn pdr_spec() -> impl Strategy<Value = PdrSpec> {
    let qers = prop::collection::vec((1..3u32).prop_map(QerId), 0..2);
    (1..6u16, 0..4u32, pdi_spec(), 1..4u32, qers).prop_map(|(id, precedence, pdi, far, qers)| {
        PdrSpec {
            id: PdrId(id),
            precedence: Precedence(precedence),
            pdi,
            outer_header_removal: None,
            container_deletion: false,
            far: Some(FarId(far)),
            qers,
            urrs: Vec::new(),
            times: adit_session::PdrTimes::default(),
            predefined: Vec::new(),
        }
    })
}

fn far_spec() -> impl Strategy<Value = Far> {
    (1..4u32, 0..4u8).prop_map(|(id, kind)| match kind {
        0 => Far {
            action: ApplyAction::DROP,
            forwarding: None,
            ..far(id, DestinationInterface::Core)
        },
        1 => far(id, DestinationInterface::Access),
        _ => far(id, DestinationInterface::Core),
    })
}

fn creations() -> impl Strategy<Value = SessionChange> {
    let pdrs = prop::collection::vec(pdr_spec(), 0..4);
    let fars = prop::collection::vec(far_spec(), 0..3);
    let qers = prop::collection::vec((1..3u32).prop_map(qer), 0..2);
    (pdrs, fars, qers).prop_map(|(create_pdrs, create_fars, create_qers)| SessionChange {
        create_pdrs,
        create_fars,
        create_qers,
        ..SessionChange::default()
    })
}

/// A session whose rules fit each other, so that most establishments succeed.
fn whole_session() -> impl Strategy<Value = SessionChange> {
    (prop::collection::vec(pdr_spec(), 1..4)).prop_map(|mut create_pdrs| {
        create_pdrs.sort_by_key(|pdr| pdr.id);
        create_pdrs.dedup_by_key(|pdr| pdr.id);
        SessionChange {
            create_pdrs,
            create_fars: (1..4).map(|id| far(id, DestinationInterface::Core)).collect(),
            create_qers: (1..3).map(qer).collect(),
            ..SessionChange::default()
        }
    })
}

fn pdr_update() -> impl Strategy<Value = PdrUpdate> {
    let far = prop::option::of((1..4u32).prop_map(FarId));
    (1..6u16, prop::option::of(0..4u32), prop::option::of(pdi_spec()), far).prop_map(
        |(id, precedence, pdi, far)| PdrUpdate {
            id: PdrId(id),
            precedence: precedence.map(Precedence).into(),
            pdi,
            far: far.into(),
            ..PdrUpdate::default()
        },
    )
}

fn far_update() -> impl Strategy<Value = FarUpdate> {
    let action = prop::option::of(prop::sample::select(vec![ApplyAction::DROP, ApplyAction::FORW]));
    (1..4u32, action, any::<bool>()).prop_map(|(id, action, has_tunnel)| FarUpdate {
        id: FarId(id),
        action: action.into(),
        forwarding: has_tunnel.then(|| ForwardingUpdate {
            outer_header_creation: Change::Set(tunnel(3)),
            ..ForwardingUpdate::default()
        }),
        ..FarUpdate::default()
    })
}

fn modification() -> impl Strategy<Value = SessionChange> {
    let qer_update = (1..3u32, 0..4u8).prop_map(|(id, qfi)| QerUpdate {
        id: QerId(id),
        qfi: Qfi::new(qfi).into(),
        ..QerUpdate::default()
    });
    (
        prop_oneof![3 => Just(SessionChange::default()), 1 => creations()],
        prop::collection::vec(pdr_update(), 0..2),
        prop::collection::vec(far_update(), 0..2),
        prop::collection::vec(qer_update, 0..2),
        prop::collection::vec((1..6u16).prop_map(PdrId), 0..2),
    )
        .prop_map(|(created, update_pdrs, update_fars, update_qers, remove_pdrs)| {
            SessionChange { update_pdrs, update_fars, update_qers, remove_pdrs, ..created }
        })
}

fn step() -> impl Strategy<Value = ModelStep> {
    prop_oneof![
        3 => whole_session().prop_map(ModelStep::Establish),
        1 => creations().prop_map(ModelStep::Establish),
        6 => (any::<Index>(), modification()).prop_map(|(index, change)| ModelStep::Modify(index, change)),
        2 => any::<Index>().prop_map(ModelStep::Delete),
        3 => Just(ModelStep::Reclaim),
        1 => Just(ModelStep::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn store_under_random_changes_equals_the_model(steps in prop::collection::vec(step(), 1..40)) {
        run(steps);
    }
}
