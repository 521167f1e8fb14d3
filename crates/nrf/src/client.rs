//! The thread of a registration, and the mailbox between it and its owner.

use std::io;
use std::pin::pin;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use adit_transport::TlsSettings;
use adit_types::Nanos;
use futures_util::future::{Either, select};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::exchange::exchange;
use crate::registration::{
    Announcement, ClientEnd, NrfClientConfig, NrfEvent, NrfRequest, Registration,
};
use crate::state::NrfState;

/// How long the deregistration at the end may take.
const END_TIME_MAX: Duration = Duration::from_secs(2);

/// Longest sleep if no timer runs; an announcement ends it.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// A registration with a thread of its own.
#[derive(Debug)]
pub struct NrfClient {
    announcements: watch::Sender<Announcement>,
    states: watch::Receiver<NrfState>,
    thread: JoinHandle<()>,
}

impl NrfClient {
    /// Starts the thread `adit-nrf`; `tls` is for NRFs with https. Nothing is sent before the
    /// first announcement of a profile.
    ///
    /// # Errors
    /// The process is out of threads or file descriptors.
    pub fn start(config: NrfClientConfig, tls: Option<TlsSettings>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build()?;
        let registration = Registration::new(config);
        let (announcements, announced) = watch::channel(Announcement::default());
        let (shown, states) = watch::channel(registration.state(&Announcement::default()));
        let mut client = ClientThread { registration, tls, announced, shown };
        let thread = std::thread::Builder::new().name("adit-nrf".to_owned()).spawn(move || {
            runtime.block_on(client.run());
            // Does not wait for a resolver that does not answer.
            runtime.shutdown_background();
        })?;
        Ok(Self { announcements, states, thread })
    }

    /// Replaces the state that the NRF is to have. Never waits for the network.
    pub fn announce(&self, announcement: Announcement) {
        self.announcements.send_if_modified(|current| {
            let differs = *current != announcement;
            *current = announcement;
            differs
        });
    }

    /// Returns the present state.
    #[must_use]
    pub fn state(&self) -> NrfState {
        self.states.borrow().clone()
    }

    /// Makes the thread end, with a deregistration if `end` demands it.
    pub fn begin_end(&self, end: ClientEnd) {
        self.announcements.send_modify(|announced| announced.end = Some(end));
    }

    /// Ends the thread, and waits for that, at most two seconds after the end began.
    pub fn end(self, end: ClientEnd) {
        self.begin_end(end);
        let _ = self.thread.join();
    }
}

struct ClientThread {
    registration: Registration,
    tls: Option<TlsSettings>,
    announced: watch::Receiver<Announcement>,
    shown: watch::Sender<NrfState>,
}

impl ClientThread {
    async fn run(&mut self) {
        let began = Instant::now();
        let mut ends_until = None;
        loop {
            if self.announced.has_changed().is_err() {
                return;
            }
            let now = elapsed(began);
            let announcement = self.announced.borrow_and_update().clone();
            while let Some(event) = self.registration.poll_event() {
                log_event(&event);
            }
            self.shown.send_replace(self.registration.state(&announcement));
            if announcement.end.is_some() {
                let until = *ends_until.get_or_insert(Instant::now() + END_TIME_MAX);
                if self.registration.has_ended(&announcement) || Instant::now() >= until {
                    return;
                }
            }
            match self.registration.poll(now, &announcement) {
                Some(request) => self.send(&request, ends_until, began).await,
                None => {
                    let span = self.registration.next_time(&announcement).since(elapsed(began));
                    let _ =
                        timeout(span.to_duration().min(SLEEP_MAX), self.announced.changed()).await;
                }
            }
        }
    }

    /// Sends a request and handles its answer. The announcement of an end interrupts the request; a
    /// request of the end itself may last until `ends_until`.
    async fn send(&mut self, request: &NrfRequest, ends_until: Option<Instant>, began: Instant) {
        let exchanged = pin!(exchange(self.tls.as_ref(), request));
        let answer = match ends_until {
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                timeout(left, exchanged).await.ok()
            }
            None => {
                let ended = self.announced.wait_for(|announced| announced.end.is_some());
                match select(exchanged, pin!(ended)).await {
                    Either::Left((answer, _)) => Some(answer),
                    Either::Right(_) => None,
                }
            }
        };
        match answer {
            Some(answer) => self.registration.handle(elapsed(began), answer),
            None => self.registration.abandon(),
        }
    }
}

fn elapsed(began: Instant) -> Nanos {
    Nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

fn log_event(event: &NrfEvent) {
    match event {
        NrfEvent::Registered { server, heartbeat } => {
            info!(server, heartbeat_s = heartbeat.to_duration().as_secs(), "registered at the NRF");
        }
        NrfEvent::Forgotten { server } => {
            warn!(server, "the NRF has lost the registration; adit registers again");
        }
        NrfEvent::Deregistered { server } => info!(server, "deregistered at the NRF"),
        NrfEvent::Failed { server, problem } => warn!("the NRF at {server} {problem}"),
    }
}
