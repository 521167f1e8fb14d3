//! Frames on a network device of the test's namespace.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use adit_types::MacAddr;

/// Receive buffer of the socket: a test's thread may be late. Unit: octets.
static BUFFER_BYTES: i32 = 8 << 20;

/// A packet socket on a device. It receives the frames of others to any link-layer address.
#[derive(Debug)]
pub struct PacketLink {
    socket: OwnedFd,
    /// The link-layer address of the device.
    pub mac: MacAddr,
}

/// The link-layer address of a device.
///
/// # Panics
/// Without the device.
#[must_use]
pub fn mac(device: &str) -> MacAddr {
    let text = sysfs(device, "address");
    let octets: Vec<u8> =
        text.split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
    MacAddr(octets.try_into().unwrap())
}

fn sysfs(device: &str, file: &str) -> String {
    std::fs::read_to_string(format!("/sys/class/net/{device}/{file}")).unwrap().trim().to_owned()
}

impl PacketLink {
    /// Opens a socket on a device.
    ///
    /// # Panics
    /// Without the device, or the right.
    #[must_use]
    pub fn open(device: &str) -> Self {
        let all = u16::try_from(libc::ETH_P_ALL).unwrap().to_be();
        // SAFETY: takes numbers, returns a descriptor or -1.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, all.into()) };
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: the descriptor is new and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let (at, len) = ((&raw const BUFFER_BYTES).cast(), 4);
        let (level, option) = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
        // SAFETY: reads four octets.
        let code = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, len) };
        assert_eq!(code, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: numbers only.
        let mut addr: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
        addr.sll_family = u16::try_from(libc::AF_PACKET).unwrap();
        addr.sll_protocol = all;
        addr.sll_ifindex = sysfs(device, "ifindex").parse().unwrap();
        let len = u32::try_from(size_of::<libc::sockaddr_ll>()).unwrap();
        // SAFETY: reads a structure of this length.
        let code = unsafe { libc::bind(socket.as_raw_fd(), (&raw const addr).cast(), len) };
        assert_eq!(code, 0, "{}", std::io::Error::last_os_error());
        Self { socket, mac: mac(device) }
    }

    /// Sends a frame.
    ///
    /// # Panics
    /// When the kernel refuses it.
    pub fn send(&self, frame: &[u8]) {
        // SAFETY: reads the octets of `frame`.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(usize::try_from(sent), Ok(frame.len()), "{}", std::io::Error::last_os_error());
    }

    /// The next frame, if there is one: also one that this end sent.
    #[must_use]
    pub fn try_receive(&self) -> Option<Vec<u8>> {
        let mut frame = vec![0; 2048];
        let (at, len) = (frame.as_mut_ptr().cast(), frame.len());
        // SAFETY: writes at most the octets of `frame`.
        let got = unsafe { libc::recv(self.socket.as_raw_fd(), at, len, libc::MSG_DONTWAIT) };
        frame.truncate(usize::try_from(got).ok()?);
        Some(frame)
    }
}
