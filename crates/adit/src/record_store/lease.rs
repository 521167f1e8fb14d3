//! The client of a shared store, and how it takes the lease when adit starts.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use adit_operate::api::FileSecrecy;
use adit_shared_store::{LeaseAnswer, LeaseView, SharedStore, SharedStoreOptions, StoreLogin};
use adit_transport::{KernelTcp, TlsTransport, Transport};
use anyhow::{Context, bail};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tracing::info;

use crate::config::SharedStoreSettings;
use crate::foreign_text::printable;
use crate::record_store::any_store::{SharedStoreClient, refused};
use crate::record_store::named_standby::NamedStandby;
use crate::record_store::store_files::{text_of, tls_settings};

/// Longest time that a call waits for servers; half of the lease if that is shorter.
const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(1);

/// Pause between attempts to take the lease.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A client of the configured servers, without the lease. `admin_socket` distinguishes the adits of
/// a host.
///
/// # Errors
/// A file cannot be read or used; the message names its key.
pub(crate) fn client(
    settings: &SharedStoreSettings,
    admin_socket: &Path,
) -> anyhow::Result<SharedStoreClient> {
    let kernel = KernelTcp::new(settings.wait).context("cannot reach the servers of the store")?;
    let transport: Box<dyn Transport + Send> = match &settings.tls {
        None => Box::new(kernel),
        Some(files) => Box::new(TlsTransport::new(kernel, tls_settings("store", files)?)),
    };
    let login = settings.password_file.as_deref().map(|path| {
        let text = text_of("store.password_file", path, FileSecrecy::Secret)?;
        let password = text.lines().next().unwrap_or_default().to_owned();
        if password.is_empty() {
            bail!("store.password_file {}: its first line is empty", path.display());
        }
        Ok(StoreLogin { username: settings.username.clone(), password })
    });
    let options = SharedStoreOptions {
        servers: settings.servers.clone(),
        name: settings.name.clone(),
        instance: instance(admin_socket),
        process: StdRng::from_os_rng().random(),
        login: login.transpose()?,
        acknowledge_replicas: settings.acknowledge_replicas,
        lease: settings.lease,
        patience: CALL_TIMEOUT_MAX.min(settings.lease / 2),
    };
    Ok(SharedStore::new(transport, options))
}

/// Takes the lease. Waits for the end of a lease that its holder does not prolong: the holder's
/// process has died.
///
/// # Errors
/// Another adit prolongs the lease, or no server can be used.
pub(crate) fn take_lease(
    store: &mut SharedStoreClient,
    settings: &SharedStoreSettings,
    accept_loss: bool,
) -> anyhow::Result<()> {
    let mut named = NamedStandby::new(settings, accept_loss);
    let shown = format!("the shared store of \"{}\"", settings.name);
    let mut former: Option<LeaseView> = None;
    loop {
        let lease = match store.acquire().map_err(|error| refused(error, &shown))? {
            LeaseAnswer::Taken { epoch } => {
                info!(epoch, name = settings.name, "the lease of the records is taken");
                return Ok(());
            }
            LeaseAnswer::Held(lease) => lease,
            LeaseAnswer::Named(standby) => {
                named.wait(store, standby).map_err(|error| refused(error, &shown))?;
                sleep(RETRY_PAUSE);
                continue;
            }
        };
        let is_alive = former.as_ref().is_some_and(|former| {
            former.holder != lease.holder || former.renewals < lease.renewals
        });
        if is_alive {
            bail!(
                "the records of \"{}\" belong to the adit {}, which is running; stop it, or give this one another store.name",
                settings.name,
                printable(&lease.holder)
            );
        }
        if former.is_none() {
            info!(holder = lease.holder, "waiting for the end of the lease of the records");
        }
        former.get_or_insert(lease);
        sleep(RETRY_PAUSE);
    }
}

/// Returns a unique name of this adit, which all its processes have until the host restarts. Clones
/// of a host differ in the identifier of the boot, containers in the device of their folders.
fn instance(admin_socket: &Path) -> String {
    let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let mut hasher = DefaultHasher::new();
    line("/proc/sys/kernel/random/boot_id").hash(&mut hasher);
    admin_socket.file_name().hash(&mut hasher);
    let folder = admin_socket.parent().and_then(|folder| fs::metadata(folder).ok());
    folder.map(|folder| (folder.dev(), folder.ino())).hash(&mut hasher);
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || "-._".contains(*letter);
    let host: String = line("/proc/sys/kernel/hostname").chars().filter(is_plain).collect();
    format!("{host}-{:08x}", hasher.finish() & 0xffff_ffff)
}
