//! `adit check`: checks a configuration and prints the values derived from it.

use std::path::Path;

use serde_json::{Value, json};

use crate::config::{self, Config, PollMode};
use crate::wiring;

/// Checks the file at `path`.
///
/// # Errors
/// Every mistake in the file.
pub(crate) fn check(path: &Path, json: bool) -> anyhow::Result<()> {
    let config = Config::load(path)?;
    let derived = derived(&config);
    if json {
        println!("{}", serde_json::to_string_pretty(&derived)?);
        return Ok(());
    }
    println!("{}: correct", path.display());
    for (name, value) in derived.as_object().into_iter().flatten() {
        match value {
            Value::String(text) => println!("  {name}: {text}"),
            other => println!("  {name}: {other}"),
        }
    }
    Ok(())
}

fn derived(config: &Config) -> Value {
    let eal = match wiring::eal(config).arguments() {
        Ok(arguments) => arguments.join(" "),
        Err(error) => format!("cannot start now: {error}"),
    };
    let interfaces = config.interfaces.iter().map(|interface| {
        let role = interface.role.name();
        let port = &config.ports[usize::from(interface.port.0)];
        format!("{} is {role} on {} ({})", interface.name, port.name, port.device)
    });
    let pool_mib =
        (u64::from(config.dpdk.mempool_mbufs) * (u64::from(config.dpdk.mbuf_bytes) + 384)) >> 20;
    let polls = config.datapath.poll.iter().map(|poll| match poll {
        PollMode::Busy => "busy",
        PollMode::Adaptive => "adaptive",
    });
    let polls: Vec<_> = polls.collect();
    let queues: Vec<_> = config.ports.iter().map(|port| queues(config, port)).collect();
    json!({
        "eal_arguments": eal,
        "mempool_mib": pool_mib,
        "worker_cores": config.datapath.workers,
        "poll": polls.join(" "),
        "queues": queues.join("; "),
        "main_core": config.datapath.main_core,
        "n4": config.n4.listen.to_string(),
        "sessions_max": config.sessions_max,
        "interfaces": interfaces.collect::<Vec<_>>().join("; "),
        "admin_socket": config.admin_socket.display().to_string(),
    })
}

/// Describes the receive queues of a port.
fn queues(config: &Config, port: &config::PortSettings) -> String {
    let workers = config.datapath.workers.len();
    let name = &port.name;
    match port.rx_queues.map(usize::from) {
        None if workers == 1 => format!("{name} has 1 for its worker"),
        None => format!("{name} has up to {workers}, one for each worker"),
        Some(queues) if queues == workers => format!("{name} has {queues}, one for each worker"),
        Some(queues) => {
            format!("{name} has {queues}; the workers hand packets of other workers' sessions over")
        }
    }
}
