//! Lists the instruction set extensions that this build uses, and compiles the check for them.
//!
//! The check is C for the oldest x86-64: Rust code may use the extensions that it would have to
//! check for.

use std::env;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::exit;

/// One extension: Rust's name, the name shown, the word of `baseline.c` with its bits, its bits
/// there.
///
/// Source: Intel SDM vol. 2A, CPUID; vol. 1 §13.3 (XCR0). AMD APM vol. 3, appendix E.
const EXTENSIONS: [(&str, &str, u32, u32); 23] = [
    ("sse3", "SSE3", 0, 1 << 0),
    ("ssse3", "SSSE3", 0, 1 << 9),
    ("fma", "FMA", 0, 1 << 12),
    ("cmpxchg16b", "CMPXCHG16B", 0, 1 << 13),
    ("sse4.1", "SSE4.1", 0, 1 << 19),
    ("sse4.2", "SSE4.2", 0, 1 << 20),
    ("movbe", "MOVBE", 0, 1 << 22),
    ("popcnt", "POPCNT", 0, 1 << 23),
    ("avx", "AVX", 0, 1 << 28),
    ("f16c", "F16C", 0, 1 << 29),
    ("bmi1", "BMI1", 1, 1 << 3),
    ("avx2", "AVX2", 1, 1 << 5),
    ("bmi2", "BMI2", 1, 1 << 8),
    ("avx512f", "AVX512F", 1, 1 << 16),
    ("avx512dq", "AVX512DQ", 1, 1 << 17),
    ("avx512cd", "AVX512CD", 1, 1 << 28),
    ("avx512bw", "AVX512BW", 1, 1 << 30),
    ("avx512vl", "AVX512VL", 1, 1 << 31),
    ("lahfsahf", "LAHF", 2, 1 << 0),
    ("lzcnt", "LZCNT", 2, 1 << 5),
    ("avx", "AVX registers kept by the operating system", 3, 0b110),
    ("avx512f", "AVX-512 registers kept by the operating system", 3, 0b1110_0110),
    ("gfni", "GFNI", 4, 1 << 8),
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/baseline.c");
    let target = |name: &str| env::var(name).unwrap_or_default();
    if target("CARGO_CFG_TARGET_ARCH") != "x86_64" {
        return;
    }
    let features = target("CARGO_CFG_TARGET_FEATURE");
    let used = |name: &str| features.split(',').any(|feature| feature == name);
    let level = if used("avx512vl") {
        "x86-64-v4"
    } else if used("avx2") {
        "x86-64-v3"
    } else {
        "x86-64-v2"
    };
    let mut header = format!("#define ADIT_BASELINE_LEVEL \"{level}\"\n#define ADIT_EXTENSIONS");
    for (_, shown, word, bits) in EXTENSIONS.iter().filter(|(name, ..)| used(name)) {
        // Writing to a String cannot fail.
        let _ = write!(header, " {{ \"{shown}\", {word}, {bits}u }},");
    }
    header.push('\n');
    let out = PathBuf::from(target("OUT_DIR"));
    if let Err(error) = std::fs::write(out.join("extensions.h"), header) {
        eprintln!("adit-baseline: extensions.h could not be written: {error}");
        exit(1)
    }
    cc::Build::new()
        .file("src/baseline.c")
        .include(&out)
        .flag("-march=x86-64")
        .link_lib_modifier("+whole-archive")
        .compile("adit_baseline");
}
