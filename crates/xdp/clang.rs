//! Compiles a program for the kernel with clang. For build scripts.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// Compiles `source` into the file `object` of the build's folder, or ends the build.
pub(crate) fn compile(source: &str, object: &str) {
    println!("cargo:rerun-if-changed={source}");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_else(|| fail("OUT_DIR is not set")));
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    // Atomic operations that return the previous value came with the third version of the
    // instruction set.
    let mut command = Command::new(clang);
    command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]);
    command.args(["-Wno-sign-compare", "-c", source, "-o"]).arg(out.join(object));
    // The object has the names of its sources: the same in every folder, as packages have to be.
    let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    command.arg(format!("-ffile-prefix-map={folder}=."));
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch != "x86_64") {
        command.arg("-DLOADS_PASS_LOADS");
    }
    // Debian keeps <asm/types.h> of the host's architecture in a folder of its own.
    let host = env::var("HOST").unwrap_or_default();
    let arch = host.split('-').next().unwrap_or_default();
    let include = format!("/usr/include/{arch}-linux-gnu");
    if Path::new(&include).exists() {
        command.arg("-I").arg(include);
    }
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("clang cannot compile {source} for the kernel ({status})")),
        Err(error) => fail(&format!(
            "clang compiles programs for the kernel, and cannot be started ({error}); \
             scripts/install.sh installs it"
        )),
    }
}

fn fail(text: &str) -> ! {
    eprintln!("{text}");
    exit(1)
}
