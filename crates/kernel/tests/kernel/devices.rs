//! Kernel ports over real sockets and TUN devices. TUN devices need root; without it their tests
//! print `skipped: reason`.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use adit_kernel::{
    IpNetwork, KernelPort, PORT_MAC, STATION_MAC, TunConfig, TunQueue, UdpPort, UdpPortConfig,
    open_tun,
};
use adit_pktio::mem::MemBuf;
use adit_pktio::{Burst, PacketBuf};
use adit_types::{Owners, SessionIndex};
use adit_wire::udp::UdpHeader;
use adit_wire::{parse_frame, parse_ip};

const PATIENCE: Duration = Duration::from_secs(10);

fn some() -> Option<MemBuf> {
    Some(MemBuf::new())
}

/// Receives `count` frames.
fn receive(port: &mut KernelPort, limit: usize, count: usize) -> Vec<Vec<u8>> {
    let start = Instant::now();
    let mut frames = Vec::new();
    while frames.len() < count {
        assert!(start.elapsed() < PATIENCE, "{} of {count} packets arrived", frames.len());
        let mut burst = Burst::<MemBuf>::new();
        assert_eq!(port.rx_burst(limit, &mut burst, some), burst.len());
        assert!(burst.len() <= limit);
        frames.extend(burst.iter().map(|buf| buf.data().to_vec()));
    }
    frames
}

/// Source, destination and payload of a frame with a UDP datagram.
fn datagram(frame: &[u8]) -> (SocketAddr, SocketAddr, Vec<u8>) {
    let link = parse_frame(frame).unwrap();
    let l3 = &frame[usize::from(link.l3_offset)..];
    let ip = parse_ip(l3, true).unwrap();
    let (udp, payload) = UdpHeader::parse(ip.payload(l3)).unwrap();
    let from = SocketAddr::new(ip.addrs.src(), udp.src_port());
    (from, SocketAddr::new(ip.addrs.dst(), udp.dst_port()), payload.to_vec())
}

/// Makes an answer of a received frame: its headers with source and destination exchanged.
fn turn_around(frame: &mut [u8]) {
    let (l3, udp) = if frame[12] == 0x08 { (26, 34) } else { (22, 54) };
    let addr = (udp - l3) / 2;
    for (one, other, len) in [(l3, l3 + addr, addr), (udp, udp + 2, 2)] {
        for at in 0..len {
            frame.swap(one + at, other + at);
        }
    }
}

fn open_udp(address: &str) -> (KernelPort, SocketAddr) {
    let addresses = vec![address.parse().unwrap()];
    let config = UdpPortConfig { addresses, mtu_bytes: 1500, free_bind: false };
    let port = UdpPort::open(&config).unwrap();
    let bound = port.local_addresses().next().unwrap();
    (KernelPort::Udp(port), bound)
}

#[test]
fn datagrams_arrive_in_frames_and_answers_reach_their_senders() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (mut port, bound) = open_udp(address);
        let client = UdpSocket::bind(address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        // Sizes that are joined, and sizes that are not.
        let sizes: Vec<usize> =
            (0..100).map(|number| if number < 60 { 900 } else { 12 + number * 13 % 400 }).collect();
        let payload = |number: usize| {
            let mut octets = vec![u8::try_from(number).unwrap(); sizes[number]];
            octets[0] = 0x34;
            octets
        };
        for number in 0..sizes.len() {
            client.send_to(&payload(number), bound).unwrap();
        }
        let mut frames = receive(&mut port, 7, sizes.len());
        for (number, frame) in frames.iter().enumerate() {
            let link = parse_frame(frame).unwrap();
            assert_eq!((link.dst, link.src), (PORT_MAC, STATION_MAC));
            let wanted = (client.local_addr().unwrap(), bound, payload(number));
            assert_eq!(datagram(frame), wanted);
        }
        for chunk in frames.chunks_mut(32) {
            chunk.iter_mut().for_each(|frame| turn_around(frame));
            let mut burst: Burst<MemBuf> =
                chunk.iter().map(|frame| MemBuf::from_packet(frame)).collect();
            assert_eq!(port.tx_burst(&mut burst), chunk.len());
            assert!(burst.is_empty());
        }
        let mut octets = [0; 2048];
        for number in 0..sizes.len() {
            let (len, from) = client.recv_from(&mut octets).unwrap();
            assert_eq!((from, &octets[..len]), (bound, &*payload(number)));
        }
        let counters = port.counters().read();
        assert_eq!((counters.rx_pkts, counters.tx_pkts), (100, 100));
        assert!(counters.tx_calls < 20, "{counters:?}");
        assert_eq!(counters.tx_refused_pkts + counters.tx_unusable_pkts, 0);
    }
}

#[test]
fn joined_datagrams_are_cut_into_the_bursts_that_are_asked_for() {
    let (mut port, bound) = open_udp("127.0.0.1:0");
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    let size: libc::c_int = 1000;
    let pointer = core::ptr::from_ref(&size).cast();
    // SAFETY: the kernel reads four octets of a live integer.
    let set = unsafe {
        libc::setsockopt(client.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, pointer, 4)
    };
    if set != 0 {
        println!("skipped: this kernel has no UDP_SEGMENT");
        return;
    }
    let sent: Vec<u8> = (0..20_500).map(|at: usize| u8::try_from(at % 251).unwrap()).collect();
    client.send_to(&sent, bound).unwrap();
    let frames = receive(&mut port, 4, 21);
    let parts: Vec<Vec<u8>> = frames.iter().map(|frame| datagram(frame).2).collect();
    assert!(parts[..20].iter().all(|part| part.len() == 1000));
    assert_eq!(parts.concat(), sent);
}

#[test]
fn frames_that_no_socket_can_carry_are_counted_and_do_not_stop_others() {
    let (mut port, bound) = open_udp("127.0.0.1:0");
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.send_to(&[1; 40], bound).unwrap();
    let mut frame = receive(&mut port, 32, 1).remove(0);
    turn_around(&mut frame);
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    let mut unreachable = frame.clone();
    unreachable[30..34].copy_from_slice(&[255, 255, 255, 255]);
    let packets = [&arp, &unreachable, &frame, &arp, &frame];
    let mut burst: Burst<MemBuf> = packets.iter().map(|frame| MemBuf::from_packet(frame)).collect();
    assert_eq!(port.tx_burst(&mut burst), 5);
    for _ in 0..2 {
        assert_eq!(client.recv(&mut [0; 100]).unwrap(), 40);
    }
    let counters = port.counters().read();
    assert_eq!(
        (counters.tx_pkts, counters.tx_refused_pkts, counters.tx_unusable_pkts),
        (2, 1, 2),
        "{counters:?}"
    );
}

#[test]
fn packets_without_a_buffer_are_counted() {
    let (mut port, bound) = open_udp("127.0.0.1:0");
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(&[1; 40], bound).unwrap();
    let start = Instant::now();
    while port.counters().read().rx_no_buffer_pkts == 0 {
        assert!(start.elapsed() < PATIENCE);
        let mut burst = Burst::<MemBuf>::new();
        assert_eq!(port.rx_burst(32, &mut burst, || None), 0);
    }
    assert_eq!(port.counters().read().rx_pkts, 0);
}

#[test]
fn burst_without_buffers_ends_while_datagrams_wait() {
    let (mut port, bound) = open_udp("127.0.0.1:0");
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..1000 {
        client.send_to(&[1; 40], bound).unwrap();
    }
    let mut burst = Burst::<MemBuf>::new();
    assert_eq!(port.rx_burst(32, &mut burst, || None), 0);
    let lost = port.counters().read().rx_no_buffer_pkts;
    assert!((1..=500).contains(&lost), "{lost} of 1000 in one burst");
    let frames = receive(&mut port, 32, 1);
    assert_eq!(datagram(&frames[0]).2, [1; 40]);
}

#[test]
fn datagrams_of_one_family_do_not_hold_up_those_of_the_other() {
    let local = |address: &str| address.parse::<SocketAddr>().unwrap();
    let addresses = vec![local("127.0.0.1:0"), local("[::1]:0")];
    let port =
        UdpPort::open(&UdpPortConfig { addresses, mtu_bytes: 1500, free_bind: false }).unwrap();
    let bound: Vec<_> = port.local_addresses().collect();
    let mut port = KernelPort::Udp(port);
    for (bound, address, count) in [(bound[0], "127.0.0.1:0", 200), (bound[1], "[::1]:0", 1)] {
        let client = UdpSocket::bind(address).unwrap();
        for _ in 0..count {
            client.send_to(&[1; 40], bound).unwrap();
        }
    }
    let frames = receive(&mut port, 8, 16);
    assert!(frames.iter().any(|frame| datagram(frame).1 == bound[1]), "IPv6 within two bursts");
    receive(&mut port, 8, 201 - frames.len());
}

#[test]
fn datagrams_arrive_at_the_owners_of_their_sessions() {
    const WORKERS: usize = 3;
    let (first, bound) = open_udp("127.0.0.1:0");
    let mut ports = vec![first];
    for _ in 1..WORKERS {
        ports.push(open_udp(&bound.to_string()).0);
    }
    let KernelPort::Udp(port) = &ports[0] else { unreachable!("a port of sockets") };
    if let Err(error) = port.steer_to_owners(WORKERS) {
        println!("skipped: {error}");
        return;
    }
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut expected = [0; WORKERS];
    for session in 0..500_u32 {
        let owner = Owners::new(WORKERS).of(SessionIndex(session));
        expected[usize::from(owner.0)] += 1;
        let mut message = vec![0x34, 255, 0, 4];
        message.extend((0xabc0_0000 | session).to_be_bytes());
        message.extend([0; 4]);
        client.send_to(&message, bound).unwrap();
    }
    for (worker, (port, expected)) in ports.iter_mut().zip(expected).enumerate() {
        for frame in receive(port, 32, expected) {
            let (.., payload) = datagram(&frame);
            let teid = u32::from_be_bytes(*payload[4..].first_chunk().unwrap());
            let owner = Owners::new(WORKERS).of(SessionIndex(teid & 0xffff));
            assert_eq!(usize::from(owner.0), worker);
        }
    }
}

/// Puts the calling thread into a network namespace of its own; false without the right to.
fn enter_namespace() -> bool {
    // SAFETY: takes a number; it changes this thread only.
    unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 }
}

fn net(text: &str) -> IpNetwork {
    let (addr, len) = text.split_once('/').unwrap();
    IpNetwork { addr: addr.parse().unwrap(), len: len.parse().unwrap() }
}

fn tun(name: &str, addresses: &[&str], routes: &[&str]) -> TunQueue {
    let nets = |texts: &[&str]| -> Vec<IpNetwork> { texts.iter().map(|text| net(text)).collect() };
    let (addresses, routes) = (nets(addresses), nets(routes));
    let config =
        TunConfig { name, queues: 1, mtu_bytes: 1500, addresses: &addresses, routes: &routes };
    open_tun(&config).unwrap().remove(0)
}

/// Moves frames between two devices until `stop`.
fn pump<'s>(scope: &'s Scope<'s, '_>, queues: [TunQueue; 2], stop: &'s AtomicBool) {
    scope.spawn(move || {
        let mut ports = queues.map(KernelPort::Tun);
        let counters = [ports[0].counters(), ports[1].counters()];
        while !stop.load(Ordering::Relaxed) {
            for (from, to) in [(0, 1), (1, 0)] {
                let mut burst = Burst::<MemBuf>::new();
                ports[from].rx_burst(32, &mut burst, some);
                ports[to].tx_burst(&mut burst);
                assert!(burst.is_empty());
            }
        }
        for counters in counters {
            let counters = counters.read();
            assert_eq!(counters.rx_unusable_pkts + counters.tx_unusable_pkts, 0);
            assert_eq!(counters.tx_refused_pkts, 0, "{counters:?}");
        }
        let read = counters_of(&ports);
        println!("{read:?}");
        assert!(read.tx_pkts > 4 * read.tx_calls, "large packets are joined: {read:?}");
        assert!(read.rx_pkts > 4 * read.rx_calls, "large packets are cut: {read:?}");
    });
}

fn counters_of(ports: &[KernelPort; 2]) -> adit_kernel::PortCounters {
    let mut sum = ports[0].counters().read();
    sum += ports[1].counters().read();
    sum
}

#[test]
fn tcp_between_two_devices_keeps_every_octet() {
    const OCTETS: usize = 40 << 20;
    let octet = |at: usize| u8::try_from((at / 3 + at / 70_001) % 256).unwrap();
    let families: [(&str, [&str; 4]); 2] = [
        ("10.1.0.1", ["10.1.0.1/32", "10.2.0.0/24", "10.2.0.1/32", "10.1.0.0/24"]),
        ("fd01::1", ["fd01::1/128", "fd02::/64", "fd02::1/128", "fd01::/64"]),
    ];
    for (server, [server_addr, server_route, client_addr, client_route]) in families {
        let server: IpAddr = server.parse().unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let one = scope.spawn(move || {
                if !enter_namespace() {
                    return None;
                }
                let queue = tun("left", &[server_addr], &[server_route]);
                Some((queue, TcpListener::bind((server, 4000)).unwrap()))
            });
            let Some((left, listener)) = one.join().unwrap() else {
                println!("skipped: no right to create network namespaces");
                return;
            };
            let (sender, receiver) = std::sync::mpsc::channel();
            let client = scope.spawn(move || {
                assert!(enter_namespace());
                sender.send(tun("right", &[client_addr], &[client_route])).unwrap();
                let mut stream = TcpStream::connect((server, 4000)).unwrap();
                let octets: Vec<u8> = (0..OCTETS).map(octet).collect();
                stream.write_all(&octets).unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).unwrap();
                assert_eq!(answer, b"done");
            });
            let right = receiver.recv().unwrap();
            pump(scope, [left, right], &stop);
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut octets = Vec::new();
            stream.read_to_end(&mut octets).unwrap();
            assert!(
                octets.len() == OCTETS && (0..).zip(&octets).all(|(at, got)| octet(at) == *got)
            );
            stream.write_all(b"done").unwrap();
            drop(stream);
            client.join().unwrap();
            stop.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn device_is_refused_in_one_sentence_without_the_right_to_create_it() {
    let refused = std::thread::spawn(|| {
        // SAFETY: both change only this thread's credentials.
        let is_dropped =
            enter_namespace() && unsafe { libc::syscall(libc::SYS_setuid, 65_534) } == 0;
        let config =
            TunConfig { name: "adit9", queues: 1, mtu_bytes: 1500, addresses: &[], routes: &[] };
        is_dropped.then(|| open_tun(&config).map(drop).unwrap_err().to_string())
    });
    match refused.join().unwrap() {
        Some(text) if text.contains("/dev/net/tun") => {
            println!("skipped: /dev/net/tun is for root only: {text}");
        }
        Some(text) => assert!(text.contains("CAP_NET_ADMIN") && text.contains("adit9"), "{text}"),
        None => println!("skipped: needs root"),
    }
}

#[test]
fn configuration_that_the_kernel_refuses_is_named() {
    let refused = std::thread::spawn(|| {
        enter_namespace().then(|| {
            let first = tun("one", &["10.9.0.1/32"], &["10.45.0.0/16"]);
            let route = [net("10.45.0.0/16")];
            let config = TunConfig {
                name: "two",
                queues: 2,
                mtu_bytes: 1500,
                addresses: &[],
                routes: &route,
            };
            let error = open_tun(&config).unwrap_err().to_string();
            drop(first);
            error
        })
    });
    match refused.join().unwrap() {
        Some(text) => assert!(text.contains("route") && text.contains("two"), "{text}"),
        None => println!("skipped: no right to create network namespaces"),
    }
}

#[test]
fn queues_of_several_workers_share_a_device() {
    let done = std::thread::spawn(|| {
        if !enter_namespace() {
            return false;
        }
        let addresses = [net("10.9.0.1/32")];
        let routes = [net("10.45.0.0/16")];
        let config = TunConfig {
            name: "adit0",
            queues: 3,
            mtu_bytes: 1400,
            addresses: &addresses,
            routes: &routes,
        };
        let mut ports: Vec<_> =
            open_tun(&config).unwrap().into_iter().map(KernelPort::Tun).collect();
        let client = UdpSocket::bind((Ipv4Addr::new(10, 9, 0, 1), 0)).unwrap();
        for number in 0..50_u8 {
            client.send_to(&[number; 100], (Ipv4Addr::new(10, 45, 0, number), 9)).unwrap();
        }
        let start = Instant::now();
        let mut numbers = Vec::new();
        while numbers.len() < 50 {
            assert!(start.elapsed() < PATIENCE);
            for port in &mut ports {
                let mut burst = Burst::<MemBuf>::new();
                port.rx_burst(32, &mut burst, some);
                numbers.extend(burst.iter().map(|buf| datagram(buf.data()).2[0]));
            }
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..50).collect::<Vec<u8>>());
        true
    });
    if !done.join().unwrap() {
        println!("skipped: no right to create network namespaces");
    }
}
