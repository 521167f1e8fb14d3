//! Tests that a trace shows a fault of the fast path.

use core::cell::Cell;

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, FastPathDifference, FastPathTrialResult, TapFilter, TapItem, TapKey};

use self::fixture::{N3, N6, PipelineFixture, downlink, rules, tap, uplink};
use crate::fast_path::trial_packet::TrialPacket;

#[allow(dead_code, unreachable_pub, reason = "the fixture of the tests from the outside")]
#[path = "../../../tests/pipeline/fixture.rs"]
mod fixture;

thread_local! {
    /// Position of the octet that the fast path writes wrong in every frame.
    static FAULT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Writes an octet wrong if a test requests it.
pub(super) fn plant_fault(copy: &mut TrialPacket<'_>) {
    let octet = FAULT.get().and_then(|at| copy.data_mut().get_mut(at));
    octet.into_iter().for_each(|octet| *octet ^= 1);
}

/// Returns the difference that a trace of one packet shows.
fn difference(port: adit_types::PortId, frame: &[u8]) -> Option<FastPathDifference> {
    let mut scene = PipelineFixture::usual(rules());
    scene.commands.push(tap(TapFilter { key: TapKey::Any, drop: None, one_of: 1 })).unwrap();
    scene.worker.step(scene.now, &mut scene.io);
    scene.io.inject(port, frame);
    scene.worker.step(scene.now, &mut scene.io);
    assert_eq!(scene.dropped(DropReason::FarDrop), 0);
    let records = scene.take_records();
    let answer = records.iter().flatten().find_map(|item| match item {
        TapItem::FastPath(FastPathTrialResult::Sends(frame)) => Some(frame.difference),
        _ => None,
    });
    answer.unwrap_or_else(|| unreachable!("{records:?}"))
}

#[test]
fn wrong_octet_of_the_fast_path_is_found() {
    let (up, down) = (uplink().build(), downlink().build());
    assert_eq!((difference(N3, &up), difference(N6, &down)), (None, None));
    // The octets are the TTL of the user's packet, and the QFI.
    for (port, frame, octet) in [(N3, up, 14 + 8), (N6, down, 14 + 20 + 8 + 14)] {
        FAULT.set(Some(octet));
        let found = difference(port, &frame);
        FAULT.set(None);
        let Some(FastPathDifference::Octet { at, fast_path, stages }) = found else {
            unreachable!("{found:?}")
        };
        assert_eq!((at as usize, fast_path), (octet, stages ^ 1));
    }
}
