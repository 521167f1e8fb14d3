//! TUN devices: the only module of this crate with `unsafe`.
//!
//! JUSTIFICATION: a TUN device gets its name through `ioctl(TUNSETIFF)`, for which neither the
//! standard library nor rustix has a safe call.
#![allow(unsafe_code, reason = "an ioctl without a safe call, see above")]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, Result, anyhow};
use rustix::ioctl::{Updater, ioctl, opcode};

use adit_lab_process::stop::environment;

const IFNAMSIZ: usize = 16;
const IFF_TUN: u16 = 0x0001;
/// Flag: packets have no packet information (four octets) in front.
const IFF_NO_PI: u16 = 0x1000;

/// `struct ifreq` of `linux/if.h` as `TUNSETIFF` uses it: name, flags, and the rest of its union.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; IFNAMSIZ],
    flags: u16,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<InterfaceRequest>() == size_of::<libc::ifreq>());

/// Creates the TUN device `name` in the network namespace of the calling thread. One read returns
/// one IP packet, and one write sends one; reads do not block. The device lives as long as the
/// file.
///
/// # Errors
/// The kernel has no TUN driver, the caller is not privileged, or the name is taken or too long.
pub(crate) fn open(name: &str) -> Result<File> {
    let mut request =
        InterfaceRequest { name: [0; IFNAMSIZ], flags: IFF_TUN | IFF_NO_PI, rest: [0; 22] };
    // The name must end with a zero.
    request
        .name
        .get_mut(..name.len())
        .filter(|_| name.len() < IFNAMSIZ)
        .ok_or_else(|| anyhow!("{name} is too long for a device name"))?
        .copy_from_slice(name.as_bytes());
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .map_err(|error| {
            environment(format!("cannot open /dev/net/tun ({error}): run `modprobe tun`"))
        })?;
    const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<libc::c_int>(b'T', 202);
    // SAFETY: TUNSETIFF is a valid opcode, and its argument is a `struct ifreq`: `InterfaceRequest`
    // has the same size and leading fields. The kernel writes back the name that it chose.
    let updater = unsafe { Updater::<TUNSETIFF, InterfaceRequest>::new(&mut request) };
    // SAFETY: the descriptor is a TUN driver's, which supports this opcode. The kernel reads and
    // writes `size_of::<ifreq>()` octets of `request`, which outlives the call and is not borrowed
    // elsewhere.
    unsafe { ioctl(&file, updater) }.with_context(|| format!("create TUN device {name}"))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_name_without_room_for_its_terminator_is_refused() {
        let error = open("sixteen-letters-").unwrap_err();
        assert!(error.to_string().contains("too long"), "{error}");
    }
}
