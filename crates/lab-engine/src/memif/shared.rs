//! Memory shared with a memif client: regions, rings and buffers; the one place of `memif` that
//! needs `unsafe`.
//!
//! JUSTIFICATION: the client maps the same memory. Indices are atomics; descriptors are copied out
//! and checked against their region before use, since the client writes them.
//!
//! Ring (memif 2.0), little endian: cookie (octets 0 to 3), flags (4, 5), head (6, 7), tail (64,
//! 65), descriptors of 16 octets from 128 on. Descriptor: flags (0, 1), region (2, 3), length (4 to
//! 7), offset (8 to 11), metadata (12 to 15).
#![allow(unsafe_code, reason = "memory that another process writes, see above")]

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::RingPlace;

pub(super) const COOKIE: u32 = 0x03e3_1f20;
const FLAGS_AT: usize = 4;
pub(super) const HEAD_AT: usize = 6;
pub(super) const TAIL_AT: usize = 64;
pub(super) const DESCRIPTORS_AT: usize = 128;
pub(super) const DESCRIPTOR_LEN: usize = 16;
const CACHE_LINE: usize = 64;
/// Flag of a ring whose consumer polls and needs no interrupts.
const FLAG_MASK_INTERRUPT: u16 = 1;

/// A mapped region of the client.
///
/// Invariant: `start` is the start of a mapping of `len` octets that lives as long as this value.
#[derive(Debug)]
pub(super) struct MemifRegion {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone and may be unmapped on any thread.
unsafe impl Send for MemifRegion {}

impl MemifRegion {
    /// Maps `len` octets of the client's file.
    ///
    /// # Errors
    /// The file is shorter than `len` octets, or cannot be mapped.
    pub(super) fn map(file: &OwnedFd, len: u64) -> Result<Self> {
        let size = rustix::fs::fstat(file).context("read the size of a memif region")?.st_size;
        if u64::try_from(size).unwrap_or(0) < len || len == 0 {
            bail!("the memif client announced a region of {len} octets and has {size}");
        }
        let len = usize::try_from(len).context("size of a memif region")?;
        let (read, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses the address; the file is as long as the mapping.
        let start = unsafe { mmap(core::ptr::null_mut(), len, read, flags, file, 0) };
        let start = NonNull::new(start.context("map a memif region")?.cast());
        Ok(Self { start: start.context("map a memif region")?, len })
    }

    /// Returns the address of `len` octets at `offset`; `None` if they are not within the region.
    #[inline]
    fn at(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: within the mapping, by the comparison above.
        Some(unsafe { self.start.add(offset) })
    }

    #[inline]
    pub(super) fn atomic_u16(&self, offset: usize) -> Option<&AtomicU16> {
        let place = self.at(offset, 2).filter(|_| offset.is_multiple_of(2))?;
        // SAFETY: within the mapping and aligned, since mappings start at pages; all access from
        // this side is atomic.
        Some(unsafe { place.cast::<AtomicU16>().as_ref() })
    }

    #[inline]
    pub(super) fn atomic_u32(&self, offset: usize) -> Option<&AtomicU32> {
        let place = self.at(offset, 4).filter(|_| offset.is_multiple_of(4))?;
        // SAFETY: within the mapping and aligned, see `atomic_u16`.
        Some(unsafe { place.cast::<AtomicU32>().as_ref() })
    }
}

impl Drop for MemifRegion {
    fn drop(&mut self) {
        // SAFETY: the mapping of `MemifRegion::map`; nothing borrows from it any more. If this
        // fails, the memory stays mapped, which is harmless.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// One ring in a region of the client, seen from the server. In both directions the client offers
/// descriptors up to `head`, and the server consumes them and advances `tail`.
#[derive(Debug)]
pub(super) struct MemifRing {
    place: RingPlace,
    mask: u16,
    /// Index of the descriptor that the server uses next, modulo 2^16.
    next: u16,
}

impl MemifRing {
    /// Opens the ring at `place`.
    ///
    /// # Errors
    /// The ring is not within its region, or its cookie is wrong.
    pub(super) fn open(regions: &[MemifRegion], place: RingPlace) -> Result<Self> {
        let Some(size) = 1_u16.checked_shl(place.log2_size.into()) else {
            bail!("the memif client announced a ring of 2^{} descriptors", place.log2_size);
        };
        let ring = Self { place, mask: size - 1, next: 0 };
        let region = regions.get(place.region).context("a ring in an unknown memif region")?;
        let len = DESCRIPTORS_AT + usize::from(size) * DESCRIPTOR_LEN;
        if region.at(place.offset, len).is_none() || !place.offset.is_multiple_of(4) {
            bail!("the memif client announced a ring outside of its region");
        }
        let cookie = region.atomic_u32(place.offset).map(|cookie| cookie.load(Ordering::Acquire));
        if cookie != Some(COOKIE) {
            bail!("the memif client announced a ring with a wrong cookie");
        }
        ring.word(regions, FLAGS_AT).store(FLAG_MASK_INTERRUPT, Ordering::Release);
        Ok(ring)
    }

    /// Returns the number of descriptors.
    pub(super) fn len(&self) -> u16 {
        self.mask + 1
    }

    #[inline]
    fn word<'r>(&self, regions: &'r [MemifRegion], at: usize) -> &'r AtomicU16 {
        let region = regions.get(self.place.region);
        let Some(word) = region.and_then(|region| region.atomic_u16(self.place.offset + at)) else {
            unreachable!("a ring was found within its region when it was opened")
        };
        word
    }

    /// Returns how many descriptors the client offers: free buffers, or packets.
    #[inline]
    pub(super) fn offered(&self, regions: &[MemifRegion]) -> u16 {
        self.word(regions, HEAD_AT).load(Ordering::Acquire).wrapping_sub(self.next)
    }

    /// Returns the first `count` offered descriptors to the client.
    #[inline]
    pub(super) fn return_descriptors(&mut self, regions: &[MemifRegion], count: u16) {
        self.next = self.next.wrapping_add(count);
        self.word(regions, TAIL_AT).store(self.next, Ordering::Release);
    }

    /// Returns the offset of the `index`-th offered descriptor in the ring's region.
    #[inline]
    fn descriptor_at(&self, index: u16) -> usize {
        let slot = usize::from(self.next.wrapping_add(index) & self.mask);
        self.place.offset + DESCRIPTORS_AT + slot * DESCRIPTOR_LEN
    }

    /// Returns region, length and offset of the buffer of the `index`-th offered descriptor.
    #[inline]
    fn descriptor(&self, regions: &[MemifRegion], index: u16) -> Option<(usize, usize, usize)> {
        let at = self.descriptor_at(index);
        let region = regions.get(self.place.region)?;
        let number = region.atomic_u16(at + 2)?.load(Ordering::Relaxed);
        let length = region.atomic_u32(at + 4)?.load(Ordering::Relaxed);
        let offset = region.atomic_u32(at + 8)?.load(Ordering::Relaxed);
        Some((usize::from(number), usize::try_from(length).ok()?, usize::try_from(offset).ok()?))
    }

    /// Returns the packet of the `index`-th offered descriptor; `None` if the descriptor points out
    /// of its region.
    #[inline]
    pub(super) fn packet<'r>(&self, regions: &'r [MemifRegion], index: u16) -> Option<&'r [u8]> {
        let (region, length, offset) = self.descriptor(regions, index)?;
        let start = regions.get(region)?.at(offset, length)?;
        // SAFETY: within the mapping. The server owns an offered buffer until `return_descriptors`,
        // which callers reach only through `&mut Memif`, so that no slice of `Memif::packet` is
        // alive then.
        Some(unsafe { core::slice::from_raw_parts(start.as_ptr(), length) })
    }

    /// Prefetches the start of the `index`-th offered packet, which another core has written.
    #[inline]
    pub(super) fn prefetch(&self, regions: &[MemifRegion], index: u16) {
        let Some((region, length, offset)) = self.descriptor(regions, index) else { return };
        if let Some(packet) = regions.get(region).and_then(|region| region.at(offset, length)) {
            prefetch(packet.as_ptr());
            prefetch(packet.as_ptr().wrapping_add(CACHE_LINE));
        }
    }

    /// Returns the length of the packet of the `index`-th offered descriptor. Unit: octets.
    #[inline]
    pub(super) fn packet_len(&self, regions: &[MemifRegion], index: u16) -> usize {
        self.descriptor(regions, index).map_or(0, |(_, length, _)| length)
    }

    /// Returns the buffer of the `index`-th offered descriptor, and sets its length to `len`
    /// octets; `None` if the buffer is shorter.
    #[inline]
    pub(super) fn fill<'r>(
        &mut self,
        regions: &'r mut [MemifRegion],
        index: u16,
        len: usize,
    ) -> Option<&'r mut [u8]> {
        let (region, room, offset) = self.descriptor(regions, index)?;
        if room < len {
            return None;
        }
        let own = regions.get(self.place.region)?;
        let length = own.atomic_u32(self.descriptor_at(index) + 4)?;
        length.store(u32::try_from(len).ok()?, Ordering::Relaxed);
        let start = regions.get(region)?.at(offset, len)?;
        // SAFETY: within the mapping. The server owns an offered buffer until `return_descriptors`,
        // and `&mut` of the regions makes this the only slice into them.
        Some(unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), len) })
    }
}

/// Prefetches the cache line at `place`, which need not be valid.
#[inline]
fn prefetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which neither reads nor faults.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
