//! Safe DPDK: environment, pools, packet buffers, ports and queues.
//!
//! Every `unsafe` of packet I/O is here. Life goes Eal → Mempool → Port → queues and is torn down in
//! reverse, because each later thing holds the earlier ones. A packet buffer holds nothing (it is
//! one pointer); instead a pool whose buffers are not all home is never freed, see [`Mempool`].
//! What is not here: any opinion about traffic, and any thread.

mod device;
mod eal;
mod errno;
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
pub use hugepages::HugepageMode;
pub use mbuf::Mbuf;
pub use mempool::{Mempool, MempoolConfig, MempoolError};
pub use port::{
    FlowRefusal, FlowRule, FlowRuleKey, Port, PortConfig, PortDetails, PortError, PortStats,
    RxQueue, TxQueue,
};
pub use processor::{PinError, pin_current_thread, tsc};
pub use thread::{RegisterError, ThreadGuard, register_thread};
pub use worker_io::{WorkerIo, WorkerPort};
