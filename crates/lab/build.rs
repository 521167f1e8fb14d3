//! Compiles the programs of `adit-lab ports` for the kernel.

#[path = "../xdp/clang.rs"]
mod clang;

fn main() {
    println!("cargo:rerun-if-changed=../xdp/clang.rs");
    clang::compile("src/ports/bpf/traffic.bpf.c", "traffic.bpf.o");
}
