//! Packet sockets on devices as the kernel makes them, with all offloads. Needs root; without it
//! the tests print `skipped: reason`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use adit_kernel::{KernelPort, PacketConfig, open_packet};
use adit_pktio::mem::MemBuf;
use adit_pktio::{Burst, PacketBuf};
use adit_wire::checksum::Sum;
use adit_wire::{parse_frame, parse_ip, protocol};

const PATIENCE: Duration = Duration::from_secs(20);
const FRAME_MAX: usize = 1514;
const LEFT: &str = "10.7.0.1";
const RIGHT: &str = "10.7.0.2";
const LEFT_V6: &str = "fd07::1";
const RIGHT_V6: &str = "fd07::2";

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

/// Runs `work` in a network namespace of its own; `None` without the right to make one.
fn in_namespace<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<Option<T>> {
    std::thread::spawn(move || {
        // SAFETY: takes a number; it changes this thread only.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            println!("skipped: no right to create network namespaces");
            return None;
        }
        std::fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0").unwrap();
        ip("link set lo up");
        Some(work())
    })
}

/// The frames that a port received.
#[derive(Debug, Default)]
struct SeenFrames {
    count: usize,
    longest: usize,
    fragments: usize,
    /// Packets whose headers, lengths or checksums are not those of a packet on a wire.
    wrong: Vec<Vec<u8>>,
}

impl SeenFrames {
    fn note(&mut self, frame: &[u8]) {
        self.count += 1;
        self.longest = self.longest.max(frame.len());
        let link = parse_frame(frame).unwrap();
        let l3 = &frame[usize::from(link.l3_offset)..];
        let Ok(packet) = parse_ip(l3, true) else { return };
        if packet.is_fragment() {
            self.fragments += 1;
            return;
        }
        let upper = packet.payload(l3);
        let pseudo = if l3[0] >> 4 == 4 { &l3[12..20] } else { &l3[8..40] };
        let len = u16::try_from(upper.len()).unwrap();
        let sum = Sum::new().bytes(pseudo).word(packet.protocol.into()).word(len);
        let is_checked = [protocol::TCP, protocol::UDP].contains(&packet.protocol);
        if is_checked && sum.bytes(upper).checksum() != 0 {
            self.wrong.push(frame.to_vec());
        }
    }
}

/// Two hosts, each in a namespace of its own, and between them two ports that forward frames to
/// each other.
fn with_hosts(
    left: impl FnOnce() + Send + 'static,
    right: impl FnOnce() + Send + 'static,
) -> Option<SeenFrames> {
    let (tids, tid) = channel();
    let (go, wait) = (Arc::new(std::sync::Barrier::new(3)), Arc::new(AtomicBool::new(false)));
    // Each host holds one until its work is done, and its namespace until the ports have forwarded
    // all.
    let (at_work, is_done) = channel::<()>();
    let mut holds = Vec::new();
    let mut host = |own: &'static str, own_v6: &'static str, work: Box<dyn FnOnce() + Send>| {
        let (tids, go, at_work) = (tids.clone(), Arc::clone(&go), at_work.clone());
        let (hold, is_released) = channel::<()>();
        holds.push(hold);
        in_namespace(move || {
            // SAFETY: returns a number.
            tids.send((own, unsafe { libc::gettid() })).unwrap();
            go.wait();
            ip("link set host up");
            ip(&format!("address add {own}/24 dev host"));
            ip(&format!("address add {own_v6}/64 dev host nodad"));
            go.wait();
            work();
            drop(at_work);
            let _ = is_released.recv();
        })
    };
    let threads = [host(LEFT, LEFT_V6, Box::new(left)), host(RIGHT, RIGHT_V6, Box::new(right))];
    let stop = Arc::clone(&wait);
    let middle = in_namespace(move || {
        let mut tids: Vec<_> = (0..2).map(|_| tid.recv_timeout(PATIENCE).unwrap()).collect();
        tids.sort_unstable();
        for (device, (_, tid)) in ["one", "two"].iter().zip(&tids) {
            ip(&format!("link add {device} type veth peer name host netns {tid}"));
            ip(&format!("link set {device} up"));
        }
        go.wait();
        let open = |device| {
            let config = PacketConfig { device, queues: 1, mtu_bytes: 1500 };
            KernelPort::Packet(open_packet(&config).unwrap().remove(0))
        };
        let mut ports = [open("one"), open("two")];
        go.wait();
        let mut seen = SeenFrames::default();
        while !stop.load(Ordering::Relaxed) {
            for (from, to) in [(0, 1), (1, 0)] {
                let mut burst = Burst::<MemBuf>::new();
                ports[from].rx_burst(64, &mut burst, || Some(MemBuf::new()));
                burst.iter().for_each(|frame| seen.note(frame.data()));
                let start = Instant::now();
                while !burst.is_empty() && start.elapsed() < PATIENCE {
                    ports[to].tx_burst(&mut burst);
                }
            }
        }
        for port in &ports {
            let counters = port.counters().read();
            assert_eq!(counters.rx_missed_pkts + counters.rx_unusable_pkts, 0, "{counters:?}");
            assert_eq!(counters.tx_refused_pkts, 0, "{counters:?}");
        }
        seen
    });
    drop(at_work);
    let _ = is_done.recv();
    wait.store(true, Ordering::Relaxed);
    let seen = middle.join();
    drop(holds);
    threads.into_iter().for_each(|host| assert!(host.join().is_ok()));
    seen.unwrap()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect()
}

#[test]
fn tcp_of_hosts_with_all_offloads_passes_as_packets_of_a_wire() {
    for (address, server) in [(RIGHT, "10.7.0.2:80"), (RIGHT_V6, "[fd07::2]:80")] {
        let server: SocketAddr = server.parse().unwrap();
        let (ready, is_ready) = channel();
        let seen = with_hosts(
            move || {
                is_ready.recv_timeout(PATIENCE).unwrap();
                let mut stream = TcpStream::connect_timeout(&server, PATIENCE).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.set_nodelay(true).unwrap();
                let sent = pattern(8 << 20);
                let mut echo = vec![0; sent.len()];
                let (mut writer, octets) = (stream.try_clone().unwrap(), sent.clone());
                let writing = std::thread::spawn(move || writer.write_all(&octets).unwrap());
                stream.read_exact(&mut echo).unwrap();
                writing.join().unwrap();
                assert!(echo == sent, "the echo differs");
            },
            move || {
                let listener = TcpListener::bind(server).unwrap();
                ready.send(()).unwrap();
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut octets = vec![0; 8 << 20];
                stream.read_exact(&mut octets).unwrap();
                stream.write_all(&octets).unwrap();
            },
        );
        let Some(seen) = seen else { return };
        assert!(
            seen.wrong.is_empty(),
            "{address}: {} wrong, {:x?}",
            seen.wrong.len(),
            seen.wrong[0]
        );
        assert_eq!(seen.longest, FRAME_MAX, "{address}");
        assert!(seen.count > 2 * (8 << 20) / 1500, "{address}: {}", seen.count);
    }
}

#[test]
fn datagrams_that_a_host_sends_at_once_arrive_one_by_one_and_fragments_as_they_are() {
    const SIZE: usize = 1200;
    let server: SocketAddr = "10.7.0.2:7000".parse().unwrap();
    let (ready, is_ready) = channel();
    let seen = with_hosts(
        move || {
            is_ready.recv_timeout(PATIENCE).unwrap();
            let client = UdpSocket::bind("10.7.0.1:0").unwrap();
            // The first one waits for the neighbor alone.
            client.send_to(&pattern(10), server).unwrap();
            let value: libc::c_int = 1200;
            let pointer = core::ptr::from_ref(&value).cast();
            let len = u32::try_from(size_of::<libc::c_int>()).unwrap();
            // SAFETY: an option of four octets that live across the call.
            let set = unsafe {
                libc::setsockopt(client.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, pointer, len)
            };
            assert_eq!(set, 0);
            client.send_to(&pattern(20 * SIZE + 7), server).unwrap();
            let plain = UdpSocket::bind("10.7.0.1:0").unwrap();
            plain.send_to(&pattern(60_000), server).unwrap();
        },
        move || {
            let socket = UdpSocket::bind(server).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            ready.send(()).unwrap();
            let mut octets = vec![0; 65_536];
            let mut next = || {
                let len = socket.recv(&mut octets).unwrap();
                octets[..len].to_vec()
            };
            assert_eq!(next(), pattern(10));
            let all = pattern(20 * SIZE + 7);
            all.chunks(SIZE).for_each(|part| assert_eq!(next(), part));
            assert_eq!(next(), pattern(60_000));
        },
    );
    let Some(seen) = seen else { return };
    assert!(seen.wrong.is_empty(), "{:x?}", seen.wrong);
    assert_eq!((seen.fragments, seen.longest), (60_008_usize.div_ceil(1480), FRAME_MAX));
}

#[test]
fn tags_stay_and_a_device_divides_its_flows_among_sockets() {
    let namespace = in_namespace(|| {
        // Nothing but what the test sends.
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        ip("link add one type veth peer name two");
        ip("link set one up");
        ip("link set two up");
        let open = |device, queues| {
            open_packet(&PacketConfig { device, queues, mtu_bytes: 1500 }).unwrap()
        };
        let mut receivers = open("one", 2);
        let mut sender = open("two", 1).remove(0);
        let frame = |tag: &[u8], port: u8| {
            let mut frame = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2];
            frame.extend(tag);
            frame.extend([0x08, 0, 0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0x26, 0xc0]);
            frame.extend([10, 7, 0, 1, 10, 7, 0, 2, 0x10, port, 0, 9, 0, 12, 0, 0, 1, 2, 3, port]);
            frame.resize(60, 0);
            frame
        };
        let tags: [&[u8]; 3] = [&[], &[0x81, 0, 0x60, 5], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8]];
        let mut sent: Vec<Vec<u8>> =
            (0..48).map(|number| frame(tags[usize::from(number % 3)], number)).collect();
        let mut burst: Burst<MemBuf> = sent.iter().map(|of| MemBuf::from_packet(of)).collect();
        assert_eq!(sender.tx_burst(&mut burst), sent.len());
        let (mut got, mut shares) = (Vec::new(), [0; 2]);
        let start = Instant::now();
        while got.len() < sent.len() && start.elapsed() < PATIENCE {
            for (receiver, share) in receivers.iter_mut().zip(&mut shares) {
                let mut burst = Burst::<MemBuf>::new();
                *share += receiver.rx_burst(64, &mut burst, || Some(MemBuf::new()));
                got.extend(burst.iter().map(|buf| buf.data().to_vec()));
            }
        }
        got.sort_unstable();
        sent.sort_unstable();
        assert_eq!(got, sent);
        assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
        // Frames that the device sends itself do not come back.
        let mut burst: Burst<MemBuf> = [MemBuf::from_packet(&frame(&[], 1))].into_iter().collect();
        assert_eq!(receivers[0].tx_burst(&mut burst), 1);
        std::thread::sleep(Duration::from_millis(50));
        let mut burst = Burst::<MemBuf>::new();
        receivers.iter_mut().for_each(|of| {
            of.rx_burst(64, &mut burst, || Some(MemBuf::new()));
        });
        assert!(burst.is_empty());
    });
    namespace.join().unwrap();
}

#[test]
fn device_that_cannot_be_a_port_is_refused_by_name_and_a_narrow_one_is_widened() {
    let namespace = in_namespace(|| {
        let open = |device, mtu_bytes| open_packet(&PacketConfig { device, queues: 1, mtu_bytes });
        let refused = open("none", 1500).unwrap_err().to_string();
        assert!(refused.contains("cannot find none"), "{refused}");
        let refused = open("lo", 1500).unwrap_err().to_string();
        assert!(refused.contains("lo: it is no Ethernet device"), "{refused}");
        ip("link add one type veth peer name two");
        open("one", 9000).unwrap();
        let shown = Command::new("ip").args(["link", "show", "one"]).output().unwrap();
        assert!(String::from_utf8_lossy(&shown.stdout).contains("mtu 9000"));
    });
    namespace.join().unwrap();
}
