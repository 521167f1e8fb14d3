//! A packet source and sink in memory that leaves no work of its own inside the measured step.

use adit_pktio::mem::MemBuf;
use adit_pktio::{Burst, PacketIo, PortInfo};
use adit_types::{MacAddr, PortId};

/// Two ports: packets prepared in `ready` arrive at `rx_port`, everything sent lands in `sent`.
pub struct BenchIo {
    pub rx_port: PortId,
    pub ready: Vec<MemBuf>,
    pub sent: Vec<MemBuf>,
    pub macs: [MacAddr; 2],
}

impl PacketIo for BenchIo {
    type Buf = MemBuf;

    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<MemBuf>) -> usize {
        if port != self.rx_port {
            return 0;
        }
        let count = limit.min(self.ready.len()).min(burst.remaining_capacity());
        burst.extend(self.ready.drain(self.ready.len() - count..));
        count
    }

    fn tx_burst(&mut self, _port: PortId, burst: &mut Burst<MemBuf>) -> usize {
        let count = burst.len();
        self.sent.extend(burst.drain(..));
        count
    }

    fn alloc(&mut self) -> Option<MemBuf> {
        None
    }

    fn port_info(&self, port: PortId) -> PortInfo {
        let mac = self.macs[usize::from(port.0)];
        PortInfo { mac, mtu_bytes: 1500, rx_ipv4_checksum: true }
    }
}
