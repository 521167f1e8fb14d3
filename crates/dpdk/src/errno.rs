//! Error numbers of DPDK calls.

use core::fmt;

use adit_dpdk_sys as sys;

/// An error number of a DPDK call, positive; zero if a driver returned none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(i32);

impl Errno {
    /// Returns the error of a call that returned `code`: a negative error number, or a bare -1, by
    /// which drivers mean that they have no error number, not `EPERM`.
    pub(crate) fn of_return(code: i32) -> Self {
        if code == -1 { Self(0) } else { Self(code.saturating_abs()) }
    }

    /// Returns the C library's thread-local error number.
    pub(crate) fn last_os() -> Self {
        Self(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    /// Returns the value for errors without a number.
    pub(crate) const fn none() -> Self {
        Self(0)
    }

    /// Returns DPDK's thread-local `rte_errno`.
    pub(crate) fn last() -> Self {
        // SAFETY: reads a thread-local integer of the DPDK library.
        Self(unsafe { sys::adit_rte_errno() })
    }

    /// Returns the number, which is positive, or zero if DPDK returned none.
    #[must_use]
    pub fn value(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("the driver returned no error number"),
            value => write!(f, "{}", std::io::Error::from_raw_os_error(value)),
        }
    }
}

impl core::error::Error for Errno {}
