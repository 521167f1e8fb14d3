//! Metrics of ports, packet buffers and the process.

use std::fs;

use adit_dpdk::Mempool;
use adit_kernel::{KernelCounters, PortCounters};
use adit_operate::metrics::{
    MetricFamily, MetricLabels, MetricSample, MetricUnit, MetricValues, as_gauge,
};

use super::{gauge, to_metric_value};
use crate::control_parts::port_links::PortLink;
use crate::control_parts::{ControlPort, ControlPortDevice};
use crate::snapshot::ControlView;
use crate::snapshot::ports::links_of;
use crate::version::REVISION;

/// Returns all metric families of this file with placeholder values, to list their names and
/// meanings.
pub(super) fn without_figures() -> Vec<MetricFamily> {
    let process = ProcessReading { started: Some(0.0), ..ProcessReading::default() };
    let mut families = port_families(&[]);
    families.extend(buffer_families(0, 0));
    families.push(build_family(Vec::new()));
    families.extend(process.families());
    families
}

/// The counters of a port, whatever its driver.
#[derive(Debug, Clone, Copy, Default)]
struct PortFigures {
    rx_pkts: u64,
    rx_bytes: u64,
    rx_missed: u64,
    rx_errors: u64,
    rx_no_buffer: u64,
    tx_pkts: u64,
    tx_bytes: u64,
    tx_errors: u64,
}

impl PortFigures {
    fn of(port: &ControlPort) -> Self {
        match &port.device {
            ControlPortDevice::Dpdk { port, .. } => {
                let stats = port.stats().unwrap_or_default();
                Self {
                    rx_pkts: stats.ipackets,
                    rx_bytes: stats.ibytes,
                    rx_missed: stats.imissed,
                    rx_errors: stats.ierrors,
                    rx_no_buffer: stats.rx_nombuf,
                    tx_pkts: stats.opackets,
                    tx_bytes: stats.obytes,
                    tx_errors: stats.oerrors,
                }
            }
            ControlPortDevice::Kernel { parts, .. } => {
                let mut sum = PortCounters::default();
                parts.iter().map(KernelCounters::read).for_each(|part| sum += part);
                Self {
                    rx_pkts: sum.rx_pkts,
                    rx_bytes: sum.rx_bytes,
                    rx_missed: sum.rx_missed_pkts,
                    rx_errors: sum.rx_unusable_pkts,
                    rx_no_buffer: sum.rx_no_buffer_pkts,
                    tx_pkts: sum.tx_pkts,
                    tx_bytes: sum.tx_bytes,
                    tx_errors: sum.tx_refused_pkts + sum.tx_unusable_pkts,
                }
            }
        }
    }
}

/// A port with its counters and its link.
struct MeasuredPort {
    name: String,
    figures: PortFigures,
    link: PortLink,
}

/// Returns the metrics of the ports and their links.
pub(super) fn of_ports(control: &ControlView<'_>) -> Vec<MetricFamily> {
    let rows: Vec<MeasuredPort> = links_of(control)
        .map(|(port, link)| MeasuredPort {
            name: port.config.name.clone(),
            figures: PortFigures::of(port),
            link,
        })
        .collect();
    port_families(&rows)
}

fn port_families(rows: &[MeasuredPort]) -> Vec<MetricFamily> {
    let mut families = port_counters(rows);
    let up = rows.iter().filter_map(|row| {
        let labels = vec![("port", row.name.clone())];
        Some(MetricSample { labels, value: f64::from(u8::from(row.link.is_up?)) })
    });
    families.push(MetricFamily::new(
        "adit_port_link_up",
        "1 if the link of the port is up; absent for ports of the kernel.",
        MetricValues::Gauge(up.collect()),
    ));
    families
}

fn port_counters(rows: &[MeasuredPort]) -> Vec<MetricFamily> {
    let of = |name: &'static str, help: &'static str, value: fn(&MeasuredPort) -> u64| {
        let samples = rows.iter().map(|row| MetricSample {
            labels: vec![("port", row.name.clone())],
            value: value(row),
        });
        MetricFamily::new(name, help, MetricValues::Counter(samples.collect()))
    };
    vec![
        of("adit_port_receive_packets", "Packets received.", |row| row.figures.rx_pkts),
        of("adit_port_receive", "Octets received.", |row| row.figures.rx_bytes)
            .in_unit(MetricUnit::Bytes),
        of(
            "adit_port_receive_missed_packets",
            "Packets lost because a receive queue was full: workers are slower than the port.",
            |row| row.figures.rx_missed,
        ),
        of("adit_port_receive_errors", "Packets received with an error.", |row| {
            row.figures.rx_errors
        }),
        of(
            "adit_port_receive_no_buffer_packets",
            "Packets lost because the pool of packet buffers was empty; raise dpdk.mempool_mbufs.",
            |row| row.figures.rx_no_buffer,
        ),
        of("adit_port_transmit_packets", "Packets sent.", |row| row.figures.tx_pkts),
        of("adit_port_transmit", "Octets sent.", |row| row.figures.tx_bytes)
            .in_unit(MetricUnit::Bytes),
        of("adit_port_transmit_errors", "Packets that could not be sent.", |row| {
            row.figures.tx_errors
        }),
        of("adit_port_link_losses", "How often the link of the port went down.", |row| {
            row.link.losses
        }),
        of(
            "adit_port_link_recoveries",
            "How often the link of the port came up after that.",
            |row| row.link.recoveries,
        ),
    ]
}

/// Returns the metrics of the pool of packet buffers.
pub(super) fn of_buffers(control: &ControlView<'_>) -> Vec<MetricFamily> {
    let pool = control.parts.pool.as_ref();
    let families = |pool: &Mempool| buffer_families(pool.mbufs().into(), pool.available().into());
    pool.map(families).unwrap_or_default()
}

fn buffer_families(all: u64, free: u64) -> Vec<MetricFamily> {
    vec![
        gauge("adit_mempool_buffers", "Packet buffers: dpdk.mempool_mbufs.", all),
        gauge(
            "adit_mempool_free_buffers",
            "Packet buffers that nothing holds; inexact while packets pass.",
            free,
        ),
    ]
}

/// Returns the metrics of the process and its build. Not for the control thread: reads files of the
/// kernel.
pub(super) fn of_process() -> Vec<MetricFamily> {
    let build = vec![vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("revision", REVISION.to_owned()),
        ("dpdk", adit_dpdk::version()),
    ]];
    let mut families = vec![build_family(build)];
    families.extend(ProcessReading::read().map(ProcessReading::families).unwrap_or_default());
    families
}

fn build_family(build: Vec<MetricLabels>) -> MetricFamily {
    MetricFamily::new(
        "adit_build",
        "The version and revision of adit, and the version of DPDK that it runs on.",
        MetricValues::Info(build),
    )
}

/// The kernel's figures of this process. Spec: proc_pid_stat(5), proc_pid_statm(5).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct ProcessReading {
    resident_bytes: u64,
    virtual_bytes: u64,
    cpu_seconds: f64,
    threads: u64,
    open_files: u64,
    /// Unit: seconds since 1970-01-01.
    started: Option<f64>,
}

impl ProcessReading {
    fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let statm = fs::read_to_string("/proc/self/statm").ok()?;
        let open_files =
            fs::read_dir("/proc/self/fd").map_or(0, |files| to_metric_value(files.count()));
        let boot = fs::read_to_string("/proc/stat").ok().and_then(|stat| boot_time(&stat));
        Self::parse(&stat, &statm, boot, open_files)
    }

    fn parse(stat: &str, statm: &str, boot: Option<f64>, open_files: u64) -> Option<Self> {
        // The name in parentheses may have spaces; field 3 follows it.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let mut pages = statm.split_ascii_whitespace().map(str::parse::<u64>);
        let page_bytes = to_metric_value(rustix::param::page_size());
        let hz = as_gauge(rustix::param::clock_ticks_per_second());
        let virtual_bytes = pages.next()?.ok()? * page_bytes;
        Some(Self {
            resident_bytes: pages.next()?.ok()? * page_bytes,
            virtual_bytes,
            cpu_seconds: as_gauge(field(14)? + field(15)?) / hz,
            threads: field(20)?,
            open_files,
            started: boot.zip(field(22)).map(|(boot, ticks)| boot + as_gauge(ticks) / hz),
        })
    }

    fn families(self) -> Vec<MetricFamily> {
        let cpu = MetricSample { labels: Vec::new(), value: self.cpu_seconds };
        let mut families = vec![
            gauge(
                "process_resident_memory",
                "Resident memory of the process, huge pages excluded.",
                self.resident_bytes,
            )
            .in_unit(MetricUnit::Bytes),
            gauge("process_virtual_memory", "Virtual memory of the process.", self.virtual_bytes)
                .in_unit(MetricUnit::Bytes),
            MetricFamily::new(
                "process_cpu",
                "CPU time of the process; a worker that polls takes all of its core.",
                MetricValues::FloatCounter(vec![cpu]),
            )
            .in_unit(MetricUnit::Seconds),
            gauge("process_threads", "Threads of the process.", self.threads),
            gauge("process_open_fds", "Open file descriptors of the process.", self.open_files),
        ];
        families.extend(self.started.map(|started| {
            let help = "Start of the process, in seconds since 1970-01-01.";
            MetricFamily::new("process_start_time", help, MetricValues::gauge(started))
                .in_unit(MetricUnit::Seconds)
        }));
        families
    }
}

/// Parses the time at which the system started. Unit: seconds since 1970-01-01.
fn boot_time(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_with_any_name_is_read() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 0 0 0 0 0 250 50 0 0 20 0 9 0 1000 0 0";
        let read = ProcessReading::parse(stat, "30 20 1 1 0 1 0", Some(100.0), 5).unwrap();
        let page = to_metric_value(rustix::param::page_size());
        assert_eq!((read.virtual_bytes, read.resident_bytes), (30 * page, 20 * page));
        let hz = as_gauge(rustix::param::clock_ticks_per_second());
        assert_eq!((read.cpu_seconds, read.threads), (300.0 / hz, 9));
        assert_eq!(read.started, Some(100.0 + 1000.0 / hz));
        assert_eq!(ProcessReading::parse("7 (a", "", None, 0), None);
    }

    #[test]
    fn this_process_has_memory_and_files() {
        let read = ProcessReading::read().unwrap();
        assert!(read.resident_bytes > 0 && read.open_files > 2 && read.threads > 0);
        assert!(read.started.is_some_and(|started| started > 1e9));
    }
}
