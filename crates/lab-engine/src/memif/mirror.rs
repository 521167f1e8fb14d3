//! A memif client in this process that returns each packet without touching it. No client costs
//! less, so it shows the highest rate that a tester on the same core can reach.

use core::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use anyhow::{Context, Result};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::shared::{
    COOKIE, DESCRIPTOR_LEN, DESCRIPTORS_AT, HEAD_AT, MemifRegion, MemifRing, TAIL_AT,
};
use super::{Memif, RingPlace};

/// Default ring size of DPDK's memif driver, as log2.
const LOG2_RING_LEN: u8 = 10;
const RING_LEN: u16 = 1 << LOG2_RING_LEN;
const BUFFER_LEN: u32 = 2048;
const RING_OCTETS: usize = DESCRIPTORS_AT + (DESCRIPTOR_LEN << LOG2_RING_LEN);
/// Offsets of the ring to the client and of the ring from the client. The buffers of both follow.
const RINGS: [usize; 2] = [0, RING_OCTETS];

/// The client's end. It shares its memory with the server's end.
#[derive(Debug)]
pub struct Mirror {
    region: MemifRegion,
    /// Packets consumed so far, modulo 2^16.
    taken: u16,
}

/// Makes both ends of a memif. Call [`Mirror::mirror_packets`] to return packets.
///
/// # Errors
/// The memory cannot be shared.
pub fn mirrored_memif() -> Result<(Memif, Mirror)> {
    let file = memfd_create("adit-lab-mirror", MemfdFlags::CLOEXEC).context("share memory")?;
    let mut buffer_at = u32::try_from(2 * RING_OCTETS)?;
    let region_len = u64::from(buffer_at) + 2 * u64::from(RING_LEN) * u64::from(BUFFER_LEN);
    ftruncate(&file, region_len).context("share memory")?;
    let mirror = Mirror { region: MemifRegion::map(&file, region_len)?, taken: 0 };
    for ring in RINGS {
        mirror.long(ring).store(COOKIE, Ordering::Relaxed);
        for slot in 0..RING_LEN {
            let [length, offset] = mirror.descriptor(ring, slot);
            length.store(BUFFER_LEN, Ordering::Relaxed);
            offset.store(buffer_at, Ordering::Relaxed);
            buffer_at += BUFFER_LEN;
        }
    }
    // Offer all buffers of the first ring to the server.
    mirror.word(RINGS[0] + HEAD_AT).store(RING_LEN, Ordering::Release);
    let regions = vec![MemifRegion::map(&file, region_len)?];
    let open = |offset| {
        MemifRing::open(&regions, RingPlace { region: 0, offset, log2_size: LOG2_RING_LEN })
    };
    let (to, from) = (open(RINGS[0])?, open(RINGS[1])?);
    Ok((Memif { to, from, regions, _socket: None }, mirror))
}

impl Mirror {
    /// Returns the packets that the server has sent, while the ring from the client has room.
    #[inline]
    pub fn mirror_packets(&mut self) {
        let [to, from] = RINGS;
        let sent = self.word(to + TAIL_AT).load(Ordering::Acquire).wrapping_sub(self.taken);
        let released = self.word(from + TAIL_AT).load(Ordering::Acquire);
        let room = RING_LEN - self.taken.wrapping_sub(released);
        let count = sent.min(room);
        if count == 0 {
            return;
        }
        for index in 0..count {
            let slot = self.taken.wrapping_add(index) & (RING_LEN - 1);
            let ([len, at], [len_back, at_back]) =
                (self.descriptor(to, slot), self.descriptor(from, slot));
            let (full, empty) = (at.load(Ordering::Relaxed), at_back.load(Ordering::Relaxed));
            len_back.store(len.load(Ordering::Relaxed), Ordering::Relaxed);
            at_back.store(full, Ordering::Relaxed);
            len.store(BUFFER_LEN, Ordering::Relaxed);
            at.store(empty, Ordering::Relaxed);
        }
        self.taken = self.taken.wrapping_add(count);
        self.word(from + HEAD_AT).store(self.taken, Ordering::Release);
        self.word(to + HEAD_AT).store(self.taken.wrapping_add(RING_LEN), Ordering::Release);
    }

    /// Returns length and offset of a descriptor.
    #[inline]
    fn descriptor(&self, ring: usize, slot: u16) -> [&AtomicU32; 2] {
        let at = ring + DESCRIPTORS_AT + usize::from(slot) * DESCRIPTOR_LEN;
        [self.long(at + 4), self.long(at + 8)]
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU16 {
        let Some(word) = self.region.atomic_u16(at) else {
            unreachable!("rings lie at the start of the region")
        };
        word
    }

    #[inline]
    fn long(&self, at: usize) -> &AtomicU32 {
        let Some(long) = self.region.atomic_u32(at) else {
            unreachable!("rings lie at the start of the region")
        };
        long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_comes_back_in_order_however_often_the_rings_wrap() {
        let (mut memif, mut mirror) = mirrored_memif().unwrap();
        assert_eq!((memif.room(), memif.ring_len()), (RING_LEN, RING_LEN));
        let (mut sent, mut came) = (0_u32, 0_u32);
        for turn in 0..400_u16 {
            let count = memif.room().min(700);
            for index in 0..count {
                let len = 60 + usize::from(index);
                memif.fill(index, len).unwrap()[..4].copy_from_slice(&sent.to_le_bytes());
                sent += 1;
            }
            memif.send(count);
            mirror.mirror_packets();
            let count = memif.waiting().min(500 + turn);
            for index in 0..count {
                assert_eq!(memif.packet(index).unwrap()[..4], came.to_le_bytes());
                came += 1;
            }
            memif.release(count);
        }
        assert!(came > 200_000 && sent - came <= 2 * u32::from(RING_LEN), "{sent} {came}");
    }

    #[test]
    fn client_that_is_not_read_takes_no_more_than_its_rings_hold() {
        let (mut memif, mut mirror) = mirrored_memif().unwrap();
        for _ in 0..2 {
            let room = memif.room();
            (0..room).for_each(|index| memif.fill(index, 60).unwrap().fill(0));
            memif.send(room);
            mirror.mirror_packets();
        }
        assert_eq!((memif.room(), memif.waiting()), (0, RING_LEN));
    }
}
