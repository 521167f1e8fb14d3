//! How the two adits of a pair reach each other: sockets of the kernel, or streams in user space on
//! a port of their own.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use adit_dpdk::{
    Eal, Mbuf, Mempool, MempoolConfig, Port, PortConfig, RegisteringIo, WorkerIo, WorkerPort,
};
use adit_pktio::{Burst, PacketIo, PortInfo};
use adit_transport::{
    KernelTcp, KernelWait, TlsSettings, TlsTransport, Transport, UserTcp, UserTcpConfig,
};
use adit_types::{Nanos, PortId};
use anyhow::{Context, bail};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tracing::{info, warn};

use crate::config::{ReplicationSettings, ReplicationTransport, UserLinkSettings};
use crate::record_store::store_files::tls_settings;

/// Largest packet on the port.
const MTU_BYTES: u16 = 1500;

/// Descriptors of each of the port's two queues.
const DESCRIPTORS_PER_QUEUE: u16 = 1024;

/// Octets that a stream buffers in each direction.
const STREAM_BUFFER_BYTES: usize = 256 << 10;

/// Most streams: one to the other adit; further ones may wait to be accepted, be in a handshake of
/// TLS, or be closing.
const STREAMS_MAX: usize = 40;

/// Streams to the other adit.
pub(crate) type LinkTransport = Box<dyn Transport + Send>;

/// The link between the two adits.
#[derive(Debug)]
pub(crate) struct ReplicationLink {
    medium: LinkMedium,
    /// `None` if the operator accepts peers that TLS does not authenticate.
    tls: Option<TlsSettings>,
}

/// The transport of streams between the two adits.
#[derive(Debug)]
enum LinkMedium {
    Kernel(KernelWait),
    User(Box<UserLink>),
}

/// A port that one TCP stack at a time uses. It runs as long as its queues exist.
#[derive(Debug)]
struct UserLink {
    queues: PortQueues,
    config: UserTcpConfig,
    eal: Eal,
}

/// The queues of the port; `None` while a stack has them.
type PortQueues = Arc<Mutex<Option<WorkerIo>>>;

impl ReplicationLink {
    /// Opens the configured transport.
    ///
    /// # Errors
    /// A file of TLS cannot be used, or the port cannot be opened.
    pub(crate) fn open(settings: &ReplicationSettings, eal: &Eal) -> anyhow::Result<Self> {
        let tls = settings.tls.as_ref();
        let tls = tls.map(|files| tls_settings("store.replication", files)).transpose()?;
        if tls.is_none() {
            warn!(
                "store.replication.accept_strangers: whoever reaches the link reads and changes records"
            );
        }
        let medium = match &settings.transport {
            ReplicationTransport::Kernel(wait) => LinkMedium::Kernel(*wait),
            ReplicationTransport::User(user) => {
                let link = UserLink::open(user, settings.listen.ip(), eal);
                let link = link.with_context(|| {
                    format!("cannot open store.replication.device {}", user.device)
                })?;
                LinkMedium::User(Box::new(link))
            }
        };
        Ok(Self { medium, tls })
    }

    /// True if threads poll their streams instead of sleeping.
    pub(crate) const fn polls(&self) -> bool {
        !matches!(self.medium, LinkMedium::Kernel(KernelWait::Sleep))
    }

    /// Returns a new transport of streams to the other adit.
    ///
    /// # Errors
    /// The process is out of file descriptors, or another transport uses the port.
    pub(crate) fn transport(&self) -> anyhow::Result<LinkTransport> {
        let streams: LinkTransport = match &self.medium {
            LinkMedium::Kernel(wait) => Box::new(KernelTcp::new(*wait)?),
            LinkMedium::User(link) => link.stack()?,
        };
        Ok(match &self.tls {
            Some(tls) => Box::new(TlsTransport::new(streams, tls.clone())),
            None => streams,
        })
    }
}

impl UserLink {
    fn open(settings: &UserLinkSettings, address: IpAddr, eal: &Eal) -> anyhow::Result<Self> {
        // The AF_XDP driver uses a part of each buffer for itself.
        let data_room_bytes = 2048 + 512;
        let pool =
            MempoolConfig { name: "replication", data_room_bytes, ..MempoolConfig::default() };
        let pool = Mempool::create(eal, &pool)?;
        let config = PortConfig {
            device: &settings.device,
            rx_queues: 1,
            tx_queues: 1,
            rx_descriptors: DESCRIPTORS_PER_QUEUE,
            tx_descriptors: DESCRIPTORS_PER_QUEUE,
            mtu_bytes: MTU_BYTES,
            promiscuous: false,
            mempool: &pool,
        };
        let (port, rx, tx) = Port::open(eal, &config)?;
        let info = port.info();
        let queues = WorkerPort { rx, tx: tx.into_iter().next(), info };
        let queues = Arc::new(Mutex::new(Some(WorkerIo::new(vec![queues], pool))));
        info!(device = %settings.device, mac = %info.mac, %address, "port of replication started");
        let config = UserTcpConfig {
            mac: None,
            address,
            prefix_len: settings.prefix_len,
            gateway: settings.gateway,
            stream_bytes: STREAM_BUFFER_BYTES,
            streams_max: STREAMS_MAX,
            seed: 0,
        };
        Ok(Self { queues, config, eal: eal.clone() })
    }

    fn stack(&self) -> anyhow::Result<LinkTransport> {
        let io = self.queues.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(io) = io else { bail!("the port of replication is in use") };
        let info = io.port_info(PortId(0));
        let io = Some(RegisteringIo::new(io, self.eal.clone()));
        let io = LentIo { io, info, home: Arc::clone(&self.queues) };
        let config = UserTcpConfig { seed: StdRng::from_os_rng().random(), ..self.config.clone() };
        Ok(Box::new(UserTcp::new(io, PortId(0), config, Nanos(0))?))
    }
}

/// Queues of the port, which go back to `home` when their stack ends.
struct LentIo {
    /// `None` only while this is dropped.
    io: Option<RegisteringIo>,
    info: PortInfo,
    home: PortQueues,
}

impl Drop for LentIo {
    fn drop(&mut self) {
        let io = self.io.take().map(RegisteringIo::into_inner);
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = io;
    }
}

impl PacketIo for LentIo {
    type Buf = Mbuf;

    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<Mbuf>) -> usize {
        self.io.as_mut().map_or(0, |io| io.rx_burst(port, limit, burst))
    }

    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<Mbuf>) -> usize {
        self.io.as_mut().map_or(0, |io| io.tx_burst(port, burst))
    }

    fn alloc(&mut self) -> Option<Mbuf> {
        self.io.as_mut()?.alloc()
    }

    fn port_info(&self, _: PortId) -> PortInfo {
        self.info
    }
}
