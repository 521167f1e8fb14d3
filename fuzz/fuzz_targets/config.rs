//! The configuration reader: any text is accepted or refused with problems that have a place.
#![no_main]
#![allow(
    dead_code,
    missing_docs,
    unused_imports,
    reason = "a part of the daemon, compiled on its own"
)]

mod cli {
    pub const ADMIN_SOCKET_DEFAULT: &str = "/run/adit/admin.sock";
}

mod log {
    pub mod audit {
        pub const TARGET: &str = "audit";
    }
    pub(crate) use super::log_filter;
}

#[path = "../../crates/adit/src/config/mod.rs"]
mod config;

#[path = "../../crates/adit/src/ip_net.rs"]
mod ip_net;

#[path = "../../crates/adit/src/log/log_filter.rs"]
mod log_filter;

#[path = "../../crates/adit/src/this_machine.rs"]
mod this_machine;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = core::str::from_utf8(data) else { return };
    if let Err(problems) =
        config::Config::parse_for(text, &|| this_machine::this_machine().cloned())
    {
        assert!(!problems.is_empty());
        for problem in problems {
            assert!(!problem.to_string().is_empty());
        }
    }
});
