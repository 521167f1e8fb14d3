//! The environment abstraction layer (EAL) of DPDK; a process has one.

use core::ffi::c_void;
use std::ffi::CString;
use std::os::fd::IntoRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use adit_dpdk_sys as sys;
use rustix::event::{EventfdFlags, eventfd};

use crate::device::{Device, DeviceKind};
use crate::errno::Errno;
use crate::hugepages::{self, HugepageMode};
use crate::{log, processor};

/// True once the EAL was started: a process can start it only once, even if the start fails.
static IS_STARTED: AtomicBool = AtomicBool::new(false);

/// Configuration of the EAL.
#[derive(Debug, Clone)]
pub struct EalConfig {
    /// Page size of the packet memory.
    pub hugepages: HugepageMode,
    /// Memory that is allocated at start. Without hugepages it cannot grow. Unit: MiB.
    pub memory_mib: u32,
    /// CPUs on which the main thread may run; if empty, all CPUs of the process.
    ///
    /// Workers are not EAL threads: they call [`crate::register_thread`] and pin themselves.
    pub main_cpus: Vec<u16>,
    /// The NUMA node of the memory; `None` for the node of the main CPUs. If the node has too few
    /// free hugepages, DPDK chooses the node.
    pub memory_node: Option<u32>,
    /// Prefix of DPDK's runtime files. It must differ between the processes of a machine.
    pub file_prefix: String,
    /// Devices of all ports.
    pub devices: Vec<Device>,
    /// Further EAL arguments, appended as written.
    pub extra_args: Vec<String>,
}

impl Default for EalConfig {
    fn default() -> Self {
        Self {
            hugepages: HugepageMode::Auto,
            memory_mib: 512,
            main_cpus: Vec::new(),
            memory_node: None,
            file_prefix: "adit".to_owned(),
            devices: Vec::new(),
            extra_args: Vec::new(),
        }
    }
}

/// A condition that the operator should know about, although the EAL started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EalNotice {
    /// Too few hugepages are free, so ordinary pages are used.
    #[error(
        "{wanted_mib} MiB of hugepages are wanted, but only {free_mib} MiB are free: DPDK uses ordinary \
         pages, which is slower and excludes physical NICs without an IOMMU; reserve hugepages with \
         `sysctl vm.nr_hugepages={pages}`", pages = wanted_mib.div_ceil(2)
    )]
    NoHugepages {
        /// Requested memory. Unit: MiB.
        wanted_mib: u32,
        /// Free hugepages. Unit: MiB.
        free_mib: u64,
    },
    /// The requested NUMA node has too few free hugepages.
    #[error(
        "{wanted_mib} MiB of hugepages are wanted on node {node}, but only {free_mib} MiB are free there: packets are \
         in memory of another node, which is slower; reserve hugepages with `adit host apply --hugepages {node}:2048:{pages}`",
        pages = wanted_mib.div_ceil(2)
    )]
    OtherNode {
        /// The requested node.
        node: u32,
        /// Requested memory. Unit: MiB.
        wanted_mib: u32,
        /// Free hugepages of the node. Unit: MiB.
        free_mib: u64,
    },
}

/// The reason why the EAL did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EalError {
    /// This process has started the EAL before.
    #[error("this process has started the EAL before; DPDK allows one start per process")]
    AlreadyInitialized,
    /// Hugepages are required and too few are free.
    #[error(
        "{free_mib} MiB of hugepages are free and {wanted_mib} MiB are required; reserve them with \
         `sysctl vm.nr_hugepages={pages}` or allow ordinary pages", pages = wanted_mib.div_ceil(2)
    )]
    NoHugepages {
        /// Required memory. Unit: MiB.
        wanted_mib: u32,
        /// Free hugepages. Unit: MiB.
        free_mib: u64,
    },
    /// An argument contains a NUL.
    #[error("EAL argument {0:?} contains a NUL character")]
    Argument(String),
    /// DPDK refused.
    #[error("the EAL did not start: {errno}; {}{}", init_hint(*errno), log::log_tail(log))]
    Init {
        /// DPDK's reason.
        errno: Errno,
        /// DPDK's own log lines.
        log: String,
    },
}

fn init_hint(errno: Errno) -> &'static str {
    match errno.value() {
        libc::EACCES | libc::EPERM => "run as root or with CAP_NET_ADMIN and CAP_NET_RAW",
        libc::ENOMEM => "lower the configured memory or reserve more hugepages",
        libc::EINVAL => "check the extra EAL arguments",
        libc::EAGAIN | libc::EALREADY => "another process may use the same file prefix",
        _ => "see DPDK's lines below",
    }
}

/// Maximum number of NUMA nodes. DPDK: `RTE_MAX_NUMA_NODES`.
const NODES_MAX: usize = 32;

impl EalConfig {
    /// Returns the argument vector that [`Eal::init`] passes to DPDK, program name first.
    ///
    /// # Errors
    /// [`EalError::NoHugepages`] if hugepages are required and too few are free now.
    pub fn arguments(&self) -> Result<Vec<String>, EalError> {
        self.plan().map(|plan| plan.arguments)
    }

    fn plan(&self) -> Result<EalPlan, EalError> {
        let (has_hugepages, mut notice) = self.choose_pages()?;
        let mut args = vec!["adit".to_owned(), "--no-telemetry".to_owned()];
        args.push("--log-level=warning".to_owned());
        args.extend(["--file-prefix".to_owned(), self.file_prefix.clone()]);
        let mut memory = ["-m".to_owned(), self.memory_mib.to_string()];
        let mut memory_node = None;
        if let Some(node) = self.memory_node.filter(|_| has_hugepages) {
            let (wanted_mib, free_mib) = (self.memory_mib, hugepages::free_mib_of(node));
            match socket_mem_argument(node, wanted_mib) {
                Some(list) if free_mib >= u64::from(wanted_mib) => {
                    memory = ["--socket-mem".to_owned(), list];
                    memory_node = Some(node);
                }
                _ => notice = Some(EalNotice::OtherNode { node, wanted_mib, free_mib }),
            }
        }
        args.extend(memory);
        args.extend(["--lcores".to_owned(), self.lcores()]);
        // With either option DPDK leaves no files behind; it accepts `--in-memory` only with
        // hugepages.
        if has_hugepages {
            args.push("--in-memory".to_owned());
        } else {
            args.extend(["--no-huge".to_owned(), "--no-shconf".to_owned()]);
        }
        // The peer of a memif maps all packet memory as one file. Without hugepages there is only
        // one.
        let is_memif = |device: &Device| device.is_driver("net_memif");
        let is_shared = |device: &Device| device.argument("zero-copy") == Some("yes");
        if self.devices.iter().any(|one| is_memif(one) && (has_hugepages || is_shared(one))) {
            args.push("--single-file-segments".to_owned());
        }
        let pci = self.devices.iter().filter(|device| device.kind() == DeviceKind::Pci);
        let allow: Vec<String> = pci.map(Device::to_string).collect();
        if allow.is_empty() {
            args.extend(["--no-pci".to_owned(), "--iova-mode=va".to_owned()]);
        }
        args.extend(allow.into_iter().flat_map(|device| ["--allow".to_owned(), device]));
        args.extend(self.extra_args.iter().cloned());
        Ok(EalPlan { arguments: args, notice, memory_node })
    }

    /// Returns whether to use hugepages, and a notice for the operator if they were wanted and
    /// cannot be used.
    fn choose_pages(&self) -> Result<(bool, Option<EalNotice>), EalError> {
        let wanted_mib = self.memory_mib;
        let free_mib = hugepages::free_mib();
        let enough = free_mib >= u64::from(wanted_mib);
        match self.hugepages {
            HugepageMode::Never => Ok((false, None)),
            HugepageMode::Auto | HugepageMode::Require if enough => Ok((true, None)),
            HugepageMode::Auto => {
                Ok((false, Some(EalNotice::NoHugepages { wanted_mib, free_mib })))
            }
            HugepageMode::Require => Err(EalError::NoHugepages { wanted_mib, free_mib }),
        }
    }

    /// Returns the value of `--lcores`: a single lcore, with index 0, on the main CPUs. DPDK limits
    /// lcore indexes, so they must not follow the CPU indexes of large machines.
    fn lcores(&self) -> String {
        let cpus: Vec<String> = if self.main_cpus.is_empty() {
            processor::allowed_cpus().iter().map(ToString::to_string).collect()
        } else {
            self.main_cpus.iter().map(ToString::to_string).collect()
        };
        format!("0@({})", cpus.join(","))
    }
}

/// Returns the value of `--socket-mem`, which lists the MiB of each node from 0 on. `None` for a
/// node beyond DPDK's limit.
fn socket_mem_argument(node: u32, mib: u32) -> Option<String> {
    let node = usize::try_from(node).ok().filter(|node| *node < NODES_MAX)?;
    Some(format!("{}{mib}", "0,".repeat(node)))
}

struct EalPlan {
    arguments: Vec<String>,
    notice: Option<EalNotice>,
    memory_node: Option<u32>,
}

/// Returns DPDK's version.
#[must_use]
pub fn version() -> String {
    // SAFETY: the function has no parameters and returns a constant.
    let text = unsafe { sys::rte_version() };
    // SAFETY: `text` is a C string that lives as long as the process.
    let text = unsafe { core::ffi::CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// The running EAL; a cheap handle to share.
///
/// Invariant: DPDK's memory stays mapped while any handle lives. Pools and ports hold handles.
#[derive(Debug, Clone)]
pub struct Eal {
    inner: Arc<EalHandle>,
}

#[derive(Debug)]
struct EalHandle {
    main_thread: ThreadId,
    registered_threads: AtomicUsize,
    arguments: Vec<String>,
    notice: Option<EalNotice>,
    memory_node: Option<u32>,
    /// The runtime folder, which DPDK creates even if it stores nothing in it.
    runtime_folder: Option<String>,
}

impl Eal {
    /// Starts the EAL on the calling thread, which becomes the main lcore.
    ///
    /// Pins the thread to `main_cpus`. Threads that it spawns later inherit that affinity, so
    /// workers pin themselves. Does not create virtual devices; [`crate::Port::open`] does.
    ///
    /// # Errors
    /// See [`EalError`]. After a failure in DPDK itself the process cannot try again.
    pub fn init(config: &EalConfig) -> Result<Self, EalError> {
        let EalPlan { arguments, notice, memory_node } = config.plan()?;
        let strings = arguments
            .iter()
            .map(|text| CString::new(text.as_str()).map_err(|_| EalError::Argument(text.clone())))
            .collect::<Result<Vec<_>, _>>()?;
        let count = i32::try_from(strings.len())
            .map_err(|_| EalError::Argument("too many arguments".to_owned()))?;
        if IS_STARTED.swap(true, Ordering::SeqCst) {
            return Err(EalError::AlreadyInitialized);
        }
        // DPDK keeps pointers into its arguments and reorders them, so they are never freed.
        let argv: &'static mut [*mut core::ffi::c_char] =
            strings.into_iter().map(CString::into_raw).collect::<Vec<_>>().leak();
        // SAFETY: `argv` holds `count` C strings that live for the rest of the process; the process
        // calls `rte_eal_init` only here, and once.
        let (code, log) = log::capture(|| unsafe { sys::rte_eal_init(count, argv.as_mut_ptr()) });
        if code < 0 {
            return Err(EalError::Init { errno: Errno::last(), log });
        }
        log::print_log(&log);
        let runtime_folder = runtime_folder();
        if let Some(folder) = &runtime_folder {
            remove_left_folders(Path::new(folder));
        }
        let inner = EalHandle {
            main_thread: std::thread::current().id(),
            registered_threads: AtomicUsize::new(0),
            arguments,
            notice,
            memory_node,
            runtime_folder,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the warning for the operator, if there is one.
    #[must_use]
    pub fn notice(&self) -> Option<EalNotice> {
        self.inner.notice
    }

    /// Returns the requested NUMA node if its hugepages suffice; otherwise `None`.
    #[must_use]
    pub fn memory_node(&self) -> Option<u32> {
        self.inner.memory_node
    }

    /// Returns the argument vector that was passed to DPDK.
    #[must_use]
    pub fn arguments(&self) -> &[String] {
        &self.inner.arguments
    }

    /// True if packet memory uses hugepages.
    #[must_use]
    pub fn has_hugepages(&self) -> bool {
        // SAFETY: reads the configuration of the running EAL.
        unsafe { sys::rte_eal_has_hugepages() != 0 }
    }

    /// Returns the frequency of [`crate::tsc`]. Unit: Hz.
    #[must_use]
    pub fn tsc_hz(&self) -> u64 {
        // SAFETY: reads a number that the EAL measured when it started.
        unsafe { sys::rte_get_tsc_hz() }
    }

    /// Returns DPDK's version.
    #[must_use]
    pub fn version(&self) -> String {
        version()
    }

    pub(crate) fn thread_registered(&self) {
        self.inner.registered_threads.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn thread_unregistered(&self) {
        self.inner.registered_threads.fetch_sub(1, Ordering::AcqRel);
    }

    /// True if the caller is the main lcore and no other thread has an lcore index. Then no other
    /// thread has a mempool cache.
    pub(crate) fn is_sole_lcore(&self) -> bool {
        self.inner.main_thread == std::thread::current().id()
            && self.inner.registered_threads.load(Ordering::Acquire) == 0
    }
}

fn runtime_folder() -> Option<String> {
    // SAFETY: the EAL runs.
    let text = unsafe { sys::rte_eal_get_runtime_dir() };
    if text.is_null() {
        return None;
    }
    // SAFETY: `text` is a C string in the EAL's static memory.
    let text = unsafe { core::ffi::CStr::from_ptr(text) };
    text.to_str().ok().map(str::to_owned)
}

/// Removes the empty folders that killed processes left next to `own`: those with the same name
/// except for the process ID, if no process has that ID. Best effort.
fn remove_left_folders(own: &Path) {
    let digits =
        |name: &str| name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let name_of = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let Some((parent, own_name)) = own.parent().zip(name_of(own)) else { return };
    let (stem, own_number) = own_name.split_at(own_name.len() - digits(&own_name));
    if own_number.is_empty() {
        return;
    }
    let is_left = |path: &Path| {
        let name = name_of(path)?;
        let number = name.strip_prefix(stem).filter(|number| digits(number) == number.len())?;
        let is_gone = !number.is_empty() && !Path::new("/proc").join(number).exists();
        is_gone.then_some(())
    };
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).filter(|path| is_left(path).is_some()) {
        drop(std::fs::remove_dir(path));
    }
}

/// Maximum wait for DPDK's interrupt thread.
const INTERRUPT_ROUND_MAX: Duration = Duration::from_millis(200);

/// Waits until the interrupt thread has freed the handlers of closed ports and sleeps again.
pub(crate) fn settle_interrupts() {
    static ROUNDS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn note_round(_: *mut c_void) {
        ROUNDS.fetch_add(1, Ordering::Release);
    }
    // Two rounds: memory that the first round marks for release is released before the second.
    for _ in 0..2 {
        let before = ROUNDS.load(Ordering::Acquire);
        // SAFETY: the EAL runs; the callback uses nothing but a static counter.
        let code = unsafe { sys::rte_eal_alarm_set(1, Some(note_round), core::ptr::null_mut()) };
        if code == 0 {
            wait_for_interrupts(|| ROUNDS.load(Ordering::Acquire) != before);
        }
    }
    // After its callback the thread begins its loop anew, and waits in the kernel.
    std::thread::sleep(Duration::from_millis(1));
}

/// Stops the interrupt thread for good: registers an event source whose callback never returns.
/// NOTE: when DPDK 22.11 is cleaned up, it does not end this thread, but wakes it and then unmaps
/// memory that the thread still uses.
fn stop_interrupts() {
    // `RTE_INTR_INSTANCE_F_PRIVATE`: DPDK allocates the handle outside the memory that it unmaps.
    const PRIVATE: u32 = 0;
    static IS_STOPPED: AtomicBool = AtomicBool::new(false);
    extern "C" fn stop(_: *mut c_void) {
        IS_STOPPED.store(true, Ordering::Release);
        loop {
            std::thread::sleep(Duration::MAX);
        }
    }
    // The initial value 1 makes the descriptor readable at once.
    let Ok(event) = eventfd(1, EventfdFlags::CLOEXEC) else { return };
    // SAFETY: takes flags, returns a handle or null.
    let handle = unsafe { sys::rte_intr_instance_alloc(PRIVATE) };
    if handle.is_null() {
        return;
    }
    // From here on the interrupt thread polls the descriptor, so it is never closed.
    let event = event.into_raw_fd();
    // SAFETY: the handle is live.
    unsafe { sys::rte_intr_fd_set(handle, event) };
    // SAFETY: the handle is live.
    unsafe { sys::rte_intr_type_set(handle, sys::rte_intr_handle_type::RTE_INTR_HANDLE_EXT) };
    let argument = core::ptr::null_mut();
    // SAFETY: the EAL runs and copies the live handle; the callback gets a null pointer, and uses
    // static memory only.
    let code = unsafe { sys::rte_intr_callback_register(handle, Some(stop), argument) };
    // SAFETY: the handle is live, and nothing uses it after this call.
    unsafe { sys::rte_intr_instance_free(handle) };
    if code == 0 {
        wait_for_interrupts(|| IS_STOPPED.load(Ordering::Acquire));
    }
}

/// Waits until `is_done` holds, at most [`INTERRUPT_ROUND_MAX`].
fn wait_for_interrupts(is_done: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_done() && began.elapsed() < INTERRUPT_ROUND_MAX {
        std::thread::sleep(Duration::from_micros(100));
    }
}

impl Drop for EalHandle {
    fn drop(&mut self) {
        stop_interrupts();
        // SAFETY: every pool and port holds a handle, so none of them, which point into DPDK's
        // memory, is left. A pool that could not be freed has leaked its handle, and then this code
        // does not run.
        unsafe { sys::rte_eal_cleanup() };
        if let Some(folder) = &self.runtime_folder {
            // Best effort: removes the folder only when it is empty.
            drop(std::fs::remove_dir(folder));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_empty_folders_of_processes_that_are_gone_are_removed() {
        let parent = std::env::temp_dir().join(format!("adit-eal-{}", std::process::id()));
        let own = parent.join(format!("adit-{}", std::process::id()));
        // Linux has no process IDs beyond 2^22.
        let names = ["adit-99999999", "adit-99999998", "adit-1", "other-99999999", "adit-x"];
        std::fs::create_dir_all(&own).unwrap();
        names.iter().for_each(|name| std::fs::create_dir(parent.join(name)).unwrap());
        std::fs::write(parent.join("adit-99999998/config"), "").unwrap();
        remove_left_folders(&own);
        let is_there = names.map(|name| parent.join(name).exists());
        assert_eq!(is_there, [false, true, true, true, true]);
        assert!(own.exists());
        std::fs::remove_dir_all(&parent).unwrap();
    }

    fn config(devices: &[&str]) -> EalConfig {
        EalConfig {
            hugepages: HugepageMode::Never,
            memory_mib: 64,
            main_cpus: vec![1, 3],
            devices: devices.iter().map(|text| text.parse().unwrap()).collect(),
            ..EalConfig::default()
        }
    }

    #[test]
    fn arguments_without_pci_device_leave_the_pci_bus_alone() {
        let args = config(&["net_null0"]).arguments().unwrap().join(" ");
        assert_eq!(
            args,
            "adit --no-telemetry --log-level=warning --file-prefix adit -m 64 \
             --lcores 0@(1,3) --no-huge --no-shconf --no-pci --iova-mode=va"
        );
    }

    #[test]
    fn memory_of_a_node_is_a_list_up_to_it() {
        assert_eq!(socket_mem_argument(0, 512).as_deref(), Some("512"));
        assert_eq!(socket_mem_argument(2, 512).as_deref(), Some("0,0,512"));
        assert_eq!(socket_mem_argument(32, 512), None);
        // With ordinary pages, the memory policy of the main thread decides.
        let ordinary = EalConfig { memory_node: Some(1), ..config(&["net_null0"]) };
        assert!(ordinary.arguments().unwrap().join(" ").contains(" -m 64 "));
    }

    #[test]
    fn arguments_make_shared_packet_memory_one_file() {
        let of = |device| config(&[device]).arguments().unwrap().join(" ");
        let option = "--single-file-segments";
        assert!(of("net_memif0,role=client,zero-copy=yes").contains(option));
        assert!(!of("net_memif0,role=client").contains(option));
        assert!(!of("net_null0,zero-copy=yes").contains(option));
    }

    #[test]
    fn arguments_allow_each_pci_device_with_its_options() {
        let args = config(&["3b:00.0,a=1", "net_null0", "3b:00.1"]).arguments().unwrap().join(" ");
        assert!(
            args.ends_with("--no-huge --no-shconf --allow 0000:3b:00.0,a=1 --allow 0000:3b:00.1"),
            "{args}"
        );
    }

    #[test]
    fn arguments_with_required_hugepages_missing_are_refused() {
        let config = EalConfig {
            hugepages: HugepageMode::Require,
            memory_mib: u32::MAX,
            ..EalConfig::default()
        };
        assert!(matches!(config.arguments(), Err(EalError::NoHugepages { .. })));
    }
}
