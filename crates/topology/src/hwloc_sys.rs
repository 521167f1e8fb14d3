//! Bindings to the installed hwloc, generated at build time; nothing else.
//!
//! Names and types are hwloc's own. Only [`super::hwloc`] uses them: it owns the topology and
//! provides safe types.
#![allow(missing_docs, reason = "hwloc documents its own interface")]
#![allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    missing_debug_implementations,
    unsafe_op_in_unsafe_fn,
    unused_imports,
    unreachable_pub,
    dead_code,
    unsafe_code,
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
