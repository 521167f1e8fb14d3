//! The commands of replication, and their refusals.

use adit_store::RecordNumber;
use adit_transport::resp::{CommandRefusal, RespClient, RespCommand};

/// The version of the protocol.
pub const PROTOCOL_VERSION: u64 = 4;

const HELLO: &[u8] = b"ADIT.HELLO";
const GROUP: &[u8] = b"ADIT.GROUP";
const PING: &[u8] = b"PING";

/// A command from an adit to the one that keeps its tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicationCommand<'a> {
    /// `ADIT.HELLO version name epoch after newest greeting`: the active adit begins. Groups up to
    /// `after` are in the shared store. The reply is an array: incarnation, last group that the
    /// standby has, number of this greeting. If the sender has not made the last group, it greets
    /// again with that number, and the standby drops the groups behind `newest`.
    Hello {
        /// The name of the records in the shared store.
        name: &'a [u8],
        /// The sender's epoch.
        epoch: u64,
        /// The group before the first one that the sender can send.
        after: RecordNumber,
        /// The last group that the sender has made.
        newest: RecordNumber,
        /// The greeting that this one follows up, or zero.
        greeting: u64,
    },
    /// `ADIT.GROUP epoch previous number changes`: the group behind `previous`. The reply is its
    /// number.
    Group {
        /// The sender's epoch.
        epoch: u64,
        /// The group before it.
        previous: RecordNumber,
        /// Its number.
        number: RecordNumber,
        /// Its changes, as [`adit_store::encode_change`] writes them.
        changes: &'a [u8],
    },
    /// `PING`: a sign of life. The reply is how long from now on the standby does not take over:
    /// milliseconds.
    Ping,
}

impl<'a> ReplicationCommand<'a> {
    /// Reads a command.
    ///
    /// # Errors
    /// The refusal to reply with.
    pub fn parse(command: RespCommand<'a>) -> Result<Self, ReplicationRefusal> {
        let mut words = command.words();
        let name = words.next().unwrap_or_default();
        let arguments = (words.next(), words.next(), words.next(), words.next());
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        let count = command.word_count();
        match arguments {
            // The version comes first, because other versions have other arguments.
            (Some(version), Some(name), Some(epoch), Some(after)) if is(HELLO) => {
                check_version(version)?;
                let (Some(newest), Some(greeting), 7) = (words.next(), words.next(), count) else {
                    return Err(ReplicationRefusal::Arguments);
                };
                Ok(Self::Hello {
                    name,
                    epoch: epoch_number(epoch)?,
                    after: record_number(after)?,
                    newest: record_number(newest)?,
                    greeting: number(greeting)?,
                })
            }
            (Some(epoch), Some(previous), Some(group), Some(changes))
                if is(GROUP) && count == 5 =>
            {
                Ok(Self::Group {
                    epoch: epoch_number(epoch)?,
                    previous: record_number(previous)?,
                    number: record_number(group)?,
                    changes,
                })
            }
            (None, None, None, None) if is(PING) => Ok(Self::Ping),
            _ if [HELLO, GROUP, PING].into_iter().any(is) => Err(ReplicationRefusal::Arguments),
            _ => Err(ReplicationRefusal::UnknownCommand),
        }
    }

    /// Appends the command to the output of `client`.
    ///
    /// # Errors
    /// As for [`RespClient::command`].
    pub(crate) fn send<T>(&self, client: &mut RespClient<T>, tag: T) -> Result<(), CommandRefusal> {
        let version = PROTOCOL_VERSION.to_string();
        match *self {
            Self::Hello { name, epoch, after, newest, greeting } => {
                let numbers = [epoch, after.0, newest.0, greeting].map(|n| n.to_string());
                let [epoch, after, newest, greeting] = numbers.each_ref().map(|n| n.as_bytes());
                let words = [HELLO, version.as_bytes(), name, epoch, after, newest, greeting];
                client.command(tag, &words)
            }
            Self::Group { epoch, previous, number, changes } => {
                let (epoch, previous) = (epoch.to_string(), previous.0.to_string());
                let number = number.0.to_string();
                let words =
                    [GROUP, epoch.as_bytes(), previous.as_bytes(), number.as_bytes(), changes];
                client.command(tag, &words)
            }
            Self::Ping => client.command(tag, &[PING]),
        }
    }
}

/// Why a command is refused. It has changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplicationRefusal {
    /// The command is not one of replication.
    #[error("ERR unknown command")]
    UnknownCommand,
    /// The command has too few or too many arguments.
    #[error("ERR wrong number of arguments")]
    Arguments,
    /// An argument is not a decimal number of 64 bits.
    #[error("ERR an argument is not a number")]
    Number,
    /// The sender speaks another version.
    #[error(
        "ERR this adit speaks version {PROTOCOL_VERSION} of the replication protocol, not {0}: run the same version of adit on both hosts"
    )]
    Version(u64),
    /// The sender's records have another name.
    #[error("ERR the records have another name here: give store.name the same value on both hosts")]
    Name,
    /// The sender's epoch is older than this one, which the shared store has shown.
    #[error("FENCED {0} the records were taken over")]
    Fenced(u64),
    /// The sender's epoch is later than this one, the newest that the shared store has shown.
    #[error("LATER {0} is the newest epoch that the store has shown to this adit")]
    Later(u64),
    /// The sender's epoch is zero, which no store gives.
    #[error("ERR epochs begin with 1")]
    Epoch,
    /// There was no `ADIT.HELLO` of this epoch.
    #[error("ERR ADIT.HELLO of this epoch comes first")]
    NoHello,
    /// The group does not follow the last one, which is this one.
    #[error("GAP {} is the last group here", .0.0)]
    Gap(RecordNumber),
    /// The number of a group is not greater than that of the group before it.
    #[error("ERR numbers of groups ascend")]
    Order,
    /// The changes of a group cannot be read.
    #[error("ERR the changes of the group cannot be read")]
    Changes,
    /// The tail has as many octets as it may.
    #[error("FULL the tail has all the memory that it may")]
    Full,
}

fn check_version(word: &[u8]) -> Result<(), ReplicationRefusal> {
    match number(word)? {
        PROTOCOL_VERSION => Ok(()),
        other => Err(ReplicationRefusal::Version(other)),
    }
}

/// A number in decimal digits.
pub(crate) fn number(word: &[u8]) -> Result<u64, ReplicationRefusal> {
    // `parse` accepts a leading plus.
    let digits = word.iter().all(u8::is_ascii_digit).then_some(word);
    let text = digits.and_then(|word| core::str::from_utf8(word).ok());
    text.and_then(|text| text.parse().ok()).ok_or(ReplicationRefusal::Number)
}

/// The epoch of a sender.
fn epoch_number(word: &[u8]) -> Result<u64, ReplicationRefusal> {
    match number(word)? {
        0 => Err(ReplicationRefusal::Epoch),
        epoch => Ok(epoch),
    }
}

pub(crate) fn record_number(word: &[u8]) -> Result<RecordNumber, ReplicationRefusal> {
    number(word).map(RecordNumber)
}
