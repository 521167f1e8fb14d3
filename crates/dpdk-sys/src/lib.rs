//! Bindings to the installed DPDK, generated at build time; nothing else.
//!
//! Names and types are DPDK's own. Inline functions of the headers are compiled into wrappers, with
//! the same instruction set as the Rust code (see `build.rs`). Only `adit-dpdk` uses this crate: it
//! obeys DPDK's threading rules and provides safe types.
#![allow(missing_docs, reason = "DPDK documents its own interface")]
#![allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    missing_debug_implementations,
    unsafe_op_in_unsafe_fn,
    unused_imports,
    reason = "generated from C"
)]
#![allow(clippy::all, clippy::pedantic, clippy::restriction, reason = "generated from C")]
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    reason = "generated from C"
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
