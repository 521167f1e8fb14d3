//! Relays the dashboard of the demo's adit, which listens inside a namespace, to the host.

use std::fs;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Scope;
use std::time::Duration;

use adit_lab_process::netns::NetNamespace;
use adit_lab_process::scratch::Scratch;
use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Address that adit listens at inside its namespace.
const ADIT_LISTEN_ADDR: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// Maximum number of relayed connections.
const CONNECTIONS_MAX: usize = 64;

/// The HTTP interface of the demo's adit: the token, and the folder that contains it.
#[derive(Debug)]
pub(crate) struct DemoDashboard {
    scratch: Scratch,
    token: String,
}

impl DemoDashboard {
    /// Creates a token that permits changes.
    ///
    /// # Errors
    /// The temporary folder cannot be written.
    pub(crate) fn create() -> Result<Self> {
        let scratch = Scratch::create("dashboard")?;
        let token = format!("{:032x}", StdRng::from_os_rng().random::<u128>());
        let path = scratch.path().join("api.tokens");
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path)?;
        writeln!(file, "act demo {token}").with_context(|| format!("write {}", path.display()))?;
        Ok(Self { scratch, token })
    }

    /// Returns the section for adit's configuration.
    pub(crate) fn section(&self) -> String {
        let tokens = self.scratch.path().join("api.tokens");
        format!(
            "\n[api]\nlisten = \"{ADIT_LISTEN_ADDR}\"\ntokens_file = \"{}\"\n",
            tokens.display()
        )
    }

    /// Relays connections from the host into the namespace until `is_over`. Returns the address for
    /// a browser. The token follows a `#`, because browsers do not send that part.
    ///
    /// # Errors
    /// No port is free.
    pub(crate) fn relay<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        namespace: &'scope NetNamespace,
        is_over: impl Fn() -> bool + Send + 'scope,
    ) -> Result<String> {
        let wanted = TcpListener::bind((Ipv4Addr::LOCALHOST, ADIT_LISTEN_ADDR.port()));
        let listener = wanted.or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let open = Arc::new(AtomicUsize::new(0));
        scope.spawn(move || {
            while !is_over() {
                match listener.accept() {
                    Ok((client, _)) if open.load(Ordering::Relaxed) < CONNECTIONS_MAX => {
                        // On failure the client's connection is closed.
                        let _ = connect(namespace, client, &open);
                    }
                    Ok(_) => {}
                    Err(_) => std::thread::sleep(Duration::from_millis(20)),
                }
            }
        });
        Ok(format!("http://{address}/#token={}", self.token))
    }
}

/// Relays one connection, with a thread for each direction; both end with the connection.
fn connect(namespace: &NetNamespace, client: TcpStream, open: &Arc<AtomicUsize>) -> Result<()> {
    client.set_nonblocking(false)?;
    let server = namespace.visit(|| Ok(TcpStream::connect(ADIT_LISTEN_ADDR)?))?;
    let ways = [(client.try_clone()?, server.try_clone()?), (server, client)];
    for (mut from, mut to) in ways {
        let open = Arc::clone(open);
        open.fetch_add(1, Ordering::Relaxed);
        std::thread::spawn(move || {
            // When one side closes, the other side is closed too.
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
    Ok(())
}
