//! The program together with a worker that divides volume limits, a control thread that puts and
//! removes entries, and a reader of the counts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use adit_rules::{Offload, OffloadCounts, OffloadRule, OffloadUsage};
use adit_types::Direction;
use adit_xdp::{XdpOffload, XdpProgram, XdpVerdict};

use super::{
    CONTAINER, GATEWAY_MAC, MACS, SERVER, SESSION, TEID, UE, downlink, ethernet, from_gnb, loaded,
    packet, put, uplink,
};

/// Octets of a packet, without its tunnel.
const PACKET: u64 = 50;
/// Octets that a session may use until the next division: more than it can, and a few packets.
const MORE: [u64; 2] = [1 << 30, 1000];
/// After so many divisions one is of a few packets.
const ROUND: u64 = 4096;

/// How long the threads run: `ADIT_XDP_S` seconds, or three.
fn lasts() -> Duration {
    let seconds = std::env::var("ADIT_XDP_S").ok().map(|text| text.parse().unwrap());
    Duration::from_secs(seconds.unwrap_or(3))
}

fn used(usage: &dyn OffloadUsage) -> u64 {
    let OffloadCounts { ul_bytes, dl_bytes, .. } = usage.counted(SESSION);
    ul_bytes + dl_bytes
}

/// Packets through both programs, with a reading after each. Returns the octets that were
/// forwarded.
fn forward(
    programs: &mut [XdpProgram],
    usage: &dyn OffloadUsage,
    goes_on: impl Fn() -> bool,
) -> u64 {
    let frames = [
        from_gnb(TEID, CONTAINER, &packet(UE, SERVER, 64)),
        ethernet(MACS[1], GATEWAY_MAC, &packet(SERVER, UE, 64)),
    ];
    let (mut forwarded, mut last) = (0, 0);
    while goes_on() {
        for (program, frame) in programs.iter_mut().zip(&frames) {
            if program.test_run(frame).unwrap().0 == XdpVerdict::Forwarded {
                forwarded += PACKET;
            }
            let now = used(usage);
            assert!(last <= now && now <= forwarded, "{now} of {forwarded} octets, {last} before");
            last = now;
        }
    }
    forwarded
}

/// Puts the entries of the session anew, one or both, limited. Returns how often.
fn change_entries(offload: &mut XdpOffload, goes_on: impl Fn() -> bool) -> u64 {
    let rules = [(Direction::Uplink, uplink()), (Direction::Downlink, downlink())];
    let mut changes = 0;
    while goes_on() {
        for (at, (direction, rule)) in (0_u64..).zip(&rules) {
            if changes % 3 != at {
                offload.remove(SESSION, *direction);
                let rule = OffloadRule { rule, is_limited: true, has_shared_rates: false };
                offload.put(SESSION, *direction, &rule).unwrap();
            }
        }
        changes += 1;
        // Packets of an entry that was put follow those of workers, for two milliseconds.
        thread::sleep(Duration::from_millis(5 + changes % 8));
    }
    changes
}

/// Divides the rest, and checks that no more was used than had been divided before. Returns how
/// often.
fn divide(usage: &dyn OffloadUsage) -> u64 {
    let (began, mut limit, mut divisions) = (Instant::now(), 0, 0_u64);
    while began.elapsed() < lasts() {
        usage.take_back(SESSION);
        let before = used(usage);
        assert!(before <= limit, "{before} of {limit} octets");
        let is_few = divisions % ROUND == 0;
        let more = MORE[usize::from(is_few)];
        // The cells of the worker have also used their shares.
        limit = before + more - 2 * usage.divide(SESSION, more, 2);
        divisions += 1;
        if is_few {
            // Long enough to use them.
            thread::sleep(Duration::from_micros(200));
        }
        (0..divisions % 64).for_each(|_| core::hint::spin_loop());
    }
    divisions
}

#[test]
fn program_forwards_no_more_than_what_a_worker_divides_and_all_of_it_is_counted() {
    let Some((mut offload, mut programs)) = loaded() else { return };
    put(&mut offload, true);
    let usage = offload.usage();
    let is_over = AtomicBool::new(false);
    let goes_on = || !is_over.load(Ordering::Relaxed);
    let (octets, divisions, changes) = thread::scope(|scope| {
        let forwarded = scope.spawn(|| forward(&mut programs, &*usage, goes_on));
        let changes = scope.spawn(|| change_entries(&mut offload, goes_on));
        let divisions = scope.spawn(|| divide(&*usage)).join();
        is_over.store(true, Ordering::Relaxed);
        (forwarded.join().unwrap(), divisions.unwrap(), changes.join().unwrap())
    });
    println!("{octets} octets forwarded, {divisions} divisions, {changes} changes of entries");
    assert!(octets > 1000 * PACKET && divisions > 10 * ROUND && changes > 20);
    let OffloadCounts { ul_pkts, ul_bytes, dl_pkts, dl_bytes, .. } = usage.counted(SESSION);
    assert_eq!((ul_bytes + dl_bytes, (ul_pkts + dl_pkts) * PACKET), (octets, octets));
    assert!(ul_pkts > 0 && dl_pkts > 0);
}
