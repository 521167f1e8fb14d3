//! Error numbers of DPDK calls.

use core::fmt;

use adit_dpdk_sys as sys;

/// An error number as DPDK calls return it, positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(i32);

impl Errno {
    /// The error of a call that returned `code`, a negative error number or a bare -1.
    ///
    /// For -1 the reason is in DPDK's thread-local `rte_errno`, when it set one.
    pub(crate) fn of_return(code: i32) -> Self {
        let last = Self::last();
        if code == -1 && last.0 != 0 { last } else { Self(code.saturating_abs()) }
    }

    /// DPDK's thread-local `rte_errno`.
    pub(crate) fn last() -> Self {
        // SAFETY: reads a thread-local integer of the DPDK library.
        Self(unsafe { sys::adit_rte_errno() })
    }

    /// The C library's thread-local error number, when set.
    pub(crate) fn last_os() -> Option<Self> {
        std::io::Error::last_os_error().raw_os_error().filter(|value| *value != 0).map(Self)
    }

    /// The number, positive.
    #[must_use]
    pub fn value(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", std::io::Error::from_raw_os_error(self.0))
    }
}

impl core::error::Error for Errno {}
