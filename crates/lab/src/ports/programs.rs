//! XDP programs at the other ends of adit's links: one sends frames, the other counts and drops
//! them. Both cost less per frame than anything adit can do with it.

use std::fmt;
use std::os::fd::AsFd;

use anyhow::{Context, Result, ensure};
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, ProgramInput, ProgramMut,
};

static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/traffic.bpf.o"));

/// `BPF_F_TEST_XDP_LIVE_FRAMES` of linux/bpf.h: the kernel acts on the frames as the program's
/// return value says.
const LIVE_FRAMES: u32 = 1 << 1;
/// Number of different frames, which are sent in a loop, as in traffic.bpf.c.
pub(super) const FRAMES: usize = 4096;
/// Maximum length of a frame, as in traffic.bpf.c. Unit: octets.
const FRAME_MAX: usize = 128;
/// Runs of the sending program in one system call. They are many, because the kernel first has to
/// prepare buffers.
const CALL_RUNS: u32 = 1 << 17;

/// Counts and drops the IP packets that a device receives, until it is dropped.
#[derive(Debug)]
pub(super) struct PacketSink {
    _link: Link,
    arrived: MapHandle,
}

impl PacketSink {
    /// Attaches the program to a device in this thread's namespace.
    ///
    /// # Errors
    /// The kernel does not support XDP, or not for this device, or this process has no privilege.
    pub(super) fn attach(device: usize) -> Result<Self> {
        let mut object = load(None)?;
        let program = program(&mut object, "lab_drop")?;
        let _link = program.attach_xdp(i32::try_from(device)?).context("attach an XDP program")?;
        Ok(Self { _link, arrived: map(&object, "arrived")? })
    }

    /// Returns the number of packets received so far.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn arrived_pkts(&self) -> Result<u64> {
        counter(&self.arrived)
    }
}

/// Counts the packets that a [`LiveFrameSender`] has sent, or for which the device had no room.
#[derive(Debug)]
pub(super) struct SentCounter(MapHandle);

impl SentCounter {
    /// Returns the number of packets.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn pkts(&self) -> Result<u64> {
        counter(&self.0)
    }
}

/// Limits the packets on their way to `sink` to `pkts_max`; 0 means no limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendWindow<'s> {
    pub sink: &'s PacketSink,
    pub pkts_max: u32,
}

/// The program that sends frames.
pub(super) struct LiveFrameSender {
    object: Object,
    frame: Vec<u8>,
}

impl fmt::Debug for LiveFrameSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameMaker").finish_non_exhaustive()
    }
}

impl LiveFrameSender {
    /// Loads the program with [`FRAMES`] frames of one length, which it will send in order through
    /// `device`.
    ///
    /// # Errors
    /// The kernel does not support XDP, or this process has no privilege.
    pub(super) fn load(
        frames: &[Vec<u8>],
        device: usize,
        SendWindow { sink, pkts_max }: SendWindow<'_>,
    ) -> Result<Self> {
        let frame = frames.first().context("no frames")?.clone();
        let is_equal = frames.iter().all(|octets| octets.len() == frame.len());
        let is_short = frame.len() <= FRAME_MAX;
        ensure!(frames.len() == FRAMES && is_equal && is_short, "frames of the wrong lengths");
        let object = load(Some(&sink.arrived))?;
        let mut sender = [0; 40];
        sender[32..36].copy_from_slice(&pkts_max.to_ne_bytes());
        sender[36..].copy_from_slice(&u32::try_from(device)?.to_ne_bytes());
        update(&map(&object, "sender")?, 0, &sender)?;
        let table = map(&object, "frames")?;
        for (key, octets) in (0..).zip(frames) {
            let mut value = [0; FRAME_MAX];
            value[..octets.len()].copy_from_slice(octets);
            update(&table, key, &value)?;
        }
        Ok(Self { object, frame })
    }

    /// Returns the counter of this program's frames.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn counter(&self) -> Result<SentCounter> {
        map(&self.object, "sender").map(SentCounter)
    }

    /// Sends frames for some time. Must be called in the namespace of the device.
    ///
    /// # Errors
    /// The kernel cannot send frames of XDP programs, which Linux 5.18 can.
    pub(super) fn send(&mut self) -> Result<()> {
        let input = ProgramInput {
            data_in: Some(&self.frame),
            flags: LIVE_FRAMES,
            repeat: CALL_RUNS,
            ..ProgramInput::default()
        };
        let run = program(&mut self.object, "lab_send")?.test_run(input).map(|_| ());
        run.context("the kernel sends no frames of XDP programs, as Linux 5.18 does")
    }
}

/// Loads the programs. `arrived`: the map of arrived packets to share with others; `None` for a new
/// map.
fn load(arrived: Option<&MapHandle>) -> Result<Object> {
    let mut open = ObjectBuilder::default().open_memory(PROGRAMS).context("read XDP programs")?;
    if let Some(arrived) = arrived {
        let mut own = open.maps_mut().find(|map| map.name() == "arrived").context("no map")?;
        own.reuse_fd(arrived.as_fd()).context("share a map")?;
    }
    open.load().context("load XDP programs")
}

fn program<'a>(object: &'a mut Object, name: &str) -> Result<ProgramMut<'a>> {
    let mut all = object.progs_mut();
    all.find(|program| program.name() == name).with_context(|| format!("no program {name}"))
}

fn map(object: &Object, name: &str) -> Result<MapHandle> {
    let map = object.maps().find(|map| map.name() == name);
    let map = map.with_context(|| format!("no map {name}"))?;
    MapHandle::try_from(&map).with_context(|| format!("keep the map {name}"))
}

fn update(map: &MapHandle, key: u32, value: &[u8]) -> Result<()> {
    map.update(&key.to_ne_bytes(), value, MapFlags::ANY).context("write a map")
}

/// Returns the first eight octets of a map's only value as a number.
fn counter(map: &MapHandle) -> Result<u64> {
    let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).context("read a map")?;
    let octets = value.as_deref().and_then(<[u8]>::first_chunk).context("a short value")?;
    Ok(u64::from_ne_bytes(*octets))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use adit_lab_process::netns::NetNamespace;

    #[test]
    fn frames_arrive_and_none_is_lost_with_few_on_their_way() {
        if !rustix::process::geteuid().is_root() {
            return adit_testkit::skip("not root");
        }
        let namespace = NetNamespace::create(format!("adit-corp-{}", std::process::id())).unwrap();
        let lines = "link add lab0 type veth peer name lab1\nlink set lab0 up\nlink set lab1 up\n";
        namespace.ip_batch(&[], lines).unwrap();
        let device = |name| namespace.device(name).unwrap();
        assert_ne!(device("lab0").mac, device("lab1").mac);
        let sink = namespace.enter(|| PacketSink::attach(device("lab1").index)).unwrap();
        let mut frame = vec![0; 60];
        frame[12] = 8;
        let window = SendWindow { sink: &sink, pkts_max: 8 };
        let maker =
            LiveFrameSender::load(&vec![frame.clone(); FRAMES], device("lab0").index, window);
        let mut maker = maker.unwrap();
        let made = maker.counter().unwrap();
        namespace.enter(|| maker.send()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while sink.arrived_pkts().unwrap() < made.pkts().unwrap() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(made.pkts().unwrap() > 8, "more frames follow those that have arrived");
        assert_eq!(sink.arrived_pkts().unwrap(), made.pkts().unwrap());
        let several = [vec![frame.clone(); FRAMES - 1], vec![vec![0; 61]]].concat();
        assert!(LiveFrameSender::load(&several, 1, window).is_err());
    }
}
