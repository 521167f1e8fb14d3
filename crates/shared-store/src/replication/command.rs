//! The commands of the replication protocol, and the refusals.

use adit_store::GroupNumber;
use adit_transport::resp::{CommandRefusal, RespClient, RespCommand};

/// The version of the replication protocol.
pub const PROTOCOL_VERSION: u64 = 4;

const HELLO: &[u8] = b"ADIT.HELLO";
const GROUP: &[u8] = b"ADIT.GROUP";
const PING: &[u8] = b"PING";

/// A command from the active adit to the standby that keeps its tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicationCommand<'a> {
    /// `ADIT.HELLO version name epoch after newest greeting`: begins replication. The shared store
    /// has all groups up to `after`. The reply is an array: the standby's incarnation, the last
    /// group that the standby has, and the number of this greeting. If the sender did not make that
    /// group, it sends the command again with this number as `greeting`, and the standby drops the
    /// groups after `newest`.
    Hello {
        /// The name of the records in the shared store.
        name: &'a [u8],
        /// The sender's epoch.
        epoch: u64,
        /// The group that precedes the first one which the sender can send.
        after: GroupNumber,
        /// The last group that the sender has made.
        newest: GroupNumber,
        /// The number of the greeting that this one repeats, or zero.
        greeting: u64,
    },
    /// `ADIT.GROUP epoch previous number changes`: the group that follows `previous`. The reply is
    /// `number`.
    Group {
        /// The sender's epoch.
        epoch: u64,
        /// Number of the preceding group.
        previous: GroupNumber,
        /// Number of the group.
        number: GroupNumber,
        /// Changes of the group, as [`adit_store::encode_change`] writes them.
        changes: &'a [u8],
    },
    /// `PING`: a sign of life. The reply is the time, from the reply on, for which the standby does
    /// not take over. Unit: ms.
    Ping,
}

impl<'a> ReplicationCommand<'a> {
    /// Parses a command.
    ///
    /// # Errors
    /// The refusal to send as the reply.
    pub fn parse(command: RespCommand<'a>) -> Result<Self, ReplicationRefusal> {
        let mut words = command.words();
        let name = words.next().unwrap_or_default();
        let arguments = (words.next(), words.next(), words.next(), words.next());
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        let count = command.word_count();
        match arguments {
            // The version is checked first, because other versions may have other arguments.
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

/// The reason why a standby refuses a command, as the text of the reply. The command has changed
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplicationRefusal {
    /// The command is not one of replication.
    #[error("ERR unknown command")]
    UnknownCommand,
    /// The command has too few or too many arguments.
    #[error("ERR wrong number of arguments")]
    Arguments,
    /// An argument is not a decimal number that fits 64 bits.
    #[error("ERR an argument is not a number")]
    Number,
    /// The sender uses another version of the protocol.
    #[error(
        "ERR this adit speaks version {PROTOCOL_VERSION} of the replication protocol, not {0}: run the same version of adit on both hosts"
    )]
    Version(u64),
    /// The sender's records have another name than the standby's.
    #[error("ERR the records have another name here: give store.name the same value on both hosts")]
    Name,
    /// The sender's epoch is older than this one, the newest that the shared store has shown.
    #[error("FENCED {0} the records were taken over")]
    Fenced(u64),
    /// The sender's epoch is later than this one, the newest that the shared store has shown.
    #[error("LATER {0} is the newest epoch that the store has shown to this adit")]
    Later(u64),
    /// The sender's epoch is zero, which no store assigns.
    #[error("ERR epochs begin with 1")]
    Epoch,
    /// `ADIT.HELLO` of this epoch has not been received.
    #[error("ERR ADIT.HELLO of this epoch comes first")]
    NoHello,
    /// The group does not follow the last group of the standby, whose number this is.
    #[error("GAP {} is the last group here", .0.0)]
    Gap(GroupNumber),
    /// The number of a group is not greater than that of the preceding group.
    #[error("ERR numbers of groups ascend")]
    Order,
    /// The changes of a group cannot be decoded.
    #[error("ERR the changes of the group cannot be read")]
    Changes,
    /// The tail uses all the memory that it may use.
    #[error("FULL the tail has all the memory that it may")]
    Full,
}

fn check_version(word: &[u8]) -> Result<(), ReplicationRefusal> {
    match number(word)? {
        PROTOCOL_VERSION => Ok(()),
        other => Err(ReplicationRefusal::Version(other)),
    }
}

/// Parses a number in decimal digits.
pub(crate) fn number(word: &[u8]) -> Result<u64, ReplicationRefusal> {
    // Checked here, since `parse` also accepts a leading plus.
    let digits = word.iter().all(u8::is_ascii_digit).then_some(word);
    let text = digits.and_then(|word| core::str::from_utf8(word).ok());
    text.and_then(|text| text.parse().ok()).ok_or(ReplicationRefusal::Number)
}

/// Parses the epoch of a sender.
fn epoch_number(word: &[u8]) -> Result<u64, ReplicationRefusal> {
    match number(word)? {
        0 => Err(ReplicationRefusal::Epoch),
        epoch => Ok(epoch),
    }
}

pub(crate) fn record_number(word: &[u8]) -> Result<GroupNumber, ReplicationRefusal> {
    number(word).map(GroupNumber)
}
