//! Recognizing the usual packet and writing its outer headers, next to the walk and the emitter for
//! every packet.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

use core::hint::black_box;
use core::net::Ipv4Addr;

use adit_types::{Direction, MacAddr, Qfi, Teid, VlanId};
use adit_wire::gtpu::UDP_PORT;
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::{
    GPduPattern, IpPattern, OuterIpv4, PduSessionContainer, UsualLinkHeader, UsualOuter,
    UsualTunnel, emit_gtpu_ipv4, parse_frame, parse_gtpu, parse_ip, protocol, usual_g_pdu,
    usual_ip,
};
use criterion::{Criterion, criterion_group, criterion_main};
use zerocopy::IntoBytes;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const GNB: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const N3: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
/// Octets of the inner packet.
const INNER: u16 = 64;

fn inner() -> Vec<u8> {
    let fields = Ipv4Fields {
        tos: 0,
        total_len: INNER,
        identification: 1,
        dont_fragment: true,
        ttl: 64,
        protocol: protocol::UDP,
        src: Ipv4Addr::new(10, 45, 0, 7),
        dst: Ipv4Addr::new(198, 51, 100, 9),
    };
    let mut packet = Ipv4Header::new(&fields).as_bytes().to_vec();
    packet.resize(INNER.into(), 0);
    packet
}

fn outer() -> OuterIpv4 {
    OuterIpv4 {
        src_mac: GNB,
        dst_mac: MAC,
        vlan: VlanId::UNTAGGED,
        src: PEER,
        dst: N3,
        tos: 0,
        identification: 0,
        src_port: UDP_PORT,
        teid: Teid(7),
        psc: Qfi::new(9).map(PduSessionContainer::uplink),
        service_class: None,
        inner_len: INNER,
    }
}

fn usual(criterion: &mut Criterion) {
    let mut g_pdu = vec![0; outer().len()];
    emit_gtpu_ipv4(&mut g_pdu, &outer()).unwrap();
    g_pdu.extend(inner());
    let mut plain = [&MAC.0[..], &GNB.0, &[8, 0]].concat();
    plain.extend(inner());
    let (tunnels, link) =
        (GPduPattern::new(MAC, VlanId::UNTAGGED, N3), IpPattern::new(MAC, VlanId::UNTAGGED));
    assert!(
        usual_g_pdu::<0>(&g_pdu, &tunnels, true).is_some()
            && usual_ip::<0>(&plain, &link, true).is_some()
    );
    criterion.bench_function("wire/g_pdu/usual", |bench| {
        bench.iter(|| usual_g_pdu::<0>(black_box(&g_pdu), &tunnels, true));
    });
    criterion.bench_function("wire/g_pdu/walk", |bench| {
        bench.iter(|| walk(black_box(&g_pdu), true));
    });
    criterion.bench_function("wire/ip/usual", |bench| {
        bench.iter(|| usual_ip::<0>(black_box(&plain), &link, true));
    });
    criterion.bench_function("wire/ip/walk", |bench| bench.iter(|| walk(black_box(&plain), false)));
}

/// Reads the headers that the stages read: the frame, the tunnel, the inner packet. Returns its
/// length.
fn walk(bytes: &[u8], is_tunneled: bool) -> Option<u16> {
    let frame = parse_frame(bytes).ok()?;
    let packet = bytes.get(usize::from(frame.l3_offset)..)?;
    let ip = parse_ip(packet, true).ok()?;
    if !is_tunneled {
        return Some(ip.total_len);
    }
    let message = packet.get(usize::from(ip.payload_offset) + 8..)?;
    let gtpu = parse_gtpu(message).ok()?;
    let inner = message.get(usize::from(gtpu.payload_offset)..)?;
    Some(parse_ip(inner, true).ok()?.total_len)
}

fn emit(criterion: &mut Criterion) {
    let mut out = [0; 128];
    let template = UsualOuter::new(PEER);
    let tunnel = UsualTunnel {
        dst: N3,
        tos: 0,
        teid: Teid(7),
        marking: Qfi::new(9).map(|qfi| (qfi, false)),
    };
    let link = UsualLinkHeader::new(MAC, GNB, false);
    criterion.bench_function("wire/emit/usual", |bench| {
        bench.iter(|| {
            template
                .emit(black_box(&tunnel), &link, Direction::Downlink, INNER, black_box(&mut out))
                .is_some()
        });
    });
    let fields = outer();
    let len = fields.len();
    criterion.bench_function("wire/emit/all", |bench| {
        bench.iter(|| emit_gtpu_ipv4(black_box(&mut out[..len]), black_box(&fields)));
    });
}

criterion_group!(benches, usual, emit);
criterion_main!(benches);
