//! Compiles the C floor for the instruction set that Rust code uses.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/c_floor.c");
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let has = |name: &str| features.split(',').any(|feature| feature == name);
    let mut build = cc::Build::new();
    build.file("src/c_floor.c").opt_level(3);
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        let level = match (has("avx512vl"), has("avx2")) {
            (true, _) => "x86-64-v4",
            (_, true) => "x86-64-v3",
            _ => "x86-64-v2",
        };
        build.flag(format!("-march={level}"));
    }
    build.compile("adit_c_floor");
}
