//! The XDP program on a device with two receive queues: each gives its packets to its own AF_XDP
//! socket.
//!
//! DPDK's driver opens one queue of a veth device, because veth has no combined channels. So the
//! sockets are the test's own, without buffers: the kernel counts what reaches them, and only if it
//! arrived on their queue.

use core::ffi::c_int;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use adit_rules::OffloadInterface;
use adit_testkit::packet::PacketBuilder;
use adit_tests::process::{TestNamespace, is_root, run, skip_on_this_machine};
use adit_types::{DomainId, InterfaceId, InterfaceRole, MacAddr, Nanos, PortId, VlanId};
use adit_xdp::XdpConfig;

/// Environment variable of the run inside the namespace.
const INSIDE: &str = "ADIT_TEST_INSIDE";
const TEST: &str = "xdp_queues::each_queue_gives_its_packets_to_its_socket";
const PATIENCE: Duration = Duration::from_secs(10);
const QUEUES: [u32; 2] = [0, 1];
/// Packets of different flows, which the sender's device spreads over its queues.
const PACKETS: u16 = 64;
/// Size of the memory that sockets receive into.
const UMEM_LEN: usize = 1 << 16;

#[test]
fn each_queue_gives_its_packets_to_its_socket() {
    let _alone = crate::alone();
    if std::env::var_os(INSIDE).is_some() {
        return receive();
    }
    if Command::new("ethtool").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip_on_this_machine("no ethtool");
    }
    if !is_root() {
        return;
    }
    let namespace = TestNamespace::new("xdpqueues");
    let queues = ["numtxqueues", "2", "numrxqueues", "2"];
    let ends = [&["link", "add", "up0"][..], &queues, &["type", "veth", "peer", "name", "gnb0"]];
    namespace.ip(&[&ends.concat()[..], &queues].concat());
    for end in ["up0", "gnb0"] {
        namespace.ip(&["link", "set", end, "addrgenmode", "none", "up"]);
    }
    let output = run(namespace.this_test(TEST).env(INSIDE, ""), Duration::from_secs(60));
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    print!("{told}");
}

fn receive() {
    let device = number_of("up0");
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    let interface = OffloadInterface {
        id: InterfaceId(0),
        role: InterfaceRole::N3,
        domain: DomainId(0),
        port: PortId(0),
        vlan: VlanId::UNTAGGED,
        mac,
        mtu_bytes: 1500,
        keeps_syns: false,
        v4: Some([10, 0, 3, 2].into()),
        v6: None,
    };
    let config = XdpConfig {
        sessions_max: 16,
        teid_slot_bits: 5,
        next_hops_max: 64,
        interfaces: vec![interface],
        ue_pools_v4: Vec::new(),
        devices: vec![(PortId(0), device)],
    };
    let (_offload, mut programs) = match adit_xdp::load(&config, || Nanos(0)) {
        Ok(loaded) => loaded,
        Err(error) => return skip_on_this_machine(&error.0),
    };
    let sockets = QUEUES.map(|queue| XdpSocket::bind(device, queue));
    let by_queue: Vec<_> = QUEUES.into_iter().zip(sockets.iter().map(|of| of.0.as_fd())).collect();
    programs[0].attach(device, &by_queue).unwrap();

    let sender = packet_socket(number_of("gnb0"));
    for flow in 0..PACKETS {
        let frame = PacketBuilder::ethernet(mac, MacAddr([2, 0xaa, 0, 0, 0, 1]))
            .ipv4("10.0.3.1", "10.0.3.2")
            .udp(1000 + flow, 2152)
            .payload(&[0x5a; 40])
            .build();
        // SAFETY: reads the octets of `frame`.
        let sent = unsafe { libc::send(sender.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(usize::try_from(sent), Ok(frame.len()), "{}", std::io::Error::last_os_error());
    }
    let end = Instant::now() + PATIENCE;
    loop {
        let counts = sockets.each_ref().map(XdpSocket::arrived);
        if counts.iter().sum::<u64>() == u64::from(PACKETS) {
            assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
            break;
        }
        assert!(Instant::now() < end, "{counts:?} of {PACKETS}");
        std::thread::sleep(Duration::from_millis(10));
    }
    for program in &mut programs {
        program.detach().unwrap();
    }
}

fn number_of(device: &str) -> u32 {
    fs::read_to_string(format!("/sys/class/net/{device}/ifindex")).unwrap().trim().parse().unwrap()
}

fn is_ok(code: c_int) {
    assert_eq!(code, 0, "{}", std::io::Error::last_os_error());
}

fn socket(family: c_int, protocol: c_int) -> OwnedFd {
    // SAFETY: takes numbers, returns a descriptor or -1.
    let fd = unsafe { libc::socket(family, libc::SOCK_RAW, protocol) };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the descriptor is new and nobody else's.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn bind<A>(socket: &OwnedFd, address: &A) {
    let len = u32::try_from(size_of::<A>()).unwrap();
    // SAFETY: reads a structure of this length.
    is_ok(unsafe { libc::bind(socket.as_raw_fd(), core::ptr::from_ref(address).cast(), len) });
}

/// A socket that sends on a device.
fn packet_socket(device: u32) -> OwnedFd {
    let socket = socket(libc::AF_PACKET, 0);
    // SAFETY: numbers only.
    let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET).unwrap();
    address.sll_ifindex = device.try_into().unwrap();
    bind(&socket, &address);
    socket
}

/// An AF_XDP socket without buffers.
struct XdpSocket(OwnedFd);

impl XdpSocket {
    fn bind(device: u32, queue: u32) -> Self {
        let socket = socket(libc::AF_XDP, 0);
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, which stays as long as the process.
        let memory = unsafe { libc::mmap(core::ptr::null_mut(), UMEM_LEN, access, flags, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED);
        // SAFETY: numbers only.
        let mut area: libc::xdp_umem_reg = unsafe { core::mem::zeroed() };
        area.addr = memory as u64;
        area.len = UMEM_LEN as u64;
        area.chunk_size = 2048;
        set(&socket, libc::XDP_UMEM_REG, &area);
        for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING] {
            set(&socket, ring, &64_u32);
        }
        // SAFETY: numbers only.
        let mut address: libc::sockaddr_xdp = unsafe { core::mem::zeroed() };
        address.sxdp_family = u16::try_from(libc::AF_XDP).unwrap();
        address.sxdp_flags = libc::XDP_COPY;
        address.sxdp_ifindex = device;
        address.sxdp_queue_id = queue;
        bind(&socket, &address);
        Self(socket)
    }

    /// Packets that reached it, all of which the kernel dropped.
    fn arrived(&self) -> u64 {
        // SAFETY: numbers only.
        let mut counts: libc::xdp_statistics = unsafe { core::mem::zeroed() };
        let mut len = u32::try_from(size_of_val(&counts)).unwrap();
        let (fd, to) = (self.0.as_raw_fd(), (&raw mut counts).cast());
        // SAFETY: writes a structure of this length.
        is_ok(unsafe {
            libc::getsockopt(fd, libc::SOL_XDP, libc::XDP_STATISTICS, to, &raw mut len)
        });
        counts.rx_dropped
    }
}

fn set<T>(socket: &OwnedFd, option: c_int, value: &T) {
    let len = u32::try_from(size_of::<T>()).unwrap();
    let from = core::ptr::from_ref(value).cast();
    // SAFETY: reads a structure of this length.
    is_ok(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, from, len) });
}
