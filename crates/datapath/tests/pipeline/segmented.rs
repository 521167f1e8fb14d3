//! A driver whose frames span several buffers.

use adit_datapath::{Worker, WorkerConfig};
use adit_pktio::mem::{MemBuf, MemIo};
use adit_pktio::{Burst, PacketBuf, PacketIo, PortInfo};
use adit_rules::DropReason;
use adit_tables::build;
use adit_types::{Nanos, PortId, WorkerId};
use rtrb::RingBuffer;

use crate::fixture::{N3, N3_MAC, config, uplink};

/// A buffer that shows the first part of a frame only.
struct Segmented(MemBuf);

impl PacketBuf for Segmented {
    fn data(&self) -> &[u8] {
        self.0.data()
    }
    fn data_mut(&mut self) -> &mut [u8] {
        self.0.data_mut()
    }
    fn prepend(&mut self, len: usize) -> Option<&mut [u8]> {
        self.0.prepend(len)
    }
    fn trim_front(&mut self, len: usize) -> bool {
        self.0.trim_front(len)
    }
    fn append(&mut self, len: usize) -> Option<&mut [u8]> {
        self.0.append(len)
    }
    fn mark(&self) -> u32 {
        self.0.mark()
    }
    fn set_mark(&mut self, mark: u32) {
        self.0.set_mark(mark);
    }
    fn truncate(&mut self, len: usize) -> bool {
        self.0.truncate(len)
    }
    fn replace_front(&mut self, cut: usize, add: usize, keep: usize) -> Option<&mut [u8]> {
        self.0.replace_front(cut, add, keep)
    }
    fn is_contiguous(&self) -> bool {
        false
    }
}

struct SegmentedIo(MemIo);

impl PacketIo for SegmentedIo {
    type Buf = Segmented;
    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<Segmented>) -> usize {
        let mut inner = Burst::new();
        let count = self.0.rx_burst(port, limit, &mut inner);
        burst.extend(inner.into_iter().map(Segmented));
        count
    }
    fn tx_burst(&mut self, _port: PortId, _burst: &mut Burst<Segmented>) -> usize {
        0
    }
    fn alloc(&mut self) -> Option<Segmented> {
        None
    }
    fn port_info(&self, port: PortId) -> PortInfo {
        self.0.port_info(port)
    }
}

#[test]
fn frame_in_several_buffers_is_dropped() {
    let (publisher, mut readers) = build(config()).unwrap();
    let (events, _) = RingBuffer::new(1);
    let (_, commands) = RingBuffer::new(1);
    let settings = WorkerConfig {
        id: WorkerId(0),
        ports: vec![N3],
        burst: 32,
        buffer_pkts_max: 512,
        shaped_pkts_max: 512,
        recovery_time_stamp: None,
    };
    let mut worker = Worker::new(settings, readers.remove(0), events, commands);
    let mut io = SegmentedIo(MemIo::new(&[N3_MAC]));
    io.0.inject(N3, &uplink().build());
    let report = worker.step(Nanos(1), &mut io);
    assert_eq!((report.received, report.idle), (1, false));
    let counts = publisher.snapshot();
    assert_eq!(counts.drops[DropReason::FrameSegmented.index()], 1);
    assert!(counts.identity_holds());
    assert!(worker.step(Nanos(2), &mut io).idle);
}
