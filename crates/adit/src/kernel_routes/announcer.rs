//! The thread that writes announcements into the kernel's tables.
//!
//! Changes wait as the wanted state of each prefix: later ones take the place of earlier ones, so
//! no more of them wait than there are prefixes.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use adit_kernel::{RouteAnnouncement, RouteAnnouncer, in_namespace};
use adit_types::IpPrefix;
use anyhow::Context;
use tracing::{info, warn};

use crate::threads::packet_path::spawn;

/// The main table.
const TABLE: u32 = 254;

/// Changes that are taken at once.
const BATCH: usize = 4096;

/// Figures of the announcements.
#[derive(Debug, Clone, Default)]
pub(crate) struct AnnouncerFigures {
    /// Prefixes that the kernel has.
    pub announced: u64,
    /// Changes that the kernel has carried out.
    pub changes: u64,
    pub refused: u64,
    /// The last prefix that the kernel refused, and why.
    pub last_refusal: Option<String>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By position of the namespace and prefix, whether it is to be announced.
    wanted: BTreeMap<(usize, IpPrefix), bool>,
    /// The thread carries out changes.
    is_writing: bool,
    is_ended: bool,
    figures: AnnouncerFigures,
}

#[derive(Debug, Default)]
struct SharedQueue {
    waiting: Mutex<Waiting>,
    /// Something waits, or nothing does any more.
    changed: Condvar,
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way to the thread.
#[derive(Debug)]
pub(crate) struct AnnouncerLink {
    shared: Arc<SharedQueue>,
    thread: Option<JoinHandle<()>>,
}

impl AnnouncerLink {
    /// Opens the tables of namespaces, removes what another process has left there, and starts the
    /// thread.
    ///
    /// # Errors
    /// A namespace does not exist; the process has no `CAP_NET_ADMIN`.
    pub(crate) fn start(namespaces: &[Option<String>]) -> anyhow::Result<Self> {
        let open = |netns: &Option<String>| -> anyhow::Result<RouteAnnouncer> {
            let opened = in_namespace(netns.as_deref(), || RouteAnnouncer::open(TABLE))?;
            let mut announcer = opened?;
            let left = announcer.announced().context("cannot read the kernel's routes")?;
            let withdrawn: Vec<_> = left.into_iter().map(RouteAnnouncement::Withdraw).collect();
            let refused =
                announcer.change(&withdrawn).context("cannot write the kernel's routes")?;
            if let Some((_, error)) = refused.into_iter().next() {
                return Err(error).context("cannot remove the announcements of a former process");
            }
            if !withdrawn.is_empty() {
                info!(routes = withdrawn.len(), netns, "removed announcements of a former process");
            }
            Ok(announcer)
        };
        let announcers: Vec<_> = namespaces.iter().map(open).collect::<Result<_, _>>()?;
        let shared = Arc::new(SharedQueue::default());
        let of_thread = Arc::clone(&shared);
        let thread = spawn("adit-announce", move || write_routes(announcers, &of_thread))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Queues changes: the position of the namespace, the prefix, and whether to announce it.
    pub(crate) fn queue(&self, changes: impl Iterator<Item = (usize, IpPrefix, bool)>) {
        let mut waiting = self.shared.lock();
        let wanted = changes.map(|(namespace, prefix, is_on)| ((namespace, prefix), is_on));
        waiting.wanted.extend(wanted);
        self.shared.changed.notify_all();
    }

    /// Waits until the kernel has all changes, for `limit` at most. Returns false if it has not.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let is_pending = |of: &mut Waiting| of.is_writing || !of.wanted.is_empty();
        let waited = self.shared.changed.wait_timeout_while(self.shared.lock(), limit, is_pending);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Returns the figures.
    pub(crate) fn figures(&self) -> AnnouncerFigures {
        self.shared.lock().figures.clone()
    }
}

impl Drop for AnnouncerLink {
    fn drop(&mut self) {
        self.shared.lock().is_ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread: writes what waits, until its end.
fn write_routes(mut announcers: Vec<RouteAnnouncer>, shared: &SharedQueue) {
    let mut waiting = shared.lock();
    loop {
        let is_idle = |of: &mut Waiting| of.wanted.is_empty() && !of.is_ended;
        let woken = shared.changed.wait_while(waiting, is_idle);
        waiting = woken.unwrap_or_else(PoisonError::into_inner);
        if waiting.wanted.is_empty() {
            return;
        }
        waiting.is_writing = true;
        let next = core::iter::from_fn(|| waiting.wanted.pop_first());
        let taken: BTreeMap<_, _> = next.take(BATCH).collect();
        drop(waiting);
        let written = write(&mut announcers, &taken);
        waiting = shared.lock();
        let AnnouncerFigures { announced, changes, refused, last_refusal } = written;
        let figures = &mut waiting.figures;
        let withdrawn = changes - announced;
        figures.announced = (figures.announced + announced).saturating_sub(withdrawn);
        figures.changes += changes;
        figures.refused += refused;
        figures.last_refusal = last_refusal.or(figures.last_refusal.take());
        waiting.is_writing = false;
        shared.changed.notify_all();
    }
}

/// Carries out changes. Returns their figures: `announced` of `changes` are announcements.
fn write(
    announcers: &mut [RouteAnnouncer],
    taken: &BTreeMap<(usize, IpPrefix), bool>,
) -> AnnouncerFigures {
    let mut figures = AnnouncerFigures::default();
    for (at, announcer) in announcers.iter_mut().enumerate() {
        let of_namespace = taken.iter().filter(|((namespace, _), _)| *namespace == at);
        let change = |((_, prefix), is_on): (&(usize, IpPrefix), &bool)| match is_on {
            true => RouteAnnouncement::Announce(*prefix),
            false => RouteAnnouncement::Withdraw(*prefix),
        };
        let changes: Vec<_> = of_namespace.map(change).collect();
        let is_on = |change: &RouteAnnouncement| matches!(change, RouteAnnouncement::Announce(_));
        let announced = changes.iter().filter(|change| is_on(change)).count() as u64;
        match announcer.change(&changes) {
            Ok(refused) => {
                let of_announced =
                    refused.iter().filter(|(change, _)| is_on(change)).count() as u64;
                figures.announced += announced - of_announced;
                figures.changes += changes.len() as u64 - refused.len() as u64;
                figures.refused += refused.len() as u64;
                if let Some((change, error)) = refused.last() {
                    let text = format!("{}: {error}", change.prefix());
                    warn!(
                        refused = refused.len(),
                        "the kernel refuses announcements, such as {text}"
                    );
                    figures.last_refusal = Some(text);
                }
            }
            Err(error) => {
                warn!(%error, "cannot write announcements into the kernel");
                figures.refused += changes.len() as u64;
                figures.last_refusal = Some(error.to_string());
            }
        }
    }
    figures
}
