//! The packet buffer.

use core::fmt;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr::NonNull;
use core::slice;

use adit_dpdk_sys as sys;
use adit_pktio::{Burst, PacketBuf, RxChecksum};

// The accessors below read these fields directly. DPDK keeps the layout of the first cache line
// stable for its vector drivers; if a release moves a field, the accessors need a review.
const _: () = assert!(offset_of!(sys::rte_mbuf, buf_addr) == 0);
const _: () = assert!(offset_of!(sys::rte_mbuf, data_off) == 16);
const _: () = assert!(offset_of!(sys::rte_mbuf, nb_segs) == 20);
const _: () = assert!(offset_of!(sys::rte_mbuf, ol_flags) == 24);
const _: () = assert!(offset_of!(sys::rte_mbuf, pkt_len) == 36);
const _: () = assert!(offset_of!(sys::rte_mbuf, data_len) == 40);
const _: () = assert!(offset_of!(sys::rte_mbuf, buf_len) == 54);
const _: () = assert!(size_of::<Mbuf>() == size_of::<*mut sys::rte_mbuf>());

/// One packet of a DPDK pool.
///
/// Invariant: owns its mbuf chain alone (every segment direct, reference count 1); no other pointer
/// to the chain exists, neither in a queue nor in another `Mbuf`. In the first segment `data_off +
/// data_len <= buf_len`. Its pool is alive, since a pool is freed only after all its buffers have
/// returned. The layout is one non-null pointer, so that a slice of `Mbuf`s is DPDK's packet array.
///
/// `Send`, since any thread may return buffers to a pool; neither `Sync` nor `Clone`.
#[repr(transparent)]
pub struct Mbuf {
    raw: NonNull<sys::rte_mbuf>,
    not_sync: PhantomData<core::cell::Cell<u8>>,
}

// SAFETY: the mbuf is owned alone, and its pool's ring is safe for any number of threads.
unsafe impl Send for Mbuf {}

impl Mbuf {
    /// Takes ownership of an mbuf.
    ///
    /// # Safety
    /// `raw` must be a packet from DPDK that the caller owns alone, with every segment direct.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: NonNull<sys::rte_mbuf>) -> Self {
        Self { raw, not_sync: PhantomData }
    }

    #[inline]
    fn header(&self) -> &sys::rte_mbuf {
        // SAFETY: `raw` points to a live mbuf that this value owns, and DPDK has written all its
        // fields.
        unsafe { self.raw.as_ref() }
    }

    #[inline]
    fn header_mut(&mut self) -> &mut sys::rte_mbuf {
        // SAFETY: as in `header`, and `&mut self` is the only access.
        unsafe { self.raw.as_mut() }
    }

    /// Returns every packet of `burst` to its pool.
    ///
    /// Cost: one call for all packets.
    #[inline]
    pub fn free_burst(burst: &mut Burst<Self>) {
        let count = u32::try_from(burst.len()).unwrap_or(0);
        let packets = burst.as_mut_ptr().cast::<*mut sys::rte_mbuf>();
        // SAFETY: no packet is dropped here: the call below takes ownership of all.
        unsafe { burst.set_len(0) };
        // SAFETY: `count` pointers to mbufs that were owned alone, laid out as `Mbuf`s are.
        unsafe { sys::rte_pktmbuf_free_bulk(packets, count) };
    }

    /// Returns the free space before the packet. Unit: bytes.
    #[inline]
    #[must_use]
    pub fn headroom(&self) -> usize {
        usize::from(self.header().data_off)
    }

    /// Returns the free space after the packet's first segment. Unit: bytes.
    #[inline]
    #[must_use]
    pub fn tailroom(&self) -> usize {
        let header = self.header();
        usize::from(header.buf_len - header.data_off - header.data_len)
    }

    /// Returns the ethdev id of the port that received the packet.
    #[inline]
    #[must_use]
    pub fn rx_port(&self) -> u16 {
        self.header().port
    }
}

impl PacketBuf for Mbuf {
    #[inline]
    fn data(&self) -> &[u8] {
        let header = self.header();
        let start = header.buf_addr.cast::<u8>().cast_const();
        // SAFETY: `data_off <= buf_len`, so the sum stays within the buffer.
        let start = unsafe { start.add(usize::from(header.data_off)) };
        // SAFETY: `data_off + data_len <= buf_len` bytes from `buf_addr` belong to this mbuf; pool
        // memory comes zeroed from the kernel, so every byte has a value.
        unsafe { slice::from_raw_parts(start, usize::from(header.data_len)) }
    }

    #[inline]
    fn data_len(&self) -> usize {
        usize::from(self.header().data_len)
    }

    #[inline]
    fn data_mut(&mut self) -> &mut [u8] {
        let header = self.header_mut();
        let start = header.buf_addr.cast::<u8>();
        // SAFETY: as in `data`.
        let start = unsafe { start.add(usize::from(header.data_off)) };
        // SAFETY: as in `data`, and `&mut self` is the only access.
        unsafe { slice::from_raw_parts_mut(start, usize::from(header.data_len)) }
    }

    #[inline]
    fn prepend(&mut self, len: usize) -> Option<&mut [u8]> {
        let len = u16::try_from(len).ok()?;
        let header = self.header_mut();
        let data_off = header.data_off.checked_sub(len)?;
        let data_len = header.data_len.checked_add(len)?;
        header.data_off = data_off;
        header.data_len = data_len;
        header.pkt_len = header.pkt_len.wrapping_add(u32::from(len));
        Some(self.data_mut())
    }

    #[inline]
    fn trim_front(&mut self, len: usize) -> bool {
        let header = self.header_mut();
        match u16::try_from(len) {
            Ok(len) if len <= header.data_len => {
                header.data_off += len;
                header.data_len -= len;
                header.pkt_len = header.pkt_len.wrapping_sub(u32::from(len));
                true
            }
            _ => false,
        }
    }

    /// See [`PacketBuf::append`]; refused for a packet of several segments.
    #[inline]
    fn append(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.tailroom() || !self.is_contiguous() {
            return None;
        }
        let len = u16::try_from(len).ok()?;
        let header = self.header_mut();
        header.data_len += len;
        header.pkt_len = header.pkt_len.wrapping_add(u32::from(len));
        Some(self.data_mut())
    }

    /// See [`PacketBuf::truncate`]; refused for a packet of several segments.
    #[inline]
    fn truncate(&mut self, len: usize) -> bool {
        let contiguous = self.is_contiguous();
        let header = self.header_mut();
        match u16::try_from(len) {
            Ok(len) if contiguous && len <= header.data_len => {
                header.data_len = len;
                header.pkt_len = u32::from(len);
                true
            }
            _ => false,
        }
    }

    /// See [`PacketBuf::replace_front`]; refused for a packet of several segments.
    // PERF (adit-lab saturate): once per packet of the fast path.
    #[inline(always)]
    fn replace_front(&mut self, cut: usize, add: usize, keep: usize) -> Option<&mut [u8]> {
        let contiguous = self.is_contiguous();
        let header = self.header_mut();
        let is_held = cut.checked_add(keep)? <= usize::from(header.data_len);
        let start = (usize::from(header.data_off) + cut).checked_sub(add)?;
        if !(contiguous && is_held) {
            return None;
        }
        header.data_off = u16::try_from(start).ok()?;
        header.data_len = u16::try_from(add + keep).ok()?;
        header.pkt_len = u32::from(header.data_len);
        Some(self.data_mut())
    }

    #[inline]
    fn is_contiguous(&self) -> bool {
        self.header().nb_segs == 1
    }

    #[inline]
    fn mark(&self) -> u32 {
        let fields = &self.header().__bindgen_anon_2;
        // SAFETY: every member of the unions consists of numbers, and DPDK has zeroed the pool's
        // memory.
        let hash = unsafe { &fields.hash };
        // SAFETY: as above.
        unsafe { hash.usr }
    }

    #[inline]
    fn set_mark(&mut self, mark: u32) {
        self.header_mut().__bindgen_anon_2.hash.usr = mark;
    }

    #[inline]
    fn rx_checksum(&self) -> RxChecksum {
        const GOOD: u64 = sys::RTE_MBUF_F_RX_IP_CKSUM_GOOD as u64;
        const BAD: u64 = sys::RTE_MBUF_F_RX_IP_CKSUM_BAD as u64;
        const MASK: u64 = sys::RTE_MBUF_F_RX_IP_CKSUM_MASK as u64;
        match self.header().ol_flags & MASK {
            GOOD => RxChecksum::Good,
            BAD => RxChecksum::Bad,
            _ => RxChecksum::Unknown,
        }
    }

    /// Prefetches the first two cache lines of the packet, which hold the headers that the fast
    /// path reads.
    #[inline(always)]
    // PERF (adit-lab saturate --zero-copy): once per received packet, which another core or a NIC
    // wrote.
    fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let header = self.header();
            let start = header.buf_addr.cast::<i8>().cast_const();
            let start = start.wrapping_add(usize::from(header.data_off));
            // SAFETY: a prefetch reads nothing architecturally and never faults.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start) };
            // SAFETY: as above.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(64)) };
        }
    }
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this value owns the mbuf alone, and is gone afterwards.
        unsafe { sys::rte_pktmbuf_free(self.raw.as_ptr()) };
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = self.header();
        f.debug_struct("Mbuf")
            .field("data_len", &header.data_len)
            .field("data_off", &header.data_off)
            .field("segments", &header.nb_segs)
            .field("rx_port", &header.port)
            .finish()
    }
}
