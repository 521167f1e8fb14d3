//! Instruction counts of a program by address, as callgrind writes them, and the functions that
//! contain an address, inlined ones included.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// Executed instructions, by address in the program. `None`: instructions in libraries.
pub(super) type Counts = BTreeMap<Option<u64>, i64>;

/// A function that contains an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InlinedFrame {
    /// Name without path and parameters.
    pub function: String,
    pub file: String,
}

/// Reads a file that callgrind wrote with `--dump-instr=yes` and one event.
///
/// Spec: valgrind manual, "Callgrind Format Specification".
///
/// # Errors
/// The file is malformed.
pub(super) fn counts(text: &str, program: &str) -> anyhow::Result<Counts> {
    let mut names = HashMap::<&str, &str>::new();
    let (mut is_program, mut address, mut is_call) = (false, 0_u64, false);
    let mut counts = Counts::new();
    for line in text.lines() {
        if let Some((key @ ("ob" | "cob"), value)) = line.split_once('=') {
            // "(number) name" names an object, "(number)" refers to it.
            let (number, name) = value.split_once(' ').unwrap_or((value, ""));
            if !name.is_empty() {
                names.insert(number, name);
            }
            if key == "ob" {
                is_program = names.get(number).is_some_and(|name| *name == program);
            }
            continue;
        }
        if line.starts_with("calls=") {
            is_call = true;
            continue;
        }
        let mut parts = line.split(' ');
        let (Some(position), Some(_), Some(count), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let Ok(count) = count.parse::<i64>() else { continue };
        address = match (position.strip_prefix("0x"), position.split_at_checked(1)) {
            (Some(absolute), _) => u64::from_str_radix(absolute, 16)?,
            (_, Some(("*", ""))) => address,
            (_, Some(("+", offset))) => address + offset.parse::<u64>()?,
            (_, Some(("-", offset))) => address.saturating_sub(offset.parse()?),
            _ => continue,
        };
        // The line after "calls" has the cost of the callee, which has lines of its own.
        if !std::mem::take(&mut is_call) {
            *counts.entry(is_program.then_some(address)).or_default() += count;
        }
    }
    if counts.is_empty() {
        bail!("callgrind counted no instruction");
    }
    Ok(counts)
}

/// Returns the functions that contain each address, innermost first.
///
/// # Errors
/// `addr2line` is missing or fails.
pub(super) fn frames(
    program: &Path,
    addresses: impl Iterator<Item = u64>,
) -> anyhow::Result<HashMap<u64, Vec<InlinedFrame>>> {
    let mut child = Command::new("addr2line")
        .args(["--addresses", "--inlines", "--functions", "--demangle", "--exe"])
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run addr2line; install binutils (Debian: apt-get install binutils)")?;
    let input: String = addresses.map(|address| format!("{address:#x}\n")).collect();
    let mut stdin = child.stdin.take().context("the input of addr2line")?;
    // addr2line writes before it has read all of its input.
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output()?;
    writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    if !output.status.success() {
        bail!("addr2line failed ({})", output.status);
    }
    parse_frames(&String::from_utf8_lossy(&output.stdout))
}

/// Parses "0xADDRESS", followed by a line for each function and a line for its place.
fn parse_frames(text: &str) -> anyhow::Result<HashMap<u64, Vec<InlinedFrame>>> {
    let mut frames = HashMap::<u64, Vec<InlinedFrame>>::new();
    let mut address = 0;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(digits) = line.strip_prefix("0x") {
            address = u64::from_str_radix(digits, 16).context("an address of addr2line")?;
            continue;
        }
        let place = lines.next().unwrap_or_default();
        let file = place.rsplit_once(':').map_or(place, |(file, _)| file).to_owned();
        frames.entry(address).or_default().push(InlinedFrame { function: last_name(line), file });
    }
    Ok(frames)
}

/// Returns `c` of `a::b::c`, `c<D>` or `<A as B>::c`.
fn last_name(function: &str) -> String {
    let end = if function.starts_with('<') { None } else { function.find('<') };
    let path = &function[..end.unwrap_or(function.len())];
    path.rsplit("::").next().unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_by_address_and_without_callees() {
        let text = "positions: instr line\nevents: Ir\n\n\
            ob=(3) /lib/libc.so\nfn=(1) main\ncob=(6) /bin/adit-bench\ncfn=(2)\ncalls=1 0x22ca70 0\n0x27248 58 500\n\
            +4 59 7\n\
            ob=(6)\nfl=(9) a.rs\nfn=(2) step\n0x100 317 20\n+4 * 20\n* +2 1\n-4 * 5\n\
            cfn=(4)\ncalls=20 0x200 +78\n+8 * 900\n+2 * 3\n";
        let found = counts(text, "/bin/adit-bench").unwrap();
        let expected = [(None, 7), (Some(0x100), 25), (Some(0x104), 21), (Some(0x10a), 3)];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn file_without_counts_is_refused() {
        assert!(counts("version: 1\nevents: Ir\n", "/bin/adit-bench").is_err());
    }

    #[test]
    fn frames_are_innermost_first_with_short_names() {
        let text = "0x0000000000000010\nmap<&Packet, a::b>\n/core/option.rs:1165\n\
            adit_datapath::fast_path::rewrite_all\n/x/fast_path/mod.rs:333 (discriminator 3)\n\
            0x0000000000000014\n<adit_bench::io::BenchIo as adit_pktio::PacketIo>::rx_burst\n??:0\n";
        let frames = parse_frames(text).unwrap();
        let of = |address| {
            let frames: Vec<_> = frames.get(&address).into_iter().flatten().collect();
            frames
                .iter()
                .map(|frame| (frame.function.clone(), frame.file.clone()))
                .collect::<Vec<_>>()
        };
        let frame = |function: &str, file: &str| (function.to_owned(), file.to_owned());
        assert_eq!(
            of(0x10),
            [frame("map", "/core/option.rs"), frame("rewrite_all", "/x/fast_path/mod.rs"),]
        );
        assert_eq!(of(0x14), [frame("rx_burst", "??")]);
    }
}
