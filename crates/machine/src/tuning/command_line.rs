//! Proposes kernel parameters, which need a restart; never writes them.

use crate::tuning::{HostFiles, TuningError, TuningProfile, TuningRequest};

/// A parameter for the kernel's command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelParameter {
    /// The parameter as it is written on the command line.
    pub text: String,
    /// The effect of the parameter.
    pub why: &'static str,
    /// True if the running kernel has the parameter.
    pub is_present: bool,
}

/// Returns the parameters that fit `request`; empty for profiles without CPUs for real-time
/// threads.
///
/// # Errors
/// The request does not fit the machine.
pub fn kernel_parameters(
    files: &dyn HostFiles,
    request: &TuningRequest,
) -> Result<Vec<KernelParameter>, TuningError> {
    let online = request.checked_online(files)?;
    let mut wanted = Vec::new();
    if request.profile.has_cores() {
        let cores = &request.cores;
        let others = request.others(files, &online);
        wanted.extend([
            (
                format!("isolcpus=managed_irq,domain,{cores}"),
                "the scheduler and managed interrupts leave these CPUs alone",
            ),
            (format!("nohz_full={cores}"), "no periodic tick while one thread runs there"),
            (format!("rcu_nocbs={cores}"), "deferred work of the kernel runs elsewhere"),
            (format!("irqaffinity={others}"), "interrupts start on the other CPUs"),
        ]);
    }
    if request.profile == TuningProfile::Rt {
        wanted.push(("nosmt".to_owned(), "cores have one CPU from the start"));
    }
    let command_line = files.read("proc/cmdline").unwrap_or_default();
    let is_present = |text: &str| command_line.split_whitespace().any(|word| word == text);
    let parameter = |(text, why): (String, &'static str)| KernelParameter {
        is_present: is_present(&text),
        text,
        why,
    };
    Ok(wanted.into_iter().map(parameter).collect())
}
