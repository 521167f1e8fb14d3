//! Pools of packet buffers.

use core::ptr::NonNull;
use std::ffi::CString;
use std::sync::Arc;

use adit_dpdk_sys as sys;
use adit_pktio::Burst;

use crate::eal::Eal;
use crate::errno::Errno;
use crate::log;
use crate::mbuf::Mbuf;

/// Configuration of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MempoolConfig<'a> {
    /// Name, unique in the process; maximum 25 bytes.
    pub name: &'a str,
    /// Number of buffers; 2^n - 1 uses memory best.
    pub mbufs: u32,
    /// Buffers that the cache of each registered thread holds; 0 to 512, and at most 2/3 of
    /// `mbufs`.
    pub cache: u32,
    /// Size of a buffer. Unit: bytes, 128 bytes of headroom included.
    pub data_room_bytes: u16,
    /// NUMA node; `None` for any. Without hugepages DPDK ignores nodes.
    pub node: Option<u32>,
}

impl Default for MempoolConfig<'_> {
    /// Has 8191 buffers for frames of 2048 bytes, with a cache of 256 per thread.
    fn default() -> Self {
        Self { name: "packets", mbufs: 8191, cache: 256, data_room_bytes: 2048 + 128, node: None }
    }
}

/// The reason why a pool could not be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MempoolError {
    /// The name contains a NUL.
    #[error("mempool name {0:?} contains a NUL character")]
    Name(String),
    /// The EAL's memory is too small.
    #[error(
        "mempool {name} of {mbufs} mbufs needs about {need_mib} MiB, but the EAL has less memory left; \
         raise the configured memory or lower the number of mbufs"
    )]
    NoMemory {
        /// The pool.
        name: String,
        /// Requested number of buffers.
        mbufs: u32,
        /// Estimated memory of the pool. Unit: MiB.
        need_mib: u64,
    },
    /// DPDK refused for another reason.
    #[error("DPDK refused mempool {name}: {errno}{}", log::log_tail(log))]
    Refused {
        /// The pool.
        name: String,
        /// DPDK's reason.
        errno: Errno,
        /// DPDK's own log lines.
        log: String,
    },
}

/// A pool of [`Mbuf`]s; a cheap handle to share.
///
/// Invariant: the pool outlives its buffers, although a buffer holds no handle. Drop of the last
/// handle frees the pool only on the main thread, after the workers have unregistered and every
/// buffer has returned: otherwise a buffer could be on its way back through another thread's
/// mempool cache. If this does not hold, the pool and the EAL remain until the process ends.
#[derive(Debug, Clone)]
pub struct Mempool {
    inner: Arc<MempoolHandle>,
}

#[derive(Debug)]
struct MempoolHandle {
    raw: NonNull<sys::rte_mempool>,
    mbufs: u32,
    data_room_bytes: u16,
    is_dense: bool,
    eal: Eal,
}

// SAFETY: DPDK's pools allocate and free buffers on any thread; the pool itself is freed once, by
// the last handle.
unsafe impl Send for MempoolHandle {}
// SAFETY: as above.
unsafe impl Sync for MempoolHandle {}

impl Mempool {
    /// Creates a pool.
    ///
    /// # Errors
    /// See [`MempoolError`].
    pub fn create(eal: &Eal, config: &MempoolConfig<'_>) -> Result<Self, MempoolError> {
        let name =
            CString::new(config.name).map_err(|_| MempoolError::Name(config.name.to_owned()))?;
        let node = config.node.and_then(|node| i32::try_from(node).ok());
        let socket = node.unwrap_or(sys::SOCKET_ID_ANY);
        let mut private = sys::rte_pktmbuf_pool_private {
            mbuf_data_room_size: config.data_room_bytes,
            mbuf_priv_size: 0,
            flags: 0,
        };
        // SAFETY: the function has no parameters and returns a number.
        let iova = unsafe { sys::rte_eal_iova_mode() };
        // Without `NO_IOVA_CONTIG` no buffer crosses a page, which leaves gaps between buffers. The
        // AF_XDP driver needs buffers without gaps: it registers one block of (size of a buffer ×
        // number of buffers) octets with the kernel.
        let is_dense = iova == sys::rte_iova_mode::RTE_IOVA_VA;
        let flags = if is_dense { sys::RTE_MEMPOOL_F_NO_IOVA_CONTIG } else { 0 };
        let len = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let element = size_of::<sys::rte_mbuf>() + usize::from(config.data_room_bytes);
        // SAFETY: the EAL runs; the name is a C string and `private` a structure that DPDK copies;
        // the two functions are those for pools of packet buffers with these sizes.
        let (raw, log) = log::capture(|| unsafe {
            sys::rte_mempool_create(
                name.as_ptr(),
                config.mbufs,
                len(element),
                config.cache,
                len(size_of_val(&private)),
                Some(sys::rte_pktmbuf_pool_init),
                (&raw mut private).cast(),
                Some(sys::rte_pktmbuf_init),
                core::ptr::null_mut(),
                socket,
                flags,
            )
        });
        let Some(raw) = NonNull::new(raw) else {
            return Err(Self::refusal(config, Errno::last(), log));
        };
        log::print_log(&log);
        // SAFETY: the pool is alive.
        let is_dense = is_dense && unsafe { raw.as_ref() }.nb_mem_chunks == 1;
        let (mbufs, data_room_bytes, eal) = (config.mbufs, config.data_room_bytes, eal.clone());
        Ok(Self { inner: Arc::new(MempoolHandle { raw, mbufs, data_room_bytes, is_dense, eal }) })
    }

    fn refusal(config: &MempoolConfig<'_>, errno: Errno, log: String) -> MempoolError {
        let name = config.name.to_owned();
        if matches!(errno.value(), libc::ENOMEM | libc::ENOBUFS) {
            // An element consists of the data room, two cache lines of mbuf and one of pool header.
            let element = u64::from(config.data_room_bytes) + 3 * 64;
            let need_mib = (u64::from(config.mbufs) * element).div_ceil(1 << 20);
            return MempoolError::NoMemory { name, mbufs: config.mbufs, need_mib };
        }
        MempoolError::Refused { name, errno, log }
    }

    /// Allocates an empty buffer with full headroom; `None` if the pool is exhausted.
    #[inline]
    #[must_use]
    pub fn alloc(&self) -> Option<Mbuf> {
        // SAFETY: the pool is alive.
        let raw = NonNull::new(unsafe { sys::rte_pktmbuf_alloc(self.inner.raw.as_ptr()) })?;
        // SAFETY: `raw` is a fresh mbuf: one direct segment, reference count 1, with no other
        // pointer to it.
        Some(unsafe { Mbuf::from_raw(raw) })
    }

    /// Appends `count` empty buffers with full headroom to `burst`, or as many as it has room for.
    /// Appends none if the pool has too few. Returns how many.
    ///
    /// Cost: one call, which writes the buffers' pointers directly into `burst`.
    #[inline]
    pub fn alloc_burst(&self, count: usize, burst: &mut Burst<Mbuf>) -> usize {
        let wanted = count.min(burst.remaining_capacity());
        let number = u32::try_from(wanted).unwrap_or(0);
        let len = burst.len();
        // SAFETY: `len <= capacity`, so the sum is at most one past the last element.
        let free = unsafe { burst.as_mut_ptr().add(len) };
        let free = free.cast::<*mut sys::rte_mbuf>();
        // SAFETY: the pool is alive; `free` has room for `number` pointers, and an `Mbuf` is laid
        // out as one.
        if unsafe { sys::rte_pktmbuf_alloc_bulk(self.inner.raw.as_ptr(), free, number) } != 0 {
            return 0;
        }
        // SAFETY: DPDK wrote `wanted` pointers to fresh mbufs that no other code has.
        unsafe { burst.set_len(len + wanted) };
        wanted
    }

    /// Returns the number of free buffers, in the ring or in caches. Inexact while other threads
    /// run; for display and tests.
    #[must_use]
    pub fn available(&self) -> u32 {
        self.inner.available()
    }

    /// Returns the total number of buffers.
    #[must_use]
    pub fn mbufs(&self) -> u32 {
        self.inner.mbufs
    }

    /// Returns the size of a buffer. Unit: bytes, headroom included.
    #[must_use]
    pub fn data_room_bytes(&self) -> u16 {
        self.inner.data_room_bytes
    }

    /// Returns the requested NUMA node, or `SOCKET_ID_ANY`.
    pub(crate) fn node(&self) -> i32 {
        // SAFETY: the pool is alive.
        unsafe { self.inner.raw.as_ref() }.socket_id
    }

    /// True if the buffers follow one another without gaps in one piece of memory.
    pub(crate) fn is_dense(&self) -> bool {
        self.inner.is_dense
    }

    /// Returns the EAL that owns the pool's memory.
    #[must_use]
    pub fn eal(&self) -> &Eal {
        &self.inner.eal
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::rte_mempool {
        self.inner.raw.as_ptr()
    }
}

impl MempoolHandle {
    fn available(&self) -> u32 {
        // SAFETY: the pool is alive.
        unsafe { sys::rte_mempool_avail_count(self.raw.as_ptr()) }
    }
}

impl Drop for MempoolHandle {
    fn drop(&mut self) {
        if self.eal.is_sole_lcore() && self.available() == self.mbufs {
            // SAFETY: every buffer has returned: no other thread has a cache, and a thread without
            // an lcore index returns buffers directly to the ring, which counts a buffer only once
            // the thread is done with it. No handle is left that could allocate a buffer.
            unsafe { sys::rte_mempool_free(self.raw.as_ptr()) };
        } else {
            core::mem::forget(self.eal.clone());
        }
    }
}
