//! On a processor below the baseline both programs print why they stop, and end with a status.
#![cfg(all(target_arch = "x86_64", target_feature = "avx2"))]

use std::process::Command;
use std::time::Duration;

use adit_tests::process::{binary, run, skip};

const EMULATOR: &str = "qemu-x86_64";

/// Runs `program --version` on an emulated processor; `None` without program or emulator.
fn version_on(cpu: &str, program: &str) -> Option<(Option<i32>, String)> {
    let path = binary(program)?;
    if Command::new(EMULATOR).arg("-version").output().is_err() {
        skip(format_args!("{EMULATOR} is not installed (qemu-user)"));
        return None;
    }
    let mut command = Command::new(EMULATOR);
    command.args(["-cpu", cpu]).arg(path).arg("--version");
    let output = run(&mut command, Duration::from_secs(60));
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.code(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn processor_without_avx_is_refused_with_a_sentence() {
    for program in ["adit", "adit-lab"] {
        let Some((status, said)) = version_on("Nehalem", program) else { return };
        assert_eq!(status, Some(2), "{said}");
        let start = format!("{program}: this processor lacks ");
        assert!(said.starts_with(&start), "{said}");
        assert!(said.contains("AVX2") && said.contains("x86-64-v3"), "{said}");
    }
}

#[test]
fn kernel_that_keeps_no_avx_registers_is_refused_with_a_sentence() {
    let Some((status, said)) = version_on("max,-xsave", "adit") else { return };
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("registers kept by the operating system"), "{said}");
}

#[test]
fn processor_with_all_of_the_baseline_runs() {
    let Some((status, said)) = version_on("max", "adit") else { return };
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("adit "), "{said}");
}
