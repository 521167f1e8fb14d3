//! Traces and captures of a running adit: the client's request, the control thread's side, and the
//! stream of the answer.
//!
//! The control thread starts a tap at every worker ([`hub`]) and passes records on over a bounded
//! channel. The client's thread makes documents of them ([`words`]) and writes these in the form
//! that the client gets ([`stream`]). Neither workers nor the control thread wait for a client:
//! records for which there is no room are dropped and counted.

pub(crate) mod frame;
pub(crate) mod hub;
mod news;
pub(crate) mod packet;
pub(crate) mod packet_words;
pub(crate) mod question;
pub(crate) mod stream;
mod wish;
mod words;

pub(crate) use hub::{HubTapState, TapContext, TapHub, TapLimits, TapRefusal};
pub(crate) use news::TapEnd;
pub(crate) use question::TapQuestion;
pub(crate) use stream::{JSON_LINES, JsonLines, TapOutput, TapSink, TapStream};
pub(crate) use wish::{CaptureWish, TraceWish};
