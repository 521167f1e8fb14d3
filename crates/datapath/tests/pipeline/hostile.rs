//! Anything may arrive.

use adit_testkit::packet::PacketBuilder;
use adit_types::Nanos;
use adit_wire::arp::ArpPacket;
use adit_wire::gtpu::GtpuMessageType;
use proptest::prelude::*;

use crate::fixture::*;

fn arp_request() -> Vec<u8> {
    let mut payload = [0; 28];
    ArpPacket::request(GNB_MAC, v4(GNB), v4(N3_ADDR)).emit(&mut payload).unwrap();
    PacketBuilder::ethernet(N3_MAC, GNB_MAC).ether_type(0x0806).payload(&payload).build()
}

/// Frames that get somewhere: a valid one with octets changed, cut or added.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let bases = prop::sample::select(vec![
        uplink().build(),
        downlink().build(),
        tunneled().ipv6(UE_V6, SERVER_V6).extension(0, &[0; 6]).udp(1, 2).build(),
        from_gateway().ipv6(SERVER_V6, UE_V6).tcp(1, 2, 2).build(),
        from_gateway().ipv4(SERVER, UE).options(&[1; 8]).icmp_echo(1, 1).build(),
        uplink().trailer(&[0; 20]).build(),
        arp_request(),
        from_gateway().ipv6("2001:db8:6::254", N6_V6).icmp_echo(1, 1).build(),
        PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).icmp_echo(1, 1).build(),
        PacketBuilder::ethernet(N3_MAC, GNB_MAC)
            .ipv4(GNB, N3_ADDR)
            .gtpu_message(GtpuMessageType::ECHO_REQUEST, 0)
            .sequence(1)
            .build(),
        PacketBuilder::ethernet(N6_MAC, GATEWAY_MAC)
            .ipv6("fe80::1", N6_V6)
            .ttl(255)
            .protocol(58)
            .payload(&[136; 32])
            .build(),
    ]);
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (bases, changes, any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |(mut frame, changes, cut, is_cut)| {
            for (at, octet) in changes {
                let at = at.index(frame.len());
                frame[at] = octet;
            }
            if is_cut {
                frame.truncate(cut.index(frame.len()));
            }
            frame
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_frames_have_one_outcome(
        frames in prop::collection::vec(
            (0u16..3, prop_oneof![mutated(), prop::collection::vec(any::<u8>(), 0..200)]),
            1..40,
        ),
        is_resolved in any::<bool>(),
    ) {
        let mut scene = if is_resolved { PipelineFixture::new() } else { PipelineFixture::unresolved(rules()) };
        for (port, frame) in &frames {
            scene.io.inject(adit_types::PortId(*port), frame);
        }
        for second in 0..5 {
            scene.now = Nanos::from_secs(1000 + second);
            scene.step();
        }
        let counts = scene.counts();
        prop_assert_eq!(counts.received_pkts, frames.len() as u64);
        prop_assert_eq!(counts.buffered_pkts, 0);
    }
}
