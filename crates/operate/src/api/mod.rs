//! The machinery of an HTTP interface: it accepts connections, within limits, with or without TLS;
//! identifies clients and their rights; and turns every failure into a problem document (RFC 9457).
//!
//! It is independent of the documents: an axum router answers the requests that pass the gate. One
//! thread with a runtime of its own carries all connections of a socket.
//!
//! A Unix socket has the same router and the same limits, and no tokens: the mode of its file says
//! who may act.

mod access;
mod config;
mod connection;
mod credentials;
mod files;
mod gate;
mod guarded_stream;
mod listener;
mod places;
mod problem;
mod request_budget;
mod server;
mod tls;

pub use access::{ApiPrincipal, ApiRole};
pub use config::{ApiServerConfig, ApiStartError, ApiTlsPaths};
pub use credentials::{ApiAccess, ApiCredentials};
pub use files::{FileError, FileSecrecy, read_file, read_text_file};
pub use problem::{ProblemDocument, problem_response, problem_with};
pub use server::ApiServer;
