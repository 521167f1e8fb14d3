//! The lease: taking it, giving it back, and asking its holder for it.

use std::time::{Duration, Instant};

use adit_store::StoreError;
use adit_transport::Transport;

use crate::connection::LinkError;
use crate::keys::FORMAT_VERSION;
use crate::pipeline::unreadable;
use crate::printable::printable;
use crate::scripts::{Script, ScriptAnswer, octets};
use crate::shared_store::SharedStore;

/// How long a wish to take over lasts. Unit: ms.
const HANDOVER_MS: &[u8] = b"10000";

/// What became of an attempt to take the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// This process holds it.
    Taken {
        /// The fencing token.
        epoch: u64,
    },
    /// Another process does.
    Held(LeaseView),
}

/// A lease as a server shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseView {
    /// Who holds it.
    pub holder: String,
    /// How long it lasts unless it is prolonged.
    pub left: Duration,
}

impl<T: Transport> SharedStore<T> {
    /// Takes the lease if nobody holds it, or a former process of the same instance. From then on writes of former
    /// holders are refused by the server, and this process may append.
    ///
    /// # Errors
    /// No server can be used, or a newer program wrote the records.
    pub fn acquire(&mut self) -> Result<LeaseAnswer, StoreError> {
        let answer = self.on_primary(&mut |store| {
            let began = Instant::now();
            let answer = store.ask_for_lease()?;
            if let ScriptAnswer::Taken { epoch, last } = answer {
                // Without it a replica that becomes the primary might give the same epoch to another process.
                store.wait_for_replicas(began)?;
                store.epoch = Some(epoch);
                (store.queued_at, store.written_at) = (Some(began), Some(began));
                store.tail.begin(epoch, last);
                store.figures.last = last;
            }
            Ok(answer)
        });
        match answer? {
            ScriptAnswer::Taken { epoch, .. } => {
                self.is_handover_requested = false;
                self.figures.holder.clone_from(&self.holder);
                Ok(LeaseAnswer::Taken { epoch })
            }
            ScriptAnswer::Held { holder, left_ms } => {
                self.figures.holder.clone_from(&holder);
                let left = Duration::from_millis(left_ms);
                Ok(LeaseAnswer::Held(LeaseView { holder, left }))
            }
            _ => Err(StoreError::Unavailable("its answer cannot be read".to_owned())),
        }
    }

    fn ask_for_lease(&mut self) -> Result<ScriptAnswer, LinkError> {
        let (instance, lease) = (self.options.instance_prefix(), self.options.lease_ms());
        let format = FORMAT_VERSION.to_string();
        let mut command = self.scripts.command(Script::Acquire, &self.keys);
        let words = [&format, &instance, &self.holder, &lease];
        command.extend(words.map(|word| word.as_bytes()));
        let mut answer = None;
        self.link.exchange(&[command], Duration::ZERO, &mut |_, value| {
            answer = ScriptAnswer::read(value);
        })?;
        match answer {
            Some(ScriptAnswer::Newer { format }) => Err(LinkError::Final(self.newer(format))),
            Some(answer) => Ok(answer),
            None => Err(unreadable()),
        }
    }

    /// The error for records of a newer program.
    pub(crate) fn newer(&self, version: u32) -> StoreError {
        let file = format!("the shared store of \"{}\"", self.options.name);
        StoreError::Newer { file, version, newest: FORMAT_VERSION }
    }

    /// Gives the lease back, so that another process need not wait for its end. What is not durable stays appended.
    ///
    /// # Errors
    /// No server can be used: the lease ends by itself.
    pub fn release(&mut self) -> Result<(), StoreError> {
        if self.epoch.take().is_none() {
            return Ok(());
        }
        self.on_primary(&mut |store| {
            let mut command = store.scripts.command(Script::Release, &store.keys);
            command.push(store.holder.as_bytes());
            let mut answer = None;
            store.link.exchange(&[command], Duration::ZERO, &mut |_, value| {
                answer = ScriptAnswer::read(value);
            })?;
            match answer {
                Some(ScriptAnswer::Released) => Ok(()),
                _ => Err(unreadable()),
            }
        })
    }

    /// Asks the holder to give the lease back. It learns it when it writes or prolongs the lease next; the wish
    /// lasts 10 seconds.
    ///
    /// # Errors
    /// No server can be used.
    pub fn request_handover(&mut self) -> Result<(), StoreError> {
        self.on_primary(&mut |store| {
            let holder = store.holder.as_bytes();
            let command = vec![&b"SET"[..], store.keys.handover(), holder, b"PX", HANDOVER_MS];
            store.link.exchange(&[command], Duration::ZERO, &mut |_, _| {})
        })
    }

    /// True if somebody asked this holder to give the lease back, when it last wrote or prolonged the lease.
    #[must_use]
    pub const fn is_handover_requested(&self) -> bool {
        self.is_handover_requested
    }

    /// Who holds the lease, and for how long at least; `None` if nobody does.
    ///
    /// # Errors
    /// No server can be used.
    pub fn lease(&mut self) -> Result<Option<LeaseView>, StoreError> {
        self.on_primary(&mut |store| {
            let lease = store.keys.lease();
            let commands = [vec![&b"GET"[..], lease], vec![&b"PTTL"[..], lease]];
            let (mut holder, mut left_ms) = (None, 0);
            store.link.exchange(&commands, Duration::ZERO, &mut |at, value| match (at, value) {
                (0, value) => {
                    holder = octets(value).map(printable);
                }
                (_, adit_resp::RespValue::Integer(left)) => {
                    left_ms = u64::try_from(left).unwrap_or(0);
                }
                _ => {}
            })?;
            let left = Duration::from_millis(left_ms);
            Ok(holder.map(|holder| LeaseView { holder, left }))
        })
    }
}
