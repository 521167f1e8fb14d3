//! The HTTP interface: the documents of `adit show`, the acts of an operator, traces and captures,
//! health, the live stream and the dashboard.
//!
//! It listens at the admin socket, and at a TCP address if `[api]` says so: the same routes, each
//! with a thread and limits of its own, so that clients over the network keep no operator of this
//! host waiting. `operate::api` has the machinery; here are the routes. The threads share the core
//! of the control thread and yield to it.

mod acts;
mod answer;
mod cursor;
mod dashboard;
mod description;
mod health;
mod live;
mod metrics;
mod reads;
mod schemas;
mod session;
mod state;
mod tap_body;
mod taps;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use adit_operate::api::{ApiCredentials, ApiServer, ApiServerConfig, ApiStartError, ApiTlsPaths};
use adit_types::limits::API_TAPS_MAX;
use axum::Router;
use axum::extract::Query;
use axum::routing::get;
use tokio::sync::Semaphore;
use tracing::{error, info, warn};

use crate::admin::{AdminQuery, NICENESS};
use crate::config::{ApiSettings, ApiTlsFiles, KeyRefusal};
use crate::threads::packet_path::spawn;
use state::ApiState;

/// Paths that need no token: pages without data of their own, and probes.
const PATHS_WITHOUT_TOKEN: &[&str] = &[
    "/",
    "/api",
    "/api.js",
    "/dashboard.css",
    "/dashboard.js",
    "/elements.js",
    "/charts.js",
    "/trace.js",
    "/words.js",
    "/icon.svg",
    "/healthz",
    "/readyz",
    "/openapi.json",
];

/// Listens at the configured address.
///
/// # Errors
/// The address is in use, or a file of TLS or of tokens cannot be used.
pub(crate) fn bind(settings: &ApiSettings) -> anyhow::Result<ApiServer> {
    Ok(ApiServer::bind(&server_config(settings))?)
}

/// Reads the files of TLS and of tokens.
///
/// # Errors
/// A file cannot be used; the refusal has the key that names it.
pub(crate) fn credentials(settings: &ApiSettings) -> Result<ApiCredentials, KeyRefusal> {
    ApiCredentials::load(&server_config(settings)).map_err(|error| match error {
        ApiStartError::Tls { key, path, what } => refusal(&format!("api.{key}"), &path, &what),
        ApiStartError::Tokens { path, what } => refusal("api.tokens_file", &path, &what),
        ApiStartError::Listen { .. } => {
            KeyRefusal { key: "api.listen".to_owned(), why: error.to_string() }
        }
    })
}

fn refusal(key: &str, path: &Path, what: &str) -> KeyRefusal {
    KeyRefusal { key: key.to_owned(), why: format!("{}: {what}", path.display()) }
}

fn server_config(settings: &ApiSettings) -> ApiServerConfig {
    let tls = settings.tls.clone();
    ApiServerConfig {
        listen: settings.listen,
        tls: tls.map(|ApiTlsFiles { certificate, key }| ApiTlsPaths { certificate, key }),
        tokens_file: settings.tokens_file.clone(),
        open_paths: PATHS_WITHOUT_TOKEN,
    }
}

/// Starts a thread that serves the interface. It ends with the process and has nothing to release.
/// `queries` lead to the control thread.
///
/// # Errors
/// The thread cannot start.
pub(crate) fn serve(
    server: ApiServer,
    queries: Sender<AdminQuery>,
) -> anyhow::Result<JoinHandle<()>> {
    let (name, taps_max) = match server.address() {
        Some(address) => {
            info!(%address, "HTTP interface and dashboard");
            ("adit-api", API_TAPS_MAX)
        }
        // The control thread limits them.
        None => ("adit-admin", Semaphore::MAX_PERMITS),
    };
    spawn(name, move || {
        // If this fails, the thread runs at normal priority.
        if let Err(error) = rustix::process::nice(NICENESS) {
            warn!(%error, "the thread of the HTTP interface keeps its priority");
        }
        if let Err(error) = server.serve(|| start(queries, taps_max)) {
            error!(%error, "the HTTP interface ends");
        }
    })
}

/// Returns the routes, and starts the task of the live stream.
fn start(queries: Sender<AdminQuery>, taps_max: usize) -> Router {
    let state = ApiState::new(queries, taps_max);
    live::start(&state);
    router(state)
}

fn router(state: ApiState) -> Router {
    let (documented, description) = description::router().split_for_parts();
    let description: Arc<str> = description::text(&description).into();
    documented
        .route(
            "/openapi.json",
            get(move |_: Query<reads::NoParameters>| async move { description::document(&description) }),
        )
        .route("/metrics", get(metrics::metrics))
        .merge(dashboard::router())
        .with_state(state)
}

#[cfg(test)]
mod tests;
