//! Compiles the program for the kernel with clang.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

const SOURCE: &str = "src/bpf/forward.bpf.c";

fn main() {
    println!("cargo:rerun-if-changed={SOURCE}");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_else(|| fail("OUT_DIR is not set")));
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    // Atomic operations that return the former value came with the third version of the instruction set.
    let mut command = Command::new(clang);
    command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]);
    command.args(["-Wno-sign-compare", "-c", SOURCE, "-o"]).arg(out.join("forward.bpf.o"));
    // Debian keeps <asm/types.h> of the host's architecture in a folder of its own.
    let host = env::var("HOST").unwrap_or_default();
    let arch = host.split('-').next().unwrap_or_default();
    let include = format!("/usr/include/{arch}-linux-gnu");
    if Path::new(&include).exists() {
        command.arg("-I").arg(include);
    }
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("clang cannot compile {SOURCE} for the kernel ({status})")),
        Err(error) => fail(&format!(
            "clang compiles the XDP program of Adit, and cannot be started ({error}); \
             scripts/install.sh installs it"
        )),
    }
}

fn fail(text: &str) -> ! {
    eprintln!("{text}");
    exit(1)
}
