//! The listening socket and the thread's loop.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use axum::Router;

use crate::api::config::{ApiServerConfig, ApiStartError};
use crate::api::connection;
use crate::api::credentials::{ApiAccess, ApiCredentials};
use crate::api::gate::ApiGate;

/// An interface that listens and does not serve yet.
#[derive(Debug)]
pub struct ApiServer {
    socket: ListeningSocket,
    open_paths: &'static [&'static str],
}

#[derive(Debug)]
enum ListeningSocket {
    Tcp(TcpListener, ApiAccess),
    Unix(UnixListener),
}

impl ApiServer {
    /// Listens at an address, and reads certificate, key and tokens.
    ///
    /// # Errors
    /// See [`ApiStartError`].
    pub fn bind(config: &ApiServerConfig) -> Result<Self, ApiStartError> {
        let access = ApiAccess::new(ApiCredentials::load(config)?);
        let refused = |error| ApiStartError::Listen { listen: config.listen, error };
        let listener = TcpListener::bind(config.listen).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let socket = ListeningSocket::Tcp(listener, access);
        Ok(Self { socket, open_paths: config.open_paths })
    }

    /// An interface at a Unix socket. All who may open the socket's file may act, without a token.
    ///
    /// # Errors
    /// The socket cannot be used.
    pub fn of_unix_socket(listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { socket: ListeningSocket::Unix(listener), open_paths: &[] })
    }

    /// The credentials, to replace them while the interface serves; `None` at a Unix socket.
    #[must_use]
    pub fn access(&self) -> Option<ApiAccess> {
        match &self.socket {
            ListeningSocket::Tcp(_, access) => Some(access.clone()),
            ListeningSocket::Unix(_) => None,
        }
    }

    /// The TCP address; `None` at a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            ListeningSocket::Tcp(listener, _) => listener.local_addr().ok(),
            ListeningSocket::Unix(_) => None,
        }
    }

    /// Serves on this thread until the process ends. `start` returns the router, and may spawn
    /// tasks in the same runtime.
    ///
    /// # Errors
    /// The runtime cannot start.
    pub fn serve(self, start: impl FnOnce() -> Router) -> io::Result<()> {
        let access = self.access();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let gate = Arc::new(ApiGate::new(start(), access, self.open_paths));
            match self.socket {
                ListeningSocket::Tcp(listener, _) => {
                    connection::serve(tokio::net::TcpListener::from_std(listener)?, gate).await;
                }
                ListeningSocket::Unix(listener) => {
                    connection::serve(tokio::net::UnixListener::from_std(listener)?, gate).await;
                }
            }
            Ok(())
        })
    }
}
