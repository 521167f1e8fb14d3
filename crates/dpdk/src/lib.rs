//! Safe DPDK: environment, pools, packet buffers, ports and queues.
//!
//! All `unsafe` code of DPDK's packet I/O is in this crate. Objects are created in the order Eal →
//! Mempool → Port → queues and dropped in reverse, since each holds a handle on those before it. A
//! packet buffer is one pointer without a handle; a pool is not freed before all its buffers have
//! returned, see [`Mempool`]. This crate does not interpret traffic and starts no threads.
//! returned, see [`Mempool`]. This room does not interpret traffic and starts no threads.

mod device;
mod eal;
mod errno;
mod eventdev;
mod hugepages;
mod log;
mod mbuf;
mod memif_gate;
mod mempool;
mod port;
mod processor;
mod thread;
mod worker_io;

pub use device::{Device, DeviceKind, DeviceParseError};
pub use eal::{Eal, EalConfig, EalError, EalNotice, version};
pub use errno::Errno;
pub use eventdev::{
    EventDevice, EventDeviceConfig, EventDeviceError, EventDriver, EventPortConfig,
    EventQueueConfig, EventScheduler, EventStat, OpenEventDevice, SchedulerPort,
};
pub use hugepages::HugepageMode;
pub use mbuf::Mbuf;
pub use mempool::{Mempool, MempoolConfig, MempoolError};
pub use port::{
    EthdevFlows, FlowRefusal, FlowRule, FlowRuleKey, Port, PortConfig, PortDetails, PortError,
    PortStats, RxQueue, TxQueue, network_device,
};
pub use processor::{PinError, pin_current_thread, tsc};
pub use thread::{
    MemoryNodeError, PriorityError, RegisterError, ThreadGuard, prefer_memory_of, register_thread,
    set_realtime_priority,
};
pub use worker_io::{RegisteringIo, WorkerIo, WorkerPort};
