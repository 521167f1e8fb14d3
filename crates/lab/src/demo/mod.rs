//! `adit-lab demo`: creates a small 5G network around adit, runs real programs through it, and
//! checks the results. [`run`] removes everything that it created.

pub(crate) mod bring_up;
mod dashboard;
pub(crate) mod live;
mod programs;
pub(crate) mod report;
mod steps;

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

use self::bring_up::{BringUpOptions, Network};
use self::dashboard::DemoDashboard;
use self::live::{DemoOutput, DemoView};
use self::programs::{DemoHttpServer, start_iperf_server};
use self::report::DemoReport;
use self::steps::DemoSteps;
use crate::DemoArguments;
use crate::topology::{DN, LabUe};
use adit_lab_process::adit_config::Qos;
use adit_lab_process::stop::{Interrupted, Stop};

/// Runs the demo and prints its summary. True if every check passed.
///
/// # Errors
/// [`adit_lab_process::stop::EnvironmentError`] if the machine lacks something,
/// [`adit_lab_process::stop::Interrupted`] after a signal, or another error that ends the demo.
pub(crate) fn run(arguments: &DemoArguments, stop: &Stop) -> Result<bool> {
    let output = if arguments.json { DemoOutput::Stderr } else { DemoOutput::Stdout };
    let mut live = DemoView::new(output);
    let qos =
        arguments.excess.map(|excess| Qos { excess, queue_pkts: None, shared_mbps: None }.text());
    let dashboard = arguments.keep.then(DemoDashboard::create).transpose()?;
    let api = dashboard.as_ref().map(DemoDashboard::section);
    let sections = qos.unwrap_or_default() + &api.unwrap_or_default();
    let mut network = Network::bring_up(
        arguments,
        BringUpOptions { sections: &sections, corp: false, has_captures: false, mtu_bytes: None },
        &live,
        stop,
    )?;
    live.watch(network.adit.admin().clone());
    let result = drive(arguments, dashboard.as_ref(), &mut network, &mut live, stop);
    live.finish();
    let show_log = match &result {
        Ok(report) => !report.ok,
        Err(error) => !error.is::<Interrupted>(),
    };
    if show_log {
        eprintln!("adit-lab: the last lines of adit's log:\n{}", network.adit.log_tail());
    }
    let report = result?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("{}", report.render());
    }
    Ok(report.ok)
}

fn drive(
    arguments: &DemoArguments,
    dashboard: Option<&DemoDashboard>,
    network: &mut Network,
    live: &mut DemoView,
    stop: &Stop,
) -> Result<DemoReport> {
    let mut steps = DemoSteps::new(arguments, network, live, stop);
    steps.attach()?;
    let http = DemoHttpServer::start(&steps.network.topology.dn, steps.network.dir(), stop)?;
    match arguments.restart {
        true => steps.restart()?,
        false => steps.traffic(&http)?,
    }
    if let Some(dashboard) = dashboard {
        let Network { topology, .. } = &*steps.network;
        let _iperf = start_iperf_server(&topology.dn, steps.network.dir(), stop)?;
        serve_until_signal(&steps, dashboard, stop)?;
    }
    // With --keep, Ctrl-C ends the waiting: the final steps and checks still run.
    let until_done = if arguments.keep { Stop::default() } else { stop.clone() };
    steps.detach(&until_done)?;
    Ok(steps.finish())
}

/// Prints how to use the UEs and the dashboard, and waits for a signal.
fn serve_until_signal(steps: &DemoSteps<'_>, dashboard: &DemoDashboard, stop: &Stop) -> Result<()> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let upf = &steps.network.topology.upf;
        let address = dashboard.relay(scope, upf, || over.load(Ordering::Relaxed))?;
        wait(steps, &address, stop);
        over.store(true, Ordering::Relaxed);
        Ok(())
    })
}

fn wait(steps: &DemoSteps<'_>, dashboard: &str, stop: &Stop) {
    let topology = &steps.network.topology;
    let (ran, device) = (topology.ran.name(), LabUe(1).device());
    let socket = steps.network.adit.admin().socket().display();
    steps.live.print_line(&format!(
        "\nThe network stays up until Ctrl-C. Dashboard:\n\
         \x20 {dashboard}\n\
         In another terminal, as root:\n\
         \x20 ip netns exec {ran} ping -I {device} {DN}\n\
         \x20 ip netns exec {ran} iperf3 -c {DN} --bind-dev {device}\n\
         \x20 ip netns exec {ran} curl --interface {device} -o /dev/null http://{DN}/download.bin\n\
         \x20 ip netns exec {dn} tcpdump -ni n6\n\
         \x20 adit show sessions --socket {socket}\n",
        dn = topology.dn.name(),
    ));
    steps.live.phase("up until Ctrl-C");
    while stop.sleep(std::time::Duration::from_secs(1)).is_ok() {}
}
