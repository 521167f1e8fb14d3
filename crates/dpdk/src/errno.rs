//! Error numbers of DPDK calls.

use core::fmt;

use adit_dpdk_sys as sys;

/// An error number of a DPDK call, positive; zero if a driver returned none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(i32);

impl Errno {
    /// The error of a call that returned `code`, a negative error number or a bare -1.
    ///
    /// Drivers return a bare -1 if they have no error number; it does not mean `EPERM`.
    pub(crate) fn of_return(code: i32) -> Self {
        if code == -1 { Self(0) } else { Self(code.saturating_abs()) }
    }

    /// The C library's thread-local error number.
    pub(crate) fn last_os() -> Self {
        Self(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    /// No error number.
    pub(crate) const fn none() -> Self {
        Self(0)
    }

    /// DPDK's thread-local `rte_errno`.
    pub(crate) fn last() -> Self {
        // SAFETY: reads a thread-local integer of the DPDK library.
        Self(unsafe { sys::adit_rte_errno() })
    }

    /// The number, positive; zero if DPDK returned none.
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
