//! Binds the installed DPDK: finds it, translates its headers, compiles its inline functions.
//!
//! Everything generated stays in `OUT_DIR`. The instruction set of the compiled inline functions
//! follows Rust's `-Ctarget-cpu`, so that one setting raises both sides.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// Oldest DPDK with the interfaces that `adit-dpdk` uses.
const DPDK_VERSION_MIN: &str = "22.11";

/// First DPDK with another `rte_mbuf`: its fields moved into anonymous unions.
const DPDK_VERSION_BELOW: &str = "24.03";

/// Shared libraries with the bound functions; drivers are plugins that the EAL loads.
const LIBRARIES: [&str; 6] =
    ["rte_eventdev", "rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal"];

/// Patterns of bound functions: those that `adit-dpdk` calls and a few related ones. A short list
/// keeps the build fast.
const FUNCTIONS: [&str; 19] = [
    "rte_(openlog_stream|log_set_global_level|log_get_global_level|version|strerror|get_tsc_hz|rdtsc)",
    "rte_eal_(alarm_set|init|cleanup|hotplug_add|hotplug_remove|has_hugepages|process_type|get_runtime_dir|iova_mode)",
    "rte_intr_(instance_alloc|instance_free|fd_set|type_set|callback_register)",
    "rte_(lcore_id|socket_id|lcore_count|thread_register|thread_unregister)",
    "rte_eth_dev_(count_avail|get_port_by_name|get_name_by_port|info_get|configure|start|stop|close)",
    "rte_eth_dev_(adjust_nb_rx_tx_desc|set_mtu|get_mtu|socket_id|is_valid_port|set_link_up)",
    "rte_eth_(find_next|rx_queue_setup|tx_queue_setup|rx_burst|tx_burst|macaddr_get|link_get_nowait)",
    "rte_eth_(stats_get|stats_reset|xstats_get|xstats_get_names|promiscuous_(enable|disable|get)|allmulticast_(enable|disable))",
    "rte_pktmbuf_(init|pool_init|alloc|alloc_bulk|free|free_bulk)|rte_mempool_(create|free|avail_count|lookup)",
    "rte_eth_dev_(conf_get|rx_offload_name|tx_offload_name|rss_hash_conf_get)",
    "rte_flow_(validate|create|destroy|flush)|rte_flow_action_handle_(create|destroy|query)",
    "rte_ring_(create|free|count|enqueue_burst|dequeue_burst|mp_enqueue_burst|mc_dequeue_burst)",
    "rte_softrss",
    "rte_event_dev_(get_dev_id|info_get|configure|start|stop|close|service_id_get|stop_flush_callback_register)",
    "rte_event_(queue_setup|queue_default_conf_get|port_setup|port_default_conf_get|port_link|maintain|(enqueue_new|enqueue_forward|enqueue|dequeue)_burst)|rte_event_dev_xstats_(get|names_get)",
    "rte_service_(runstate_set|run_iter_on_app_lcore|set_runstate_mapped_check|component_runstate_set)",
    "adit_rte_errno",
    "adit_memif_gate_(guards|take|give_back|enter|leave)",
    "adit_af_packet_keep_fragments",
];

/// Types bound in addition to those that the bound functions use.
const TYPES: [&str; 4] = [
    "rte_mbuf|rte_pktmbuf_pool_private",
    "rte_eth_(conf|dev_info|stats|link|xstat|xstat_name)",
    "rte_event(_dev_(info|config|xstats_name)|_(queue|port)_conf)?",
    "rte_flow_(attr|error|item|item_(eth|vlan|ipv4|ipv6|udp|tcp|gtp|gtp_psc|integrity|ethdev)|action|action_(queue|count|raw_encap|raw_decap|ethdev)|indir_action_conf|query_count)",
];

/// Constants, among them the offload and packet flags that are function-like macros in C.
const CONSTANTS: [&str; 5] = [
    "RTE_ETH_(RX|TX)_OFFLOAD_.*|RTE_ETH_MQ_.*|RTE_ETH_LINK_.*|RTE_ETH_NAME_MAX_LEN|RTE_ETH_SPEED_.*",
    "RTE_MBUF_F_RX_.*|RTE_MBUF_F_TX_.*|RTE_MBUF_DEFAULT_.*|RTE_PKTMBUF_HEADROOM",
    "RTE_MAX_(ETHPORTS|LCORE)|RTE_ETHER_.*|RTE_LOG_.*|LCORE_ID_ANY|SOCKET_ID_ANY|RTE_PROC_.*",
    "RTE_MEMPOOL_(CACHE_MAX_SIZE|F_NO_IOVA_CONTIG)|RTE_VER_.*|RTE_ETH_RSS_.*",
    "RTE_SCHED_TYPE_.*|RTE_EVENT_(OP|TYPE|QUEUE_CFG|PORT_CFG|DEV_PRIORITY|DEV_MAINT|DEV_CAP|DEV_CFG|MAX)_.*",
];

fn main() {
    println!("cargo:rerun-if-changed=dpdk.h");
    println!("cargo:rerun-if-changed=af_packet.c");
    println!("cargo:rerun-if-changed=af_packet.h");
    println!("cargo:rerun-if-changed=memif_gate.c");
    println!("cargo:rerun-if-changed=memif_gate.h");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_else(|| fail("OUT_DIR is not set")));
    let mut flags = dpdk_flags();
    flags.extend(baseline_flag());
    bind(&out, &flags);
    compile_inlines(&out, &flags);
    for library in LIBRARIES {
        println!("cargo:rustc-link-lib={library}");
    }
}

fn fail(reason: &str) -> ! {
    eprintln!("adit-dpdk-sys: {reason}");
    exit(1)
}

/// DPDK's compiler flags. Also emits the link search path.
fn dpdk_flags() -> Vec<String> {
    let missing = format!(
        "DPDK from {DPDK_VERSION_MIN} on and below {DPDK_VERSION_BELOW} was not found by \
         pkg-config; install it \
         (Debian and Ubuntu: `apt-get install libdpdk-dev pkg-config libclang-14-dev`) or point \
         PKG_CONFIG_PATH at the folder of libdpdk.pc"
    );
    let found = pkg_config::Config::new()
        .range_version(DPDK_VERSION_MIN..DPDK_VERSION_BELOW)
        .cargo_metadata(false)
        .probe("libdpdk")
        .unwrap_or_else(|error| fail(&format!("{missing}\n{error}")));
    for path in &found.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    let pkg_config = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    match Command::new(pkg_config).args(["--cflags", "libdpdk"]).output() {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.split_whitespace().map(str::to_owned).collect()
        }
        _ => fail(&missing),
    }
}

/// A flag for the instruction set, which follows DPDK's flags and so overrides `-march=corei7`.
///
/// DPDK's headers need SSE4.2, so at least x86-64-v2.
fn baseline_flag() -> Option<String> {
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("x86_64") {
        return None;
    }
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let all = |wanted: &[&str]| wanted.iter().all(|name| features.split(',').any(|f| f == *name));
    let level = if all(&["avx512bw", "avx512cd", "avx512dq", "avx512vl"]) {
        "x86-64-v4"
    } else if all(&["avx2", "bmi2", "fma", "movbe"]) {
        "x86-64-v3"
    } else {
        "x86-64-v2"
    };
    Some(format!("-march={level}"))
}

fn bind(out: &Path, flags: &[String]) {
    let mut builder = bindgen::Builder::default()
        .header("dpdk.h")
        .clang_args(flags)
        .allowlist_recursively(true)
        .default_enum_style(bindgen::EnumVariation::ModuleConsts)
        .use_core()
        .generate_comments(false)
        .derive_debug(false)
        .merge_extern_blocks(true)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .clang_macro_fallback()
        .clang_macro_fallback_build_dir(out)
        .wrap_static_fns(true)
        .wrap_static_fns_path(out.join("inlines"));
    for pattern in FUNCTIONS {
        builder = builder.allowlist_function(pattern);
    }
    for pattern in TYPES {
        builder = builder.allowlist_type(pattern);
    }
    for pattern in CONSTANTS {
        builder = builder.allowlist_var(pattern);
    }
    let bindings = builder.generate().unwrap_or_else(|error| {
        fail(&format!(
            "libclang could not translate the DPDK headers ({error}); install libclang \
             (Debian and Ubuntu: `apt-get install libclang-14-dev`)"
        ))
    });
    if let Err(error) = bindings.write_to_file(out.join("bindings.rs")) {
        fail(&format!("bindings.rs could not be written: {error}"));
    }
}

/// Compiles the functions that DPDK's headers define inline, and those that keep drivers from harm.
fn compile_inlines(out: &Path, flags: &[String]) {
    let mut build = cc::Build::new();
    build.file(out.join("inlines.c")).include(".").warnings(false).flag("-w").opt_level(3);
    for flag in flags {
        build.flag(flag);
    }
    build.file("memif_gate.c").file("af_packet.c");
    build.compile("adit_dpdk_inlines");
}
