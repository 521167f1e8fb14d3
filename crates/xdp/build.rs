//! Compiles the program for the kernel.

mod clang;

fn main() {
    println!("cargo:rerun-if-changed=clang.rs");
    clang::compile("src/bpf/forward.bpf.c", "forward.bpf.o");
}
