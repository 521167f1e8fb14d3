//! A flood of the HTTP interface while adit forwards 80 % of the rate that this setup forwards
//! without loss, and answers heartbeats: neither notices, and the memory and the open files of adit
//! stay within bounds.
//!
//! The loss is compared with that of the same packets without a flood, because other processes of
//! the machine also cost packets. The clients of the flood run when no other process needs their
//! core: the test measures the work of adit for them.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use adit_types::limits::{API_BODY_BYTES_MAX, API_CONNECTIONS_MAX, API_REFUSALS_MAX};

use super::{ACTS, Behind, DAEMON, TestSmf, get, run_inside, smf, with_tokens};

/// How long the flood lasts, and the packets without it.
const FLOOD: Duration = Duration::from_secs(8);
const CONTROL: Duration = Duration::from_secs(4);

/// Packets leave in groups, one in this time.
const INTERVAL: Duration = Duration::from_millis(2);

/// Packets of a group, while the rate is found: at most, and for how long each number.
const GROUP_MAX: u32 = 128;
const TRIAL: Duration = Duration::from_millis(500);

/// The share of packets that the flood may cost. Unit: 1.
const LOSS_MAX: f64 = 0.01;

/// Attempts: the flood affects each, a pause of this process does not.
const ATTEMPTS: u32 = 3;

const PATIENCE: Duration = Duration::from_secs(20);

/// Connections that are open and say nothing.
const SILENT: u16 = 1000;

/// Growth of adit's memory by a flood: connections have buffers of some tens of KiB.
const GROWTH_KIB_MAX: u64 = 64 << 10;

/// Other files that adit may open meanwhile, such as those of `adit show`, and connections that end
/// for others.
const OTHER_FILES: usize = 24;

#[test]
fn flood_costs_no_packet_and_no_heartbeat() {
    let told = run_inside(
        "http_api::flood::flood_costs_no_packet_and_no_heartbeat",
        Behind::Links,
        with_tokens,
        |_| {
            allow_open_files();
            let mut smf = TestSmf::associated();
            smf.establish(1).unwrap();
            let gnb = gnb_socket();
            let host = UdpSocket::bind(("10.0.6.1", 0)).unwrap();
            first_packet_arrives(&host, &gnb);
            let links = TestLinks { host, gnb };
            let group = links.group_without_loss() * 4 / 5;
            let (files, memory) = (open_files(), memory_kib());
            let costs = (1..=ATTEMPTS).map(|_| {
                let control = links.forward(group.max(1), CONTROL, |is_over| {
                    wait_with_heartbeats(&mut smf, CONTROL, is_over);
                });
                let (told, mut most_files) = (FloodCounts::default(), 0);
                let flooded = links.forward(group.max(1), FLOOD, |is_over| {
                    std::thread::scope(|scope| {
                        for attack in ATTACKS {
                            let told = &told;
                            scope.spawn(move || {
                                run_when_nobody_else_does();
                                attack(told, is_over);
                            });
                        }
                        most_files = wait_with_heartbeats(&mut smf, FLOOD, is_over);
                    });
                });
                println!(
                    "groups of {group}: {control:?} without, {flooded:?} with {told:?}, {files} to {most_files} files, \
                     {memory} KiB, then {} KiB",
                    memory_kib()
                );
                assert!(control.sent > 100 && flooded.sent > 100);
                told.assert_that_it_was_a_flood();
                let files_max = files + API_CONNECTIONS_MAX + API_REFUSALS_MAX + OTHER_FILES;
                assert!(most_files <= files_max, "{most_files} files, {files_max} at most");
                let growth = memory_kib().saturating_sub(memory);
                assert!(growth <= GROWTH_KIB_MAX, "{growth} KiB");
                flooded.loss() - control.loss()
            });
            let costs: Vec<f64> = take_until(costs, |cost| *cost <= LOSS_MAX);
            assert!(costs.last().is_some_and(|cost| *cost <= LOSS_MAX), "{costs:?}");
            is_as_before(files);
        },
    );
    if let Some((said, _)) = told {
        println!("{said}");
    }
}

/// The results of the flood's clients.
#[derive(Debug, Default)]
struct FloodCounts {
    opened: AtomicU64,
    malformed: AtomicU64,
    oversize: AtomicU64,
    wrong_tokens: AtomicU64,
    slow: AtomicU64,
}

impl FloodCounts {
    fn assert_that_it_was_a_flood(&self) {
        let Self { opened, malformed, oversize, wrong_tokens, slow } = self;
        assert!(opened.load(Ordering::Relaxed) >= u64::from(SILENT), "{self:?}");
        for count in [malformed, oversize, wrong_tokens, slow] {
            assert!(count.load(Ordering::Relaxed) > 10, "{self:?}");
        }
    }
}

type Attack = fn(&FloodCounts, &AtomicBool);

const ATTACKS: [Attack; 5] =
    [open_and_wait, send_no_http, send_large_bodies, guess_tokens, go_slowly];

/// A connection from an address of its own: each has a number of connections, and a budget of
/// requests.
fn connect_from(last: u8) -> Option<TcpStream> {
    // SAFETY: no pointers.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
    if socket < 0 {
        return None;
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let len = u32::try_from(size_of::<libc::sockaddr_in>()).unwrap();
    let near = socket_address(Ipv4Addr::new(127, 0, 1, last), 0);
    // SAFETY: the address is one of IPv4 with its length, and the descriptor is open.
    if unsafe { libc::bind(socket.as_raw_fd(), (&raw const near).cast(), len) } != 0 {
        return None;
    }
    let far = socket_address(Ipv4Addr::LOCALHOST, 8080);
    // SAFETY: the same.
    if unsafe { libc::connect(socket.as_raw_fd(), (&raw const far).cast(), len) } != 0 {
        return None;
    }
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    Some(stream)
}

fn socket_address(address: Ipv4Addr, port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: u16::try_from(libc::AF_INET).unwrap(),
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(address).to_be() },
        sin_zero: [0; 8],
    }
}

/// Opens many connections, and says nothing on them.
fn open_and_wait(told: &FloodCounts, is_over: &AtomicBool) {
    let mut open = Vec::new();
    for number in 0..SILENT {
        let stream = connect_from(u8::try_from(number % 50).unwrap());
        told.opened.fetch_add(u64::from(stream.is_some()), Ordering::Relaxed);
        open.push(stream);
    }
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sends octets from addresses of this kind again and again, and reads the answer to each.
fn attack(count: &AtomicU64, is_over: &AtomicBool, first: u8, octets: &[&[u8]]) {
    for (last, octets) in (first..first + 40).cycle().zip(octets.iter().cycle()) {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        if let Some(mut stream) = connect_from(last) {
            // Who refuses a request may close before it is sent.
            let _ = stream.write_all(octets);
            let mut answer = [0; 256];
            let answered = stream.read(&mut answer);
            count.fetch_add(u64::from(answered.is_ok()), Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn send_no_http(told: &FloodCounts, is_over: &AtomicBool) {
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(40_000));
    let octets: [&[u8]; 4] = [
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        long.as_bytes(),
    ];
    attack(&told.malformed, is_over, 60, &octets);
}

fn send_large_bodies(told: &FloodCounts, is_over: &AtomicBool) {
    let head = |len: usize| {
        format!(
            "PUT /v1/drain HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ACTS}\r\n\
             content-type: application/json\r\ncontent-length: {len}\r\n\r\n"
        )
    };
    let whole = head(4 * API_BODY_BYTES_MAX) + &"x".repeat(4 * API_BODY_BYTES_MAX);
    let endless = head(1 << 40);
    attack(&told.oversize, is_over, 110, &[whole.as_bytes(), endless.as_bytes()]);
}

fn guess_tokens(told: &FloodCounts, is_over: &AtomicBool) {
    let guess =
        b"GET /v1/node HTTP/1.1\r\nhost: x\r\nauthorization: Bearer 00000000000000000000\r\n\r\n";
    attack(&told.wrong_tokens, is_over, 160, &[guess]);
}

/// Sends requests an octet at a time, and reads no answers.
fn go_slowly(told: &FloodCounts, is_over: &AtomicBool) {
    let request =
        format!("GET /v1/live HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ACTS}\r\n\r\n");
    let mut open = Vec::new();
    for octet in request.as_bytes().iter().cycle() {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        // These clients have shown no token yet, so the server closes the oldest of them to admit
        // new ones; then we connect again.
        if open.is_empty() {
            open.extend((210..250).cycle().take(80).filter_map(connect_from));
        }
        open.retain(|mut stream| stream.write_all(&[*octet]).is_ok());
        told.slow.fetch_add(u64::from(!open.is_empty()), Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The gNB's side of N3, with room for packets that arrive while this process waits for a core.
fn gnb_socket() -> UdpSocket {
    let socket = UdpSocket::bind((smf::GNB, 2152)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let octets: libc::c_int = 8 << 20;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
    let len = u32::try_from(size_of_val(&octets)).unwrap();
    // SAFETY: the option is an integer of this length, and the descriptor is open.
    let set = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const octets).cast(), len)
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    socket
}

/// Sends a numbered packet to the UE.
fn send(host: &UdpSocket, number: u64) {
    let ue: SocketAddr = ([10, 45, 0, 1], 9).into();
    host.send_to(&number.to_be_bytes(), ue).unwrap();
}

/// The number of a packet that arrives; `None` if none does.
fn receive(gnb: &UdpSocket) -> Option<u64> {
    let mut octets = [0; 512];
    let len = gnb.recv(&mut octets).ok()?;
    octets[..len].last_chunk().map(|number| u64::from_be_bytes(*number))
}

/// Link-layer addresses are resolved by the first packets.
fn first_packet_arrives(host: &UdpSocket, gnb: &UdpSocket) {
    let end = Instant::now() + PATIENCE;
    loop {
        send(host, 0);
        if receive(gnb).is_some() {
            break;
        }
        assert!(Instant::now() < end, "no packet arrives");
    }
    while receive(gnb).is_some() {}
}

/// The values up to the first that fits.
fn take_until<T>(values: impl Iterator<Item = T>, fits: impl Fn(&T) -> bool) -> Vec<T> {
    let mut taken = Vec::new();
    for value in values {
        let is_last = fits(&value);
        taken.push(value);
        if is_last {
            break;
        }
    }
    taken
}

/// Both sides of adit.
struct TestLinks {
    host: UdpSocket,
    gnb: UdpSocket,
}

/// The counts of forwarded packets.
#[derive(Debug)]
struct ForwardedPackets {
    sent: u64,
    lost: u64,
}

impl ForwardedPackets {
    #[allow(clippy::cast_precision_loss, reason = "counts of seconds")]
    fn loss(&self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }
}

impl TestLinks {
    /// Sends groups of packets while `meanwhile` runs, which ends them.
    fn forward(
        &self,
        group: u32,
        most: Duration,
        meanwhile: impl FnOnce(&AtomicBool),
    ) -> ForwardedPackets {
        let is_over = AtomicBool::new(false);
        let (sent, received) = std::thread::scope(|scope| {
            let sends = scope.spawn(|| send_packets(&self.host, group, &is_over, 2 * most));
            let receives = scope.spawn(|| receive_packets(&self.gnb, &is_over));
            meanwhile(&is_over);
            is_over.store(true, Ordering::Relaxed);
            (sends.join().unwrap(), receives.join().unwrap())
        });
        let lost = (1..=sent).filter(|number| !received.contains(number)).count();
        ForwardedPackets { sent, lost: lost as u64 }
    }

    /// The largest group of packets that adit forwards without loss.
    fn group_without_loss(&self) -> u32 {
        let is_forwarded = |group: &u32| {
            let trial = self.forward(*group, TRIAL, |_| std::thread::sleep(TRIAL));
            trial.lost == 0 && trial.sent > 0
        };
        let sizes = core::iter::successors(Some(1), |size: &u32| Some(size * 2));
        let sizes = sizes.take_while(|size| *size <= GROUP_MAX);
        sizes.take_while(is_forwarded).last().unwrap_or(1)
    }
}

/// Answers of heartbeats for a while. Returns the most files that adit has open meanwhile.
fn wait_with_heartbeats(smf: &mut TestSmf, time: Duration, is_over: &AtomicBool) -> usize {
    let (end, mut most) = (Instant::now() + time, 0);
    while Instant::now() < end {
        smf.heartbeat();
        most = most.max(open_files());
        std::thread::sleep(Duration::from_millis(50));
    }
    is_over.store(true, Ordering::Relaxed);
    most
}

/// This thread gets a core when no other one needs it.
fn run_when_nobody_else_does() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters are read; 0 is this thread.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Sends groups of packets at a fixed rate. Returns the number of the last one.
fn send_packets(host: &UdpSocket, group: u32, is_over: &AtomicBool, most: Duration) -> u64 {
    let (began, mut number) = (Instant::now(), 0);
    while !is_over.load(Ordering::Relaxed) && began.elapsed() < most {
        for _ in 0..group {
            number += 1;
            send(host, number);
        }
        // A late group is not made up for: the rate is never higher.
        std::thread::sleep(INTERVAL);
    }
    number
}

/// Takes packets until none has arrived for a while after the end.
fn receive_packets(gnb: &UdpSocket, is_over: &AtomicBool) -> BTreeSet<u64> {
    let mut numbers = BTreeSet::new();
    let mut silent = 0;
    while silent < 5 {
        match receive(gnb) {
            Some(number) => silent = usize::from(!numbers.insert(number)),
            None if is_over.load(Ordering::Relaxed) => silent += 1,
            None => {}
        }
    }
    numbers
}

fn of_daemon(file: &str) -> String {
    format!("/proc/{}/{file}", std::env::var(DAEMON).unwrap())
}

fn open_files() -> usize {
    std::fs::read_dir(of_daemon("fd")).unwrap().count()
}

fn memory_kib() -> u64 {
    let status = std::fs::read_to_string(of_daemon("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The interface serves again, and its files are closed.
fn is_as_before(files: usize) {
    let end = Instant::now() + PATIENCE;
    while open_files() > files + OTHER_FILES {
        assert!(Instant::now() < end, "{} files", open_files());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(get("/v1/node", ACTS).status, 200);
}

/// This process needs more open files than usual.
fn allow_open_files() {
    let wanted = libc::rlimit { rlim_cur: 8192, rlim_max: 8192 };
    // SAFETY: the limit is read.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}
