//! One turn: a transport, its server if it is adit-lab's own, and the load of one case.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adit_dpdk::{Port, WorkerIo, WorkerPort, pin_current_thread, register_thread};
use adit_transport::{KernelTcp, KernelWait, UserTcp, UserTcpConfig};
use adit_types::{MacAddr, Nanos, PortId};
use anyhow::{Context, Result, anyhow};

use super::case::{StoreCase, StoreTransport};
use super::link::{PREFIX_LEN, StoreNetwork, UserSide};
use super::load::{LoadControl, LoadOutcome, RunClock, StoreLoad};
use super::one_way::OneWayRun;
use super::server::serve;
use crate::testbed::Testbed;
use adit_lab_process::netns::NetNamespace;
use adit_lab_process::stop::{Stop, environment};

/// Real-time priority of the threads that measure.
const FIFO_PRIORITY: u8 = 40;
/// Octets that a stream in user space buffers in each direction.
const STREAM_BYTES: usize = 256 << 10;
/// Maximum number of streams of a stack in user space.
const STREAMS_MAX: usize = 256;

/// Time between two calls for progress.
const PROGRESS: Duration = Duration::from_millis(20);

/// State that all turns share.
#[derive(Debug)]
pub(super) struct StoreTurnSetup<'a> {
    /// Network between client and server; `None` for a server elsewhere.
    pub network: Option<&'a StoreNetwork>,
    /// DPDK, if a transport needs it.
    pub testbed: Option<&'a Testbed>,
    /// Address of a server elsewhere.
    pub server: Option<SocketAddr>,
    pub core: u16,
    pub server_core: u16,
    /// True if the threads have real-time priority.
    pub is_fifo: bool,
    /// Ends a turn early.
    pub stop: &'a Stop,
}

/// The port of one side in user space.
struct UserPort {
    queues: WorkerPort,
    port: Port,
    side: UserSide,
}

/// Core, priority and namespace of one thread of a turn.
struct TurnThread<'a> {
    core: u16,
    is_fifo: bool,
    namespace: Option<&'a NetNamespace>,
    testbed: Option<&'a Testbed>,
}

impl<'a> StoreTurnSetup<'a> {
    fn client_seat(&self) -> TurnThread<'a> {
        let namespace = self.network.map(StoreNetwork::client);
        TurnThread { core: self.core, is_fifo: self.is_fifo, namespace, testbed: self.testbed }
    }

    fn server_seat(&self) -> TurnThread<'a> {
        let namespace = self.network.map(StoreNetwork::server);
        TurnThread {
            core: self.server_core,
            is_fifo: self.is_fifo,
            namespace,
            testbed: self.testbed,
        }
    }

    /// Returns the address at which clients of `transport` find the server.
    fn peer(&self, transport: StoreTransport) -> Result<SocketAddr> {
        let peer = self.server.or_else(|| Some(self.network?.peer(transport)));
        peer.context("neither a network nor a server")
    }

    /// Opens a port for each side that runs in user space; the server's port first.
    fn ports(&self, transport: StoreTransport) -> Result<[Option<UserPort>; 2]> {
        let open = |namespace: &NetNamespace, side: UserSide| -> Result<Option<UserPort>> {
            let testbed = self.testbed.context("DPDK was not started")?;
            let (port, queues) = namespace.visit(|| testbed.open(&side.device))?;
            Ok(Some(UserPort { queues, port, side }))
        };
        let Some(network) = self.network.filter(|_| transport.is_user()) else {
            return Ok([None, None]);
        };
        let server =
            if transport.is_pair() { open(network.server(), network.user_server())? } else { None };
        Ok([open(network.client(), network.user_client())?, server])
    }

    /// Measures a case.
    ///
    /// # Errors
    /// The transport does not work here; the server fails to answer; `stop` was raised.
    pub(super) fn measure(
        &self,
        transport: StoreTransport,
        case: &StoreCase,
        control: &LoadControl,
        progress: impl FnMut(),
    ) -> Result<LoadOutcome> {
        let clock = RunClock::start();
        let peer = self.peer(transport)?;
        self.both_sides(
            transport,
            progress,
            transport.is_pair().then_some(
                |side: &mut TurnTransport, done: &AtomicBool| match side {
                    TurnTransport::Kernel(tcp) => serve(tcp, clock, peer, control, done),
                    TurnTransport::User(tcp) => serve(&mut **tcp, clock, peer, control, done),
                },
            ),
            |side| match side {
                TurnTransport::Kernel(tcp) => {
                    StoreLoad::connect(tcp, clock, peer, case, control)?.run()
                }
                TurnTransport::User(tcp) => {
                    StoreLoad::connect(&mut **tcp, clock, peer, case, control)?.run()
                }
            },
        )
    }

    /// Sends in one direction for `span`, and returns the rate at the receiver. Unit: Mb/s.
    ///
    /// # Errors
    /// See [`Self::measure`].
    pub(super) fn one_way(
        &self,
        transport: StoreTransport,
        span: Nanos,
        control: &LoadControl,
        progress: impl FnMut(),
    ) -> Result<u64> {
        let clock = RunClock::start();
        let network = self.network.context("a sink needs a network of adit-lab's own")?;
        let peer = network.own_peer(transport);
        let run = OneWayRun::new(clock, peer, span, control);
        self.both_sides(
            transport,
            progress,
            Some(|side: &mut TurnTransport, done: &AtomicBool| match side {
                TurnTransport::Kernel(tcp) => run.receive(tcp, done),
                TurnTransport::User(tcp) => run.receive(&mut **tcp, done),
            }),
            |side| match side {
                TurnTransport::Kernel(tcp) => run.send(tcp),
                TurnTransport::User(tcp) => run.send(&mut **tcp),
            },
        )?;
        let bits = u128::from(run.octets.into_inner()) * 8;
        let ns = u128::from(run.span_ns.into_inner()).max(1);
        Ok(u64::try_from(bits * 1000 / ns).unwrap_or(u64::MAX))
    }

    /// Runs the client, and adit-lab's own server if `server` has one, each on a thread, until the
    /// client ends. Calls `progress` now and then on this thread.
    fn both_sides<R: Send>(
        &self,
        transport: StoreTransport,
        mut progress: impl FnMut(),
        server: Option<impl FnOnce(&mut TurnTransport, &AtomicBool) -> Result<()> + Send>,
        client: impl FnOnce(&mut TurnTransport) -> Result<R> + Send,
    ) -> Result<R> {
        let [near, far] = self.ports(transport)?;
        let split = |port: Option<UserPort>| match port {
            Some(UserPort { queues, port, side }) => (Some((queues, side)), Some(port)),
            None => (None, None),
        };
        let ((near, near_port), (far, far_port)) = (split(near), split(far));
        let done = AtomicBool::new(false);
        let wait = match transport {
            StoreTransport::Blocking => KernelWait::Sleep,
            _ => KernelWait::Poll,
        };
        let result = std::thread::scope(|scope| {
            let seat = self.server_seat();
            let done = &done;
            let serving = server.map(|server| {
                scope.spawn(move || {
                    seat.run(|pool| server(&mut TurnTransport::new(far, pool, wait)?, done))
                })
            });
            let seat = self.client_seat();
            let measuring = scope
                .spawn(move || seat.run(|pool| client(&mut TurnTransport::new(near, pool, wait)?)));
            while !measuring.is_finished() {
                std::thread::sleep(PROGRESS);
                progress();
            }
            let measured = measuring.join().map_err(|_| anyhow!("the client's thread panicked"))?;
            done.store(true, Ordering::Relaxed);
            if let Some(serving) = serving {
                serving.join().map_err(|_| anyhow!("the server's thread panicked"))??;
            }
            measured
        });
        // A driver needs its device's namespace also when it closes.
        if let Some(network) = self.network {
            for (namespace, port) in [(network.client(), near_port), (network.server(), far_port)] {
                namespace.visit(|| {
                    drop(port);
                    Ok(())
                })?;
            }
            if transport.is_user() {
                network.renew()?;
            }
        }
        result
    }
}

impl TurnThread<'_> {
    /// Runs `work` on this thread, with this core, priority and namespace.
    fn run<R>(self, work: impl FnOnce(Option<adit_dpdk::Mempool>) -> Result<R>) -> Result<R> {
        pin_current_thread(self.core).map_err(|error| environment(error.to_string()))?;
        if let Some(namespace) = self.namespace {
            namespace.join()?;
        }
        if self.is_fifo {
            set_fifo()?;
        }
        let Some(testbed) = self.testbed else { return work(None) };
        let guard = register_thread(testbed.eal()).context("register a thread with DPDK")?;
        let result = work(Some(testbed.pool()));
        drop(guard);
        result
    }
}

/// The transport of one side.
enum TurnTransport {
    Kernel(KernelTcp),
    User(Box<UserTcp<WorkerIo>>),
}

impl TurnTransport {
    fn new(
        port: Option<(WorkerPort, UserSide)>,
        pool: Option<adit_dpdk::Mempool>,
        wait: KernelWait,
    ) -> Result<Self> {
        let (Some((queues, side)), Some(pool)) = (port, pool) else {
            return Ok(Self::Kernel(KernelTcp::new(wait)?));
        };
        let config = UserTcpConfig {
            mac: Some(side.mac),
            address: side.address,
            prefix_len: PREFIX_LEN,
            gateway: None,
            stream_bytes: STREAM_BYTES,
            streams_max: STREAMS_MAX,
            seed: seed(side.mac),
        };
        let io = WorkerIo::new(vec![queues], pool);
        Ok(Self::User(Box::new(UserTcp::new(io, PortId(0), config, Nanos(0))?)))
    }
}

/// Returns a seed that differs between runs, so that their streams are not confused.
fn seed(mac: MacAddr) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs() ^ (u64::from(now.subsec_nanos()) << 24));
    now ^ (u64::from(mac.0[5]) << 56)
}

/// Gives this thread real-time priority.
///
/// # Errors
/// `chrt` is missing, or this process may not set the priority.
pub(super) fn set_fifo() -> Result<()> {
    let thread = rustix::thread::gettid().as_raw_nonzero();
    chrt(&thread.to_string(), false)
}

/// Gives all threads of a process real-time priority.
///
/// # Errors
/// See [`set_fifo`].
pub(super) fn set_fifo_of(process: u32) -> Result<()> {
    chrt(&process.to_string(), true)
}

fn chrt(pid: &str, all: bool) -> Result<()> {
    let mut command = Command::new("chrt");
    if all {
        command.arg("--all-tasks");
    }
    command.args(["--fifo", "--pid", &FIFO_PRIORITY.to_string(), pid]);
    let output = command
        .output()
        .map_err(|error| environment(format!("cannot run chrt ({error}): install util-linux")))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(environment(format!(
            "no real-time priority ({message}); use --priority normal"
        )));
    }
    Ok(())
}
