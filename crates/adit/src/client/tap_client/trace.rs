//! `adit trace`: follows packets through the stages.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use super::connection::{TapConnection, describe_tap_end};
use crate::cli::TraceArguments;
use crate::request::http_client::HttpRequest;
use crate::tap::packet::{TraceEnd, TraceLine};
use crate::tap::packet_words;

/// Prints the outcome of packets until the requested number is reached, the time is over or the
/// user interrupts.
///
/// # Errors
/// No adit answers, it refuses, or its answer is cut short; or `out` cannot be written.
pub(crate) fn trace(arguments: &TraceArguments, out: &mut impl Write) -> anyhow::Result<()> {
    let TraceArguments { wish, json, socket } = arguments;
    let request = HttpRequest::new("POST", "/v1/traces").with_body(json!(wish));
    let mut tap = TapConnection::open(socket.path(), &request)?;
    tap.head.notes.iter().for_each(|note| eprintln!("adit: note: {note}"));
    let time = Duration::from_millis(wish.duration_ms.unwrap_or(10_000));
    let most = wish.packets.unwrap_or_default();
    eprintln!("adit: following up to {most} packets for up to {time:?}; Ctrl-C ends it");
    let mut packets = 0;
    loop {
        match tap.next()? {
            TraceLine::Packet(packet) => {
                packets += 1;
                match json {
                    true => writeln!(out, "{}", serde_json::to_string(&packet)?)?,
                    false => writeln!(out, "{}", packet_words::words(&packet))?,
                }
                out.flush()?;
            }
            TraceLine::End { end } => {
                eprintln!("adit: {}", summary(packets, &end));
                return Ok(());
            }
            TraceLine::Head { .. } => {}
        }
    }
}

fn summary(packets: u64, TraceEnd { skipped, why, .. }: &TraceEnd) -> String {
    let mut text = format!("{packets} packets; {}", describe_tap_end(why));
    if *skipped > 0 {
        text +=
            &format!("; {skipped} further ones were not followed, because the reader was slower");
    }
    if packets == 0 {
        text += "; no such packet reached a worker: check the address or TEID (`adit show sessions`), and \
                 whether packets arrive at all (`adit show ports`, `adit show counters`)";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_says_why_it_ended_and_what_to_do_without_packets() {
        let end = |skipped, why: &str| TraceEnd { packets: 0, skipped, why: why.to_owned() };
        assert_eq!(summary(20, &end(0, "packets")), "20 packets; as many as were asked for");
        assert!(summary(3, &end(7, "duration")).contains("7 further ones"));
        assert!(summary(0, &end(0, "duration")).contains("adit show ports"));
    }
}
