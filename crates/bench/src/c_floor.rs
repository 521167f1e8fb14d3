//! The C floor: the cost of forwarding the usual packet in plain C without the features of a UPF
//! (`c_floor.c`): a lower bound for any UPF.
//!
//! It has one cache line per session and direction, and sends the same octets as Adit. Its buffers
//! have the size and layout of the bench's buffers.
#![allow(unsafe_code, reason = "calls C, see above")]

use adit_pktio::RxChecksum;
use adit_pktio::mem::{BUF_BYTES, HEADROOM_BYTES};
use adit_types::limits::BURST_MAX;
use adit_wire::ipv4::Ipv4Header;
use anyhow::{Context, ensure};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rustix::mm::{Advice, madvise};
use zerocopy::FromBytes;

use super::measure::{WorkerBenchConfig, timed};
use super::network::{self, BenchIpVersion, BenchSession};
use super::packet::{BenchPacket, TUNNEL_HEADERS_LEN as HEADERS_LEN};
use super::sessions::BenchProfile;

/// Length of an Ethernet header. Unit: octets.
const LINK_LEN: usize = 14;
/// Offset of the QFI in the headers of a G-PDU.
const QFI_AT: usize = HEADERS_LEN - 2;
/// Length of an ordinary page. Unit: octets.
const PAGE_LEN: usize = 4096;
const MTU: u32 = 1500;
/// Index entry without a session: no packet fits line 0, and sessions have lines from 1 on.
const NO_LINE: u32 = 0;

/// `struct packet` of `c_floor.c`.
#[repr(C)]
struct CPacket {
    start: usize,
    end: usize,
    is_verified: bool,
    room: [u8; BUF_BYTES],
}

/// `struct line` of `c_floor.c`.
#[derive(Clone)]
#[repr(C, align(64))]
struct CLine {
    pkts: u64,
    octets: u64,
    teid: [u8; 4],
    ue: [u8; 4],
    hop: u32,
    qfi: u8,
}

/// `struct hop` of `c_floor.c`.
#[derive(Clone)]
#[repr(C)]
struct CHop {
    headers: [u8; HEADERS_LEN],
    unused: u16,
    sum: u32,
}

const _: () = assert!(size_of::<CLine>() == 64 && size_of::<CHop>() == 64);

/// `struct floor` of `c_floor.c`.
#[repr(C)]
struct CDirection {
    example: [u64; 8],
    index: *const u32,
    first: u32,
    index_mask: u32,
    lines: *mut CLine,
    hops: *const CHop,
    mtu: u32,
}

// SAFETY: the signatures are those of the definitions in `c_floor.c`.
unsafe extern "C" {
    fn adit_floor_uplink(
        floor: *const CDirection,
        rx: *const *mut CPacket,
        count: usize,
        tx: *mut *mut CPacket,
    ) -> usize;
    fn adit_floor_downlink(
        floor: *const CDirection,
        rx: *const *mut CPacket,
        count: usize,
        tx: *mut *mut CPacket,
    ) -> usize;
}

/// The state of one direction, and the packets of one burst.
pub(crate) struct CFloor {
    packet: BenchPacket,
    is_verified: bool,
    random: SmallRng,
    example: [u64; 8],
    first: u32,
    index: Vec<u32>,
    lines: Vec<CLine>,
    hops: Vec<CHop>,
    packets: Vec<CPacket>,
}

impl CFloor {
    /// True if the C floor can forward packets of this profile. It ignores rates and filters.
    pub(crate) fn covers(profile: &BenchProfile) -> bool {
        profile.family() == BenchIpVersion::V4
            && !(profile.given_keys || profile.n9 || profile.n3_v6 || profile.is_tagged)
            && profile.qfi
    }

    /// Builds the tables of the floor for the packets of `plan`.
    ///
    /// # Errors
    /// There is no session, two sessions share an index entry, or a packet cannot be written.
    pub(crate) fn new(sessions: &[BenchSession], plan: &WorkerBenchConfig) -> anyhow::Result<Self> {
        let is_uplink = plan.packet.is_uplink();
        let len = sessions.len().next_power_of_two();
        let last = u32::try_from(len - 1)?;
        let key = |session: &BenchSession| match is_uplink {
            true => session.teid.0,
            false => session.ue.to_bits(),
        };
        let first = if is_uplink { 0 } else { key(sessions.first().context("a session")?) };
        let (mut index, mut lines) = (with_large_pages(len), with_large_pages(sessions.len() + 1));
        index.resize(len, NO_LINE);
        lines.push(EMPTY_LINE);
        for (number, session) in (1..).zip(sessions) {
            let entry = key(session).wrapping_sub(first) & last;
            let entry = index.get_mut(usize::try_from(entry)?).context("an entry")?;
            ensure!(
                *entry == NO_LINE,
                "two sessions have one position in the index of the C floor"
            );
            *entry = number;
            let teid = if is_uplink { session.teid.0 } else { number };
            lines.push(CLine {
                teid: teid.to_be_bytes(),
                ue: session.ue.octets(),
                hop: if is_uplink { 0 } else { session.gnb.into() },
                qfi: network::QFI,
                ..EMPTY_LINE
            });
        }
        let hops = match is_uplink {
            true => vec![network_hop()],
            false => (0..=sessions.iter().map(|session| session.gnb).max().unwrap_or(0))
                .map(gnb_hop)
                .collect::<anyhow::Result<_>>()?,
        };
        let mut random = SmallRng::seed_from_u64(1);
        let mut frame = [0; 256];
        plan.packet.write(&mut frame, sessions[0], &mut random)?;
        let (words, _) = frame.as_chunks::<8>();
        let words = words.first_chunk::<8>().context("64 octets")?;
        let empty = || CPacket { start: 0, end: 0, is_verified: true, room: [0; BUF_BYTES] };
        Ok(Self {
            packet: plan.packet,
            is_verified: plan.checksum == RxChecksum::Good,
            random: SmallRng::seed_from_u64(1),
            example: words.map(u64::from_ne_bytes),
            first,
            index,
            lines,
            hops,
            packets: (0..BURST_MAX).map(|_| empty()).collect(),
        })
    }

    /// Writes a burst of random sessions and forwards it. Returns the cycles of forwarding.
    ///
    /// # Errors
    /// A packet was not forwarded.
    pub(crate) fn run(&mut self, sessions: &[BenchSession], burst: usize) -> anyhow::Result<u64> {
        let mut frame = [0; 256];
        for buf in 0..burst {
            let session = network::random_session(sessions, &mut self.random)?;
            let len = self.packet.write(&mut frame, session, &mut self.random)?;
            self.write(buf, &frame[..len])?;
        }
        let mut sent = [std::ptr::null_mut(); BURST_MAX];
        let (cycles, count) = self.forward(burst, &mut sent);
        ensure!(count == burst, "the C floor forwarded {count} of {burst} packets");
        Ok(cycles)
    }

    fn write(&mut self, number: usize, frame: &[u8]) -> anyhow::Result<()> {
        let packet = self.packets.get_mut(number).context("a buffer")?;
        (packet.start, packet.end) = (HEADROOM_BYTES, HEADROOM_BYTES + frame.len());
        packet.is_verified = self.is_verified;
        let room = packet.room.get_mut(packet.start..packet.end).context("room")?;
        room.copy_from_slice(frame);
        Ok(())
    }

    /// Forwards the first `count` packets. Returns the cycles, and how many are in `sent`.
    fn forward(&mut self, count: usize, sent: &mut [*mut CPacket; BURST_MAX]) -> (u64, usize) {
        let direction = CDirection {
            example: self.example,
            index: self.index.as_ptr(),
            first: self.first,
            // Fits: `new` has converted the same value.
            index_mask: u32::try_from(self.index.len() - 1).unwrap_or(u32::MAX),
            lines: self.lines.as_mut_ptr(),
            hops: self.hops.as_ptr(),
            mtu: MTU,
        };
        let mut received = [std::ptr::null_mut(); BURST_MAX];
        for (pointer, packet) in received.iter_mut().zip(&mut self.packets) {
            *pointer = std::ptr::from_mut(packet);
        }
        let count = count.min(self.packets.len());
        let forward = match self.packet.is_uplink() {
            true => adit_floor_uplink,
            false => adit_floor_downlink,
        };
        // SAFETY: `count` packets are valid and `sent` has room for them. The index has a power of
        // two entries, each the position of a line; each line has the position of a hop.
        timed(|| unsafe {
            forward(&raw const direction, received.as_ptr(), count, sent.as_mut_ptr())
        })
    }
}

const EMPTY_LINE: CLine = CLine { pkts: 0, octets: 0, teid: [0; 4], ue: [255; 4], hop: 0, qfi: 0 };

/// Makes an empty vector for `count` elements, on large pages if possible, as Adit's tables are.
fn with_large_pages<T>(count: usize) -> Vec<T> {
    let mut elements = Vec::with_capacity(count);
    let room: &mut [std::mem::MaybeUninit<T>] = elements.spare_capacity_mut();
    let start = room.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(PAGE_LEN);
    let len = size_of_val(room).saturating_sub(skipped) / PAGE_LEN * PAGE_LEN;
    if len > 0 {
        let pages = start.wrapping_add(skipped).cast();
        // SAFETY: pages of the vector; the advice does not change their contents.
        let advised = unsafe { madvise(pages, len, Advice::LinuxHugepage) };
        // If the kernel refuses, the floor is slower.
        let _ = advised;
    }
    elements
}

/// Makes the hop to the data network, of which only the Ethernet header is used.
fn network_hop() -> CHop {
    let mut headers = [0; HEADERS_LEN];
    headers[..6].copy_from_slice(&network::DN_MAC.0);
    headers[6..12].copy_from_slice(&network::MACS[1].0);
    headers[12..LINK_LEN].copy_from_slice(&0x0800_u16.to_be_bytes());
    CHop { headers, unused: 0, sum: 0 }
}

/// Makes the hop to gNB `number`, with zero in the fields that depend on packet and session.
fn gnb_hop(number: u16) -> anyhow::Result<CHop> {
    let mut headers = super::packet::headers_to_gnb(number)?;
    for at in [16, 17, 24, 25, 38, 39, 44, 45, QFI_AT] {
        headers[at] = 0;
    }
    let (ip, _) = Ipv4Header::ref_from_prefix(&headers[LINK_LEN..])
        .map_err(|_| anyhow::anyhow!("an IPv4 header"))?;
    let (words, _) = zerocopy::IntoBytes::as_bytes(ip).as_chunks::<2>();
    let sum = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    Ok(CHop { headers, unused: 0, sum })
}

#[cfg(test)]
mod tests {
    use super::super::measure::{ExpectedOutcome, establish};
    use super::super::packet::Quirk;
    use super::*;

    const BURST: usize = 32;
    const SESSIONS: usize = 20;

    fn plan(packet: BenchPacket) -> WorkerBenchConfig {
        WorkerBenchConfig {
            packet,
            outcome: ExpectedOutcome::Forwarded,
            checksum: RxChecksum::Good,
            active: SESSIONS,
            packets: BURST,
            burst: BURST,
        }
    }

    /// Returns the frames that Adit and the C floor send for the same packets.
    fn sent(profile: BenchProfile, packet: BenchPacket, edit: fn(&mut [u8])) -> [Vec<Vec<u8>>; 2] {
        let mut node = establish(profile, SESSIONS).unwrap();
        let mut floor = CFloor::new(&node.sessions, &plan(packet)).unwrap();
        let mut random = SmallRng::seed_from_u64(7);
        let mut frames = Vec::new();
        // The first packet of each session takes the stages, which changes the order within its
        // burst.
        let mut by_adit = Vec::new();
        for _ in 0..50 {
            frames.clear();
            for _ in 0..BURST {
                let mut frame = [0; 256];
                let session = network::random_session(&node.sessions, &mut random).unwrap();
                let len = packet.write(&mut frame, session, &mut random).unwrap();
                edit(&mut frame[..len]);
                frames.push(frame[..len].to_vec());
            }
            by_adit = node.bench.forward(packet, &frames).unwrap();
        }
        let mut sent = [std::ptr::null_mut(); BURST_MAX];
        for (number, frame) in frames.iter().enumerate() {
            floor.write(number, frame).unwrap();
        }
        let (_, count) = floor.forward(BURST, &mut sent);
        let by_floor = sent[..count].iter().map(|packet| {
            // SAFETY: each is one of the floor's packets, which nothing else uses.
            let packet = unsafe { &**packet };
            packet.room[packet.start..packet.end].to_vec()
        });
        [by_adit, by_floor.collect()]
    }

    #[track_caller]
    fn assert_equal([adit, floor]: &[Vec<Vec<u8>>; 2]) {
        assert_eq!((adit.len(), floor.len()), (BURST, BURST));
        for (adit, floor) in adit.iter().zip(floor) {
            assert_eq!(adit, floor);
        }
    }

    #[test]
    fn floor_sends_the_octets_that_adit_sends() {
        let gnbs = BenchProfile { gnbs: 7, ..BenchProfile::USUAL };
        for packet in [BenchPacket::UPLINK, BenchPacket::DOWNLINK] {
            for profile in [BenchProfile::USUAL, gnbs] {
                assert_equal(&sent(profile, packet, |_| {}));
            }
        }
    }

    #[test]
    fn floor_updates_checksums_as_adit_does() {
        // Sets the TTL to an octet of the address, and updates the checksum. Spec: RFC 1624 §3.
        let set_ttl = |frame: &mut [u8]| {
            let at = frame.len() - usize::from(network::INNER_LEN);
            let sum = u16::from_be_bytes([frame[at + 10], frame[at + 11]]);
            let (old, new) = (frame[at + 8], frame[at + 18].max(2));
            let sum = u32::from(!sum) + u32::from(!(u16::from(old) << 8)) + (u32::from(new) << 8);
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
            frame[at + 8] = new;
            frame[at + 10..at + 12].copy_from_slice(&(!sum).to_be_bytes());
        };
        for packet in [BenchPacket::UPLINK, BenchPacket::DOWNLINK] {
            assert_equal(&sent(BenchProfile::USUAL, packet, set_ttl));
        }
    }

    #[test]
    fn packets_that_adit_drops_are_not_forwarded() {
        for quirk in [Quirk::Teid, Quirk::Source, Quirk::EtherType] {
            let packet = BenchPacket::Uplink { container: true, family: BenchIpVersion::V4, quirk };
            // The example of the floor is a usual frame.
            let node = establish(BenchProfile::USUAL, SESSIONS).unwrap();
            let mut floor = CFloor::new(&node.sessions, &plan(BenchPacket::UPLINK)).unwrap();
            let mut random = SmallRng::seed_from_u64(7);
            let mut frame = [0; 256];
            let len = packet.write(&mut frame, node.sessions[3], &mut random).unwrap();
            floor.write(0, &frame[..len]).unwrap();
            let (_, count) = floor.forward(1, &mut [std::ptr::null_mut(); BURST_MAX]);
            assert_eq!(count, 0, "{quirk:?}");
        }
        for at in [14, 15 + 8, 14 + 10, 34 + 5, 42 + 3, 58 + 8, 58 + 11] {
            let node = establish(BenchProfile::USUAL, 1).unwrap();
            let plan =
                WorkerBenchConfig { checksum: RxChecksum::Unknown, ..plan(BenchPacket::UPLINK) };
            let mut floor = CFloor::new(&node.sessions, &plan).unwrap();
            let (mut frame, mut random) = ([0; 256], SmallRng::seed_from_u64(7));
            let len = BenchPacket::UPLINK.write(&mut frame, node.sessions[0], &mut random).unwrap();
            frame[at] ^= 1;
            floor.write(0, &frame[..len]).unwrap();
            let (_, count) = floor.forward(1, &mut [std::ptr::null_mut(); BURST_MAX]);
            assert_eq!(count, 0, "octet {at}");
        }
    }
}
