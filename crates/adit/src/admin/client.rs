//! The client of the admin socket.

use core::fmt;
use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{AdminCommand, TIMEOUT};

/// Receives a document as a stream.
pub trait DocumentSink {
    /// A list starts, with this key in the document.
    ///
    /// # Errors
    /// Those of the output.
    fn list(&mut self, key: &str) -> anyhow::Result<()>;

    /// The next row of the list.
    ///
    /// # Errors
    /// Those of the output.
    fn row(&mut self, row: Value) -> anyhow::Result<()>;

    /// A member of the document other than a list.
    ///
    /// # Errors
    /// Those of the output.
    fn member(&mut self, key: String, value: Value) -> anyhow::Result<()>;
}

/// The members of a document without lists.
#[derive(Debug, Default)]
pub(crate) struct DocumentMembers(pub Map<String, Value>);

impl DocumentSink for DocumentMembers {
    fn list(&mut self, _: &str) -> anyhow::Result<()> {
        Ok(())
    }

    fn row(&mut self, _: Value) -> anyhow::Result<()> {
        Ok(())
    }

    fn member(&mut self, key: String, value: Value) -> anyhow::Result<()> {
        self.0.insert(key, value);
        Ok(())
    }
}

/// A document, gathered.
#[derive(Debug, Default)]
pub(crate) struct WholeDocument {
    pub members: Map<String, Value>,
    list: String,
}

impl DocumentSink for WholeDocument {
    fn list(&mut self, key: &str) -> anyhow::Result<()> {
        key.clone_into(&mut self.list);
        self.members.insert(key.to_owned(), Value::Array(Vec::new()));
        Ok(())
    }

    fn row(&mut self, row: Value) -> anyhow::Result<()> {
        let rows = self.members.get_mut(&self.list).and_then(Value::as_array_mut);
        if let Some(rows) = rows {
            rows.push(row);
        }
        Ok(())
    }

    fn member(&mut self, key: String, value: Value) -> anyhow::Result<()> {
        self.members.insert(key, value);
        Ok(())
    }
}

/// Sends a request to the adit that listens at `socket`, and passes its answer to `sink` as it arrives.
///
/// # Errors
/// Nothing listens there, the answer is incomplete, or adit refuses; those of `sink`.
pub(crate) fn request(
    socket: &Path,
    command: &AdminCommand,
    sink: &mut impl DocumentSink,
) -> anyhow::Result<()> {
    let mut stream = connect(socket)?;
    stream.set_read_timeout(Some(2 * TIMEOUT))?;
    let mut line = serde_json::to_vec(&command.request())?;
    line.push(b'\n');
    // An overloaded adit may close the socket before it reads the request; its answer has the reason.
    let _ = stream.write_all(&line);
    take(BufReader::new(stream), sink)
}

/// Connects to the adit that listens at `socket`.
///
/// # Errors
/// Nothing listens there.
pub(crate) fn connect(socket: &Path) -> anyhow::Result<UnixStream> {
    UnixStream::connect(socket).with_context(|| {
        format!(
            "no adit answers at {}; start one with `adit run`, or name its configuration with --config, or its admin.socket with --socket",
            socket.display()
        )
    })
}

/// Reads one document.
fn take(document: impl Read, sink: &mut impl DocumentSink) -> anyhow::Result<()> {
    let mut taker = DocumentReader { sink, refused: None, failed: None };
    let mut document = serde_json::Deserializer::from_reader(document);
    let taken = document.deserialize_map(&mut taker);
    match (taker.refused, taker.failed, taken) {
        (_, Some(error), _) => Err(error),
        (Some(what), ..) => bail!("adit: {what}"),
        (None, None, taken) => taken.context("adit did not finish its answer"),
    }
}

/// Passes members and rows to a sink.
struct DocumentReader<'s, S> {
    sink: &'s mut S,
    /// The error that adit returned instead of a document.
    refused: Option<String>,
    /// The error of the sink.
    failed: Option<anyhow::Error>,
}

impl<'de, S: DocumentSink> Visitor<'de> for &mut DocumentReader<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(key) = members.next_key::<String>()? {
            members.next_value_seed(DocumentMember { taker: self, key })?;
        }
        Ok(())
    }
}

/// One member of the document.
struct DocumentMember<'t, 's, S> {
    taker: &'t mut DocumentReader<'s, S>,
    key: String,
}

impl<S: DocumentSink> DocumentMember<'_, '_, S> {
    fn give<E: serde::de::Error>(self, value: Value) -> Result<(), E> {
        match value {
            Value::String(what) if self.key == "error" => self.taker.refused = Some(what),
            value => {
                let given = self.taker.sink.member(self.key, value);
                given.map_err(|error| fail(&mut self.taker.failed, error))?;
            }
        }
        Ok(())
    }
}

fn fail<E: serde::de::Error>(failed: &mut Option<anyhow::Error>, error: anyhow::Error) -> E {
    *failed = Some(error);
    E::custom("the output failed")
}

impl<'de, S: DocumentSink> DeserializeSeed<'de> for DocumentMember<'_, '_, S> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de, S: DocumentSink> Visitor<'de> for DocumentMember<'_, '_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        let DocumentReader { sink, failed, .. } = self.taker;
        sink.list(&self.key).map_err(|error| fail(failed, error))?;
        while let Some(row) = rows.next_element::<Value>()? {
            sink.row(row).map_err(|error| fail(failed, error))?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut map = serde_json::Map::new();
        while let Some((key, value)) = members.next_entry::<String, Value>()? {
            map.insert(key, value);
        }
        self.give(Value::Object(map))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.give(text.into())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.give(value.into())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.give(value.into())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.give(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.give(value.into())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.give(Value::Null)
    }
}
