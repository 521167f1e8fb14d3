//! The listening socket and the thread's loop.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;

use crate::config::{ApiServerConfig, ApiStartError};
use crate::connection;
use crate::credentials::{ApiAccess, ApiCredentials};
use crate::gate::ApiGate;

/// An interface that listens and does not serve yet.
#[derive(Debug)]
pub struct ApiServer {
    listener: TcpListener,
    access: ApiAccess,
    open_paths: &'static [&'static str],
}

impl ApiServer {
    /// Listens, and reads certificate, key and tokens.
    ///
    /// # Errors
    /// See [`ApiStartError`].
    pub fn bind(config: &ApiServerConfig) -> Result<Self, ApiStartError> {
        let access = ApiAccess::new(ApiCredentials::load(config)?);
        let refused = |error| ApiStartError::Listen { listen: config.listen, error };
        let listener = TcpListener::bind(config.listen).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        Ok(Self { listener, access, open_paths: config.open_paths })
    }

    /// The access settings, to change them while it serves.
    #[must_use]
    pub fn access(&self) -> ApiAccess {
        self.access.clone()
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves on this thread until the process ends. `start` gets the router's chance to spawn tasks of its own, in the
    /// same runtime.
    ///
    /// # Errors
    /// The runtime cannot start.
    pub fn serve(self, start: impl FnOnce() -> Router) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            let gate = ApiGate::new(start(), self.access.clone(), self.open_paths);
            connection::serve(listener, self.access, Arc::new(gate)).await;
            Ok(())
        })
    }
}
