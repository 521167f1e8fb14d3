//! `adit init`: writes a configuration for this host and for a 5G core, and the part of the SMF's
//! configuration that concerns adit.

mod cores;
mod file;
mod interruption;
mod plan;
mod ports;
mod questions;
#[cfg(test)]
mod tests;
mod write;

use std::io::IsTerminal;
use std::net::IpAddr;
use std::path::PathBuf;

use adit_kernel::NetworkDevice;
use anyhow::{anyhow, bail};
use clap::ValueEnum as _;
use serde_json::json;

use crate::cli::{CONFIG_DEFAULT, CoreKind, EndpointText, InitArguments, PoolText, PortChoice};
use crate::config::{Config, IpNet};
use crate::host_checks::{CheckedHost, HostFinding, findings};
use crate::this_machine::this_machine;
use cores::CoreFile;
pub(crate) use interruption::InterruptedInit;
use interruption::Interruption;
use plan::InitPlan;
use ports::{ChosenPort, PortChooser, Side};
use questions::{AnswerSource, Question, Questions};

/// Asks the questions of `adit init`, and writes the files.
///
/// # Errors
/// An answer is wrong or missing, a signal arrives ([`InterruptedInit`]), or a file cannot be
/// written; no file is then changed.
pub(crate) fn run(arguments: &InitArguments) -> anyhow::Result<()> {
    if !arguments.dry_run {
        write::check_absent(&arguments.output, arguments.force)?;
        write::check_writable(&arguments.output)?;
    }
    let interruption = Interruption::new()?;
    let host = CheckedHost::read()?;
    // Questions go to standard error: standard output has the report, and may be redirected.
    let (stdin, mut stderr) = (std::io::stdin(), std::io::stderr());
    let mut input = stdin.lock();
    let wait = || interruption.wait_for(&stdin);
    let answers = match arguments.yes {
        true => AnswerSource::Proposed,
        false if arguments.json || !stdin.is_terminal() => AnswerSource::Missing,
        false => AnswerSource::Terminal { input: &mut input, output: &mut stderr, wait: &wait },
    };
    let plan = plan(arguments, &host, answers)?;
    let text = file::text(&plan);
    let config = Config::parse_for(&text, &|| this_machine().cloned()).map_err(|problems| {
        let first = problems.first().map(|problem| format!("{} {}", problem.path, problem.what));
        anyhow!("adit does not run with these answers: {}", first.unwrap_or_default())
    })?;
    let files = cores::files(&plan);
    let places: Vec<PathBuf> =
        files.iter().map(|file| arguments.output.with_file_name(file.name)).collect();
    if !arguments.dry_run {
        for place in &places {
            write::check_absent(place, arguments.force)?;
        }
        let texts = places.iter().cloned().zip(files.iter().map(|file| file.text.clone()));
        let texts: Vec<_> = texts.chain([(arguments.output.clone(), text.clone())]).collect();
        write::write(&texts, &interruption)?;
    }
    let report =
        InitReport { arguments, plan: &plan, text, files, findings: findings(&config, &host) };
    report.print()
}

/// Makes the plan from the options; asks the user for values without an option.
fn plan(
    arguments: &InitArguments,
    host: &CheckedHost,
    answers: AnswerSource<'_>,
) -> anyhow::Result<InitPlan> {
    let chooser = PortChooser { host, io: arguments.io };
    let mut questions = Questions::new(answers);
    let core = core(arguments, &mut questions)?;
    let n4 = match &arguments.n4 {
        Some(text) => Some(chooser.n4(text).map_err(|what| anyhow!(what))?),
        None => {
            let text = "N4: an address of this host";
            let proposed = proposed_address(host, 0);
            questions.ask(&Question { option: "--n4", text, proposed }, |text| {
                chooser.n4(&text.parse()?)
            })?
        }
    };
    let smf = match arguments.smf {
        None if core.is_some_and(|core| core != CoreKind::Other) => {
            let text = "N4 address of the SMF";
            questions.ask(&Question { option: "--smf", text, proposed: None }, |text| {
                text.parse().map_err(|_| format!("\"{text}\" is no address such as 10.0.4.1"))
            })?
        }
        given => given,
    };
    let n3 = port(Side::N3, arguments.n3.as_ref(), chooser, &mut questions)?;
    let n6 = port(Side::N6, arguments.n6.as_ref(), chooser, &mut questions)?;
    let n6_gateways = gateways(arguments, n6.as_ref(), &mut questions)?;
    let pools = match &arguments.ue_pools[..] {
        [] => {
            let text = "UE addresses, with their DNN";
            let proposed = Some(proposed_pool(core).to_owned());
            questions.ask(&Question { option: "--ue-pool", text, proposed }, |text| {
                text.split(',').map(|pool| pool.trim().parse()).collect()
            })?
        }
        given => Some(given.to_vec()),
    };
    questions.finish()?;
    let (Some(core), Some(n4), Some(n3), Some(n6), Some(pools)) = (core, n4, n3, n6, pools) else {
        bail!("an answer is missing");
    };
    let (n3_gateway, cpus) = (arguments.n3_gateway, host.cpus.clone());
    let plan = InitPlan { core, n4, smf, n3, n6, n3_gateway, n6_gateways, pools, cpus };
    match plan.fault() {
        Some(fault) => bail!(fault),
        None => Ok(plan),
    }
}

fn core(
    arguments: &InitArguments,
    questions: &mut Questions<'_>,
) -> anyhow::Result<Option<CoreKind>> {
    if arguments.core.is_some() {
        return Ok(arguments.core);
    }
    let text = "Core (open5gs, free5gc, sd-core, oai, other)";
    let proposed = Some("other".to_owned());
    let read = |text: &str| {
        CoreKind::from_str(text, true).map_err(|_| format!("\"{text}\" is none of these cores"))
    };
    questions.ask(&Question { option: "--core", text, proposed }, read)
}

fn port(
    side: Side,
    given: Option<&EndpointText>,
    chooser: PortChooser<'_>,
    questions: &mut Questions<'_>,
) -> anyhow::Result<Option<ChosenPort>> {
    if let Some(text) = given {
        return chooser.port(side, text).map(Some).map_err(|what| anyhow!(what));
    }
    let text = match side {
        Side::N3 => "N3: an address of this host, or DEVICE=ADDRESS/LENGTH",
        Side::N6 => "N6: an address of this host, or DEVICE=ADDRESS/LENGTH",
    };
    let proposed = proposed_address(chooser.host, if side == Side::N3 { 1 } else { 2 });
    let read = |text: &str| chooser.port(side, &text.parse()?);
    questions.ask(&Question { option: side.option(), text, proposed }, read)
}

/// Returns the routers on N6; none if N6 is a port of the kernel, which routes itself.
fn gateways(
    arguments: &InitArguments,
    n6: Option<&ChosenPort>,
    questions: &mut Questions<'_>,
) -> anyhow::Result<Vec<IpAddr>> {
    let Some(n6) = n6.filter(|n6| n6.kind != PortChoice::Kernel) else { return Ok(Vec::new()) };
    if !arguments.n6_gateway.is_empty() {
        return Ok(arguments.n6_gateway.clone());
    }
    let proposed: Vec<_> =
        n6.links.iter().map(|link| proposed_gateway(*link).to_string()).collect();
    let question = Question {
        option: "--n6-gateway",
        text: "Router on N6",
        proposed: Some(proposed.join(",")),
    };
    let read = |text: &str| {
        let parse = |part: &str| part.trim().parse();
        text.split(',')
            .map(parse)
            .collect::<Result<Vec<IpAddr>, _>>()
            .map_err(|_| format!("\"{text}\" is no address such as 10.0.6.1"))
    };
    Ok(questions.ask(&question, read)?.unwrap_or_default())
}

/// Proposes the first address of a link, or the second one if adit has the first.
fn proposed_gateway(link: IpNet) -> IpAddr {
    if link.nth(1) == link.addr { link.nth(2) } else { link.nth(1) }
}

/// Proposes addresses of this host for an interface, one of each family: those of the `number`th
/// device that has addresses, or of the last such device.
fn proposed_address(host: &CheckedHost, number: usize) -> Option<String> {
    let is_usable = |device: &&NetworkDevice| !device.is_loopback && !device.addresses.is_empty();
    let devices: Vec<_> = host.network.devices.iter().filter(is_usable).collect();
    let device = devices.get(number).or(devices.last())?;
    let first = |is_v4| device.addresses.iter().find(move |of| of.addr.is_ipv4() == is_v4);
    let addresses: Vec<_> = [true, false].into_iter().filter_map(first).collect();
    Some(addresses.iter().map(|of| of.addr.to_string()).collect::<Vec<_>>().join(","))
}

/// Returns the UE pool that `docs/interop.md` has for a core.
const fn proposed_pool(core: Option<CoreKind>) -> &'static str {
    match core {
        Some(CoreKind::Free5gc) => "internet=10.60.0.0/16",
        Some(CoreKind::SdCore) => "internet=172.250.0.0/16",
        Some(CoreKind::Oai) => "internet=10.46.0.0/16",
        Some(CoreKind::Open5gs | CoreKind::Other) | None => "internet=10.45.0.0/16",
    }
}

/// The choices and files of `adit init`, for printing.
struct InitReport<'a> {
    arguments: &'a InitArguments,
    plan: &'a InitPlan,
    text: String,
    files: Vec<CoreFile>,
    findings: Vec<HostFinding>,
}

impl InitReport<'_> {
    fn print(&self) -> anyhow::Result<()> {
        let Self { arguments, plan, text, files, findings } = self;
        let InitPlan { n3, n6, pools, .. } = plan;
        let output = &arguments.output;
        if arguments.json {
            let place = |file: &CoreFile| {
                let path = output.with_file_name(file.name);
                json!({ "path": path, "place": file.place, "text": file.text })
            };
            let document = json!({
                "written": !arguments.dry_run, "path": output, "text": text,
                "core_files": files.iter().map(place).collect::<Vec<_>>(),
                "n4": plan.n4.to_string(), "smf": plan.smf, "n3": n3, "n6": n6, "ue_pools": pools,
                "n3_gateway": plan.n3_gateway, "n6_gateways": plan.n6_gateways, "host": findings,
            });
            println!("{}", serde_json::to_string_pretty(&document)?);
            return Ok(());
        }
        for (name, port) in [("N3", n3), ("N6", n6)] {
            println!("{name}: {} ({}): {}", port.device, port.kind.name(), port.why);
        }
        let verb = if arguments.dry_run { "would write" } else { "wrote" };
        println!("{verb} {}", output.display());
        if arguments.dry_run {
            println!("{text}");
        }
        for file in files {
            println!("{verb} {}: {}", output.with_file_name(file.name).display(), file.place);
            if arguments.dry_run {
                println!("{}", file.text);
            }
        }
        println!("on this host");
        for finding in findings {
            println!("  {finding}");
        }
        println!("next");
        for line in self.next_commands() {
            println!("  {line}");
        }
        Ok(())
    }

    /// Returns the commands that the operator runs next.
    fn next_commands(&self) -> Vec<String> {
        let InitPlan { n3, n6, pools, .. } = self.plan;
        let mut lines = Vec::new();
        for PoolText { prefix, .. } in pools {
            let of_family = |link: &&IpNet| link.addr.is_ipv4() == prefix.addr.is_ipv4();
            if let Some(link) = n6.links.iter().find(of_family) {
                lines.push(format!("on the router of N6: ip route add {prefix} via {}", link.addr));
            }
        }
        let is_used = |kind| n3.kind == kind || n6.kind == kind;
        if is_used(PortChoice::Xdp) || is_used(PortChoice::Dpdk) {
            lines.push("the service needs more rights for these ports: docs/install.md".to_owned());
        }
        match self.arguments.output.to_str() {
            Some(CONFIG_DEFAULT) => {
                lines.push("adit run, or as a service: systemctl enable --now adit".to_owned());
            }
            _ => lines.push(format!("adit run --config {}", self.arguments.output.display())),
        }
        lines
    }
}
