use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::publish::slots;
use adit_types::NextHopIndex;

fn hop(number: u8, weight: u16) -> RouteHop {
    let gateway = Some(IpAddr::from([192, 0, 2, number]));
    RouteHop { interface: InterfaceId(number % 3), gateway, weight }
}

fn value(hop: &RouteHop) -> RouteValue {
    let Some(IpAddr::V4(addr)) = hop.gateway else { panic!("{hop:?}") };
    RouteValue::Gateway(hop.interface, NextHopIndex(addr.to_bits() & 0xff))
}

/// A group of `hops`, new or known.
fn group(writer: &mut HopGroupWriter, hops: &[RouteHop], former: FormerHops) -> u16 {
    let found = writer.find(hops, former);
    let group = found.or_else(|| writer.add(hops, hops.iter().map(value).collect(), former));
    writer.hold(group.unwrap());
    group.unwrap()
}

/// The next hop of each slot, as workers find it.
fn selected(writer: &HopGroupWriter, group: u16) -> Vec<RouteValue> {
    let select = |slot: u32| writer.groups().select(group, slot << 24 | 77, InterfaceSet::ALL);
    (0..256).map(|slot| select(slot).unwrap()).collect()
}

/// The largest difference between the slots of a next hop and its share. Unit: slots.
fn error(hops: &[RouteHop], selected: &[RouteValue]) -> f64 {
    let total: f64 = hops.iter().map(|hop| f64::from(hop.weight)).sum();
    let of = |hop: &RouteHop| {
        let slots = selected.iter().filter(|selected| **selected == value(hop)).count();
        (slots as f64 - f64::from(hop.weight) / total * 256.0).abs()
    };
    hops.iter().map(of).fold(0.0, f64::max)
}

proptest! {
    #[cfg_attr(miri, ignore = "hundreds of random groups take minutes there")]
    #[test]
    fn weights_hold_within_a_slot_and_a_hop_that_leaves_moves_its_own_slots_only(
        weights in vec(1_u16..300, 2..=64),
        leaving in any::<prop::sample::Index>(),
    ) {
        let mut writer = HopGroupWriter::new();
        let hops: Vec<_> = (0..).zip(&weights).map(|(at, weight)| hop(at, *weight)).collect();
        let all = group(&mut writer, &hops, FormerHops::None);
        let before = selected(&writer, all);
        prop_assert!(error(&hops, &before) < 1.0, "{}", error(&hops, &before));

        let mut left = hops.clone();
        let gone = left.remove(leaving.index(hops.len()));
        let fewer = group(&mut writer, &left, FormerHops::Group(all));
        let after = selected(&writer, fewer);
        for (before, after) in before.iter().zip(&after) {
            prop_assert!(before == after || *before == value(&gone), "{before:?} to {after:?}");
            prop_assert_ne!(*after, value(&gone));
        }
        // Kept slots may hold one more than the share of the smaller set.
        prop_assert!(error(&left, &after) < 2.0, "{}", error(&left, &after));

        // The next hop comes back, and takes no more than its share.
        let again = group(&mut writer, &hops, FormerHops::Group(fewer));
        let moved = selected(&writer, again);
        prop_assert!(error(&hops, &moved) < 2.0, "{}", error(&hops, &moved));
        for (after, moved) in after.iter().zip(&moved) {
            let is_surplus = left.len() > 1 && after != moved;
            prop_assert!(after == moved || *moved == value(&gone) || is_surplus);
        }
    }
}

#[cfg_attr(miri, ignore = "arithmetic of many slots takes a minute there")]
#[test]
fn a_hop_out_of_use_moves_its_own_slots_only_and_gets_its_share_back() {
    let mut writer = HopGroupWriter::new();
    let hops = [hop(1, 1), hop(2, 1), hop(3, 2)];
    let number = group(&mut writer, &hops, FormerHops::None);
    let before = selected(&writer, number);
    assert!(writer.set_usable(hops[1].interface, hops[1].gateway, false));
    assert!(!writer.set_usable(hops[1].interface, hops[1].gateway, false), "no news");
    let after = selected(&writer, number);
    for (before, after) in before.iter().zip(&after) {
        assert!(before == after || *before == value(&hops[1]));
        assert_ne!(*after, value(&hops[1]));
    }
    // The daemon withdraws it later: nothing moves any more.
    let left = [hops[0], hops[2]];
    let fewer = group(&mut writer, &left, FormerHops::Group(number));
    assert_eq!(selected(&writer, fewer), after);
    assert!(writer.set_usable(hops[1].interface, hops[1].gateway, true));
    assert!(error(&hops, &selected(&writer, number)) < 1.0);
    // With none in use all are as good as any.
    for hop in &hops {
        writer.set_usable(hop.interface, hop.gateway, false);
    }
    assert!(error(&hops, &selected(&writer, number)) < 1.0);
}

#[test]
fn routes_with_the_same_hops_share_a_group_also_after_both_lost_one() {
    let mut writer = HopGroupWriter::new();
    let hops: Vec<_> = (0..8).map(|at| hop(at, 1)).collect();
    let first = group(&mut writer, &hops, FormerHops::None);
    assert_eq!(group(&mut writer, &hops, FormerHops::None), first);
    // Another route has the smaller set already, with other slots.
    let other = group(&mut writer, &hops[1..], FormerHops::None);
    let moved = group(&mut writer, &hops[1..], FormerHops::Group(first));
    assert_eq!(group(&mut writer, &hops[1..], FormerHops::Group(first)), moved);
    assert_ne!(moved, other, "its flows would move");
    assert_eq!(group(&mut writer, &hops[1..], FormerHops::Group(other)), other);
    // From one next hop to two: half of the flows stay.
    let one = FormerHops::One(hops[0].interface, hops[0].gateway);
    let two = group(&mut writer, &hops[..2], one);
    assert!(error(&hops[..2], &selected(&writer, two)) < 1.0);
}

#[test]
fn flows_take_a_hop_on_the_interfaces_that_they_may_leave_through() {
    let mut writer = HopGroupWriter::new();
    let hops: Vec<_> = (0..6).map(|at| hop(at, 1)).collect();
    let number = group(&mut writer, &hops, FormerHops::None);
    let within = InterfaceSet::only(InterfaceId(1));
    let groups = writer.groups();
    let select = |slot: u32| groups.select(number, slot << 24, within).unwrap();
    let values: Vec<_> = (0..256).map(select).collect();
    for at in [1, 4] {
        let flows = values.iter().filter(|found| **found == value(&hops[at])).count();
        assert!((64..=192).contains(&flows), "{flows} of 256");
    }
    assert!(values.iter().all(|found| found.interface() == Some(InterfaceId(1))));
    assert!(groups.is_within(number, within));
    let none = InterfaceSet::only(InterfaceId(9));
    assert!(groups.select(number, 0, none).is_none() && !groups.is_within(number, none));
}

#[test]
fn number_of_a_group_is_reused_once_readers_have_passed() {
    let (mut epochs, mut readers) = slots::<()>(1, 1);
    readers[0].observe();
    let mut writer = HopGroupWriter::new();
    let first = group(&mut writer, &[hop(1, 1), hop(2, 1)], FormerHops::None);
    let values = writer.release(first, epochs.next_epoch());
    assert_eq!(values.len(), 2);
    writer.reclaim(epochs.passed());
    let second = group(&mut writer, &[hop(1, 1), hop(3, 1)], FormerHops::None);
    assert_ne!(second, first, "the reader may still select from it");
    epochs.advance();
    readers[0].observe();
    writer.reclaim(epochs.passed());
    assert_eq!(group(&mut writer, &[hop(4, 1), hop(3, 1)], FormerHops::None), first);
}
