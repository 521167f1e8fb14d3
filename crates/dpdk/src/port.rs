//! Opens ports, describes them, and reads their counters.

mod attach;
mod error;
mod ffi;
mod flow;
mod flow_card;
mod frame;
mod queue;
mod wait;

use core::cell::Cell;
use core::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use adit_dpdk_sys as sys;
use adit_pktio::PortInfo;
use adit_types::MacAddr;

use crate::device::Device;
use crate::eal::Eal;
use crate::errno::Errno;
use crate::log;
use crate::memif_gate::MemifGate;
use crate::mempool::Mempool;
use attach::AttachedDevice;
pub use attach::network_device;
pub use error::PortError;
pub use flow::{FlowRefusal, FlowRule, FlowRuleKey};
pub use flow_card::EthdevFlows;
pub use queue::{RxQueue, TxQueue};

/// Configuration of a port.
#[derive(Debug, Clone, Copy)]
pub struct PortConfig<'a> {
    /// The device. [`Port::open`] creates a virtual one.
    pub device: &'a Device,
    /// Maximum number of receive queues; fewer if the device offers fewer.
    pub rx_queues: u16,
    /// Number of transmit queues, one per worker.
    pub tx_queues: u16,
    /// Receive descriptors per queue. Adjusted to the driver's limits.
    pub rx_descriptors: u16,
    /// Transmit descriptors per queue. Adjusted to the driver's limits.
    pub tx_descriptors: u16,
    /// MTU, without the Ethernet header. A port on a network device of the kernel does not change
    /// that device's MTU, see [`Port::network_device`]. Unit: bytes.
    pub mtu_bytes: u16,
    /// True to receive frames to any MAC address.
    pub promiscuous: bool,
    /// Pool of received packets. Its buffers must hold a whole frame, since scatter is not used.
    pub mempool: &'a Mempool,
}

/// Description of a port for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortDetails {
    /// The DPDK driver.
    pub driver: String,
    /// The port's MAC address.
    pub mac: MacAddr,
    /// MTU. Unit: bytes.
    pub mtu_bytes: u16,
    /// Number of receive queues that the device offers.
    pub rx_queues_max: u16,
    /// Number of transmit queues that the device offers.
    pub tx_queues_max: u16,
    /// True if the link is up.
    pub link_up: bool,
    /// Link speed; `None` if unknown. Unit: Mb/s.
    pub link_speed_mbps: Option<u32>,
    /// Names of the headers whose fields RSS hashes; empty if the device does not use RSS.
    pub rss: Vec<&'static str>,
    /// True if the device supports RSS.
    pub can_rss: bool,
    /// Receive and transmit offloads in use, by DPDK's names.
    pub offloads: Vec<String>,
}

/// Counters of a port since it was opened, with DPDK's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortStats {
    /// Packets received.
    pub ipackets: u64,
    /// Packets sent.
    pub opackets: u64,
    /// Octets received.
    pub ibytes: u64,
    /// Octets sent.
    pub obytes: u64,
    /// Packets lost because a receive queue was full.
    pub imissed: u64,
    /// Packets received with an error.
    pub ierrors: u64,
    /// Packets that could not be sent.
    pub oerrors: u64,
    /// Packets lost because the pool was empty.
    pub rx_nombuf: u64,
}

/// A running port, for the control thread. It stops once this value and all its queues are dropped.
#[derive(Debug)]
pub struct Port {
    running: Arc<StartedPort>,
    info: PortInfo,
    rx_queues: u16,
    not_sync: PhantomData<Cell<u8>>,
}

/// A started ethdev port.
///
/// Invariant: started from construction to drop; the pool outlives it.
#[derive(Debug)]
struct StartedPort {
    /// Dropped after the port is stopped, and before the pool handle.
    attached: AttachedDevice,
    promiscuous: bool,
    /// True once flow rules have been created.
    has_flow_rules: AtomicBool,
    _pool: Mempool,
}

impl StartedPort {
    fn id(&self) -> u16 {
        self.attached.id()
    }
}

impl Drop for StartedPort {
    fn drop(&mut self) {
        if self.has_flow_rules.load(Ordering::Relaxed) {
            flow::flush(self.id());
        }
        if self.promiscuous {
            // SAFETY: valid for any port id. A kernel interface would stay promiscuous without this
            // call.
            unsafe { sys::rte_eth_promiscuous_disable(self.id()) };
        }
        // SAFETY: valid for any port id. As for promiscuous mode.
        unsafe { sys::rte_eth_allmulticast_disable(self.id()) };
        // SAFETY: the port was started, and no queue handle is left.
        unsafe { sys::rte_eth_dev_stop(self.id()) };
    }
}

impl Port {
    /// Opens and starts a port. Returns it with one handle per queue.
    ///
    /// # Errors
    /// See [`PortError`]. The port is then closed.
    pub fn open(
        eal: &Eal,
        config: &PortConfig<'_>,
    ) -> Result<(Self, Vec<RxQueue>, Vec<TxQueue>), PortError> {
        let before = wait::driver_sockets(config.device);
        let (opened, log) = log::capture(|| Self::start(eal, config));
        let (running, rx_queues) = opened.map_err(|error| error.with_log(&log))?;
        let running = Arc::new(running);
        log::print_log(&log);
        let info = Self::fixed_info(config, &running)?;
        let mut sockets = wait::queue_sockets(config.device, &before, rx_queues).into_iter();
        let gate = || Self::gate(config.device);
        let is_open = config.device.leaves_checksums_open();
        let rx = (0..rx_queues)
            .map(|queue| Ok(RxQueue::new(&running, queue, sockets.next(), gate()?, is_open)))
            .collect::<Result<_, PortError>>()?;
        let tx = (0..config.tx_queues)
            .map(|queue| Ok(TxQueue::new(&running, queue, gate()?)))
            .collect::<Result<_, PortError>>()?;
        Ok((Self { running, info, rx_queues, not_sync: PhantomData }, rx, tx))
    }

    fn gate(device: &Device) -> Result<Option<MemifGate>, PortError> {
        MemifGate::of(device).map_err(|errno| PortError::Refused {
            device: device.to_string(),
            operation: "guard a queue of",
            errno,
            log: String::new(),
        })
    }

    /// Starts a port. Returns it with the number of receive queues in use.
    fn start(eal: &Eal, config: &PortConfig<'_>) -> Result<(StartedPort, u16), PortError> {
        let attached = AttachedDevice::attach(eal, config.device, config.mtu_bytes)?;
        let id = attached.id();
        let fail = |operation| {
            move |errno| PortError::Refused {
                device: config.device.to_string(),
                operation,
                errno,
                log: String::new(),
            }
        };
        let offer = ffi::dev_info(id).map_err(fail("query"))?;
        check_offer(config, &offer)?;
        let rx_queues = config.rx_queues.min(offer.max_rx_queues);
        let config = &PortConfig { rx_queues, ..*config };
        ffi::configure(id, config, &offer).map_err(fail("configure"))?;
        let (rx_descriptors, tx_descriptors) =
            ffi::adjust_descriptors(id, config.rx_descriptors, config.tx_descriptors)
                .map_err(fail("size the queues of"))?;
        for queue in 0..config.rx_queues {
            ffi::setup_rx(id, queue, rx_descriptors, &offer, config.mempool)
                .map_err(fail("set up a receive queue of"))?;
        }
        for queue in 0..config.tx_queues {
            ffi::setup_tx(id, queue, tx_descriptors, &offer, config.mempool)
                .map_err(fail("set up a transmit queue of"))?;
        }
        ffi::start(id).map_err(fail("start"))?;
        let promiscuous = config.promiscuous;
        let running = StartedPort {
            attached,
            promiscuous,
            has_flow_rules: AtomicBool::new(false),
            _pool: config.mempool.clone(),
        };
        ffi::all_multicast(id).map_err(fail("let multicast through"))?;
        if promiscuous {
            ffi::promiscuous(id).map_err(fail("set promiscuous mode of"))?;
        }
        Ok((running, rx_queues))
    }

    fn fixed_info(config: &PortConfig<'_>, running: &StartedPort) -> Result<PortInfo, PortError> {
        let id = running.id();
        let read = || -> Result<PortInfo, Errno> {
            let offer = ffi::dev_info(id)?;
            let checksum = u64::from(sys::RTE_ETH_RX_OFFLOAD_IPV4_CKSUM);
            Ok(PortInfo {
                mac: ffi::mac(id)?,
                mtu_bytes: config.mtu_bytes,
                rx_ipv4_checksum: offer.rx_offload_capa & checksum != 0,
            })
        };
        read().map_err(|errno| PortError::Refused {
            device: config.device.to_string(),
            operation: "describe",
            errno,
            log: String::new(),
        })
    }

    /// Returns the properties of the port for workers, which are constant while it runs.
    #[must_use]
    pub fn info(&self) -> PortInfo {
        self.info
    }

    /// Returns the number of receive queues in use.
    #[must_use]
    pub fn rx_queues(&self) -> u16 {
        self.rx_queues
    }

    /// Returns the ethdev id, DPDK's own index of the port.
    #[must_use]
    pub fn ethdev_id(&self) -> u16 {
        self.running.id()
    }

    /// Returns the index of the kernel's network device behind the port: the device itself, or the
    /// one from which the port receives. `None` for ports without one.
    #[must_use]
    pub fn network_device(&self) -> Option<u32> {
        ffi::dev_info(self.running.id())
            .ok()
            .map(|offer| offer.if_index)
            .filter(|index| *index != 0)
    }

    /// Describes the port, with its current link state.
    ///
    /// # Errors
    /// The driver's reason, for instance after a NIC was removed.
    pub fn details(&self) -> Result<PortDetails, Errno> {
        let id = self.running.id();
        let offer = ffi::dev_info(id)?;
        let (link_up, link_speed_mbps) = ffi::link(id)?;
        Ok(PortDetails {
            driver: ffi::driver_name(&offer),
            mac: ffi::mac(id)?,
            mtu_bytes: self.info.mtu_bytes,
            rx_queues_max: offer.max_rx_queues,
            tx_queues_max: offer.max_tx_queues,
            link_up,
            link_speed_mbps,
            rss: ffi::rss(id),
            can_rss: offer.flow_type_rss_offloads != 0,
            offloads: ffi::offloads(id)?,
        })
    }

    /// True if the link is up. Cost: reading a register of the device, or a call of its driver.
    ///
    /// # Errors
    /// The driver's reason, for instance after a NIC was removed.
    pub fn link_is_up(&self) -> Result<bool, Errno> {
        ffi::link(self.running.id()).map(|(is_up, _)| is_up)
    }

    /// Reads the counters.
    ///
    /// # Errors
    /// The driver's reason.
    pub fn stats(&self) -> Result<PortStats, Errno> {
        ffi::stats(self.running.id())
    }

    /// Reads the driver's own counters, by name.
    ///
    /// # Errors
    /// The driver's reason.
    pub fn xstats(&self) -> Result<Vec<(String, u64)>, Errno> {
        ffi::xstats(self.running.id())
    }
}

/// Checks the configuration against the device's capabilities before setup.
fn check_offer(config: &PortConfig<'_>, offer: &sys::rte_eth_dev_info) -> Result<(), PortError> {
    let device = || config.device.to_string();
    if config.tx_queues > offer.max_tx_queues {
        return Err(PortError::TooFewQueues {
            device: device(),
            tx_wanted: config.tx_queues,
            tx_max: offer.max_tx_queues,
        });
    }
    let mtu_bytes = config.mtu_bytes;
    let (min, max) = (offer.min_mtu, offer.max_mtu.min(config.device.mtu_max()));
    if mtu_bytes < min || mtu_bytes > max {
        return Err(PortError::Mtu { device: device(), mtu_bytes, min, max });
    }
    let room_bytes = config.mempool.data_room_bytes();
    let need_bytes = frame::data_room(config.device, mtu_bytes);
    if need_bytes > u32::from(room_bytes) {
        return Err(PortError::DataRoom { device: device(), mtu_bytes, need_bytes, room_bytes });
    }
    if config.device.is_driver("net_af_xdp") && !config.mempool.is_dense() {
        return Err(PortError::Pieces { device: device() });
    }
    Ok(())
}
