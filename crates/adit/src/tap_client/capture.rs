//! `adit capture`: writes packets with what became of them as pcapng.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use super::connection::{EndLine, TapConnection, TapLine, question};
use super::pcapng::{CapturedFrame, FrameDirection, PcapngWriter};
use crate::cli::CaptureArguments;
use crate::tap::TapQuestion;

/// The interface of packets of which it is unknown where they arrived: they waited.
const WAITED: &str = "waited in adit";

/// Writes packets until there are enough, the time is over or the user interrupts.
///
/// # Errors
/// No adit answers, it refuses, or its answer is cut short; the file exists or cannot be written.
pub(crate) fn capture(arguments: &CaptureArguments) -> anyhow::Result<()> {
    let selection = &arguments.selection;
    let is_stdout = arguments.write.as_os_str() == "-";
    if is_stdout && std::io::stdout().is_terminal() {
        bail!("a capture is binary: name a file with -w, or pipe it, such as `| tshark -r -`");
    }
    if is_stdout && arguments.rotate.is_some() {
        bail!("--rotate needs a file: name one with -w");
    }
    let question = TapQuestion {
        interface: arguments.interface.clone(),
        one_of: arguments.sample,
        snap_bytes: arguments.snap,
        packets: arguments.packets,
        ..question(selection)
    };
    let mut tap = TapConnection::open(&selection.socket, &question)?;
    tap.notes.iter().for_each(|note| eprintln!("adit: note: {note}"));
    let mut interfaces = core::mem::take(&mut tap.ports);
    interfaces.push(WAITED.to_owned());
    let mut files = CaptureFiles::open(arguments, interfaces)?;
    eprintln!("adit: capturing to {}; Ctrl-C ends it", files.name());
    loop {
        match tap.next()? {
            TapLine::Packet(packet) => {
                files.packet(&packet, arguments.interface.as_deref())?;
                if arguments.size.is_some_and(|size| files.bytes() >= size) {
                    return files.finish(&EndLine { skipped: 0, why: "size".to_owned() });
                }
            }
            TapLine::End(end) => return files.finish(&end),
        }
    }
}

/// The file that is written, and those before it.
struct CaptureFiles<'a> {
    path: &'a Path,
    rotate: Option<u64>,
    keep: Option<u32>,
    interfaces: Vec<String>,
    writer: PcapngWriter<Box<dyn Write>>,
    /// Numbers of files, the present one last.
    numbers: VecDeque<u32>,
    /// Octets of former files.
    former_bytes: u64,
    frames: u64,
    packets: u64,
    last_unix_ns: u64,
}

impl<'a> CaptureFiles<'a> {
    fn open(arguments: &'a CaptureArguments, interfaces: Vec<String>) -> anyhow::Result<Self> {
        let (path, rotate) = (arguments.write.as_path(), arguments.rotate);
        let out: Box<dyn Write> = match path.as_os_str() == "-" {
            true => Box::new(BufWriter::new(std::io::stdout())),
            false => Box::new(BufWriter::new(create(&numbered(path, rotate.map(|_| 1)))?)),
        };
        let writer = PcapngWriter::new(out, &interfaces).context("cannot write the capture")?;
        Ok(Self {
            path,
            rotate,
            keep: arguments.keep,
            interfaces,
            writer,
            numbers: VecDeque::from([1]),
            former_bytes: 0,
            frames: 0,
            packets: 0,
            last_unix_ns: 0,
        })
    }

    fn name(&self) -> String {
        match (self.path.as_os_str() == "-", self.rotate) {
            (true, _) => "standard output".to_owned(),
            (false, rotate) => numbered(self.path, rotate.map(|_| 1)).display().to_string(),
        }
    }

    /// Octets of all files together.
    const fn bytes(&self) -> u64 {
        self.former_bytes + self.writer.bytes()
    }

    /// Writes the frames of a packet, or only those on an interface.
    fn packet(&mut self, packet: &Value, only: Option<&str>) -> anyhow::Result<()> {
        if self.rotate.is_some_and(|size| self.writer.bytes() >= size) {
            self.rotate()?;
        }
        self.packets += 1;
        self.last_unix_ns = packet["time_unix_ns"].as_u64().unwrap_or_default();
        let verdict = comment(packet);
        self.frame(packet, FrameDirection::Inbound, &verdict, only)?;
        for sent in packet["sent"].as_array().into_iter().flatten() {
            self.frame(sent, FrameDirection::Outbound, &verdict, only)?;
        }
        // For a reader that watches.
        self.writer.flush().context("cannot write the capture")
    }

    fn frame(
        &mut self,
        frame: &Value,
        direction: FrameDirection,
        comment: &str,
        only: Option<&str>,
    ) -> anyhow::Result<()> {
        if only.is_some_and(|only| frame["interface"].as_str() != Some(only)) {
            return Ok(());
        }
        let port = frame["port"].as_str().unwrap_or(WAITED);
        let at = self.interfaces.iter().position(|name| name == port);
        let octets = octets(frame["octets"].as_str().unwrap_or_default());
        let len = frame["len"].as_u64().and_then(|len| u32::try_from(len).ok());
        self.frames += 1;
        let frame = CapturedFrame {
            interface: at.and_then(|at| u32::try_from(at).ok()).unwrap_or_default(),
            time_unix_ns: self.last_unix_ns,
            direction,
            len: len.unwrap_or_default(),
            octets: &octets,
            comment,
        };
        self.writer.frame(&frame).context("cannot write the capture")
    }

    /// Ends the file and begins the next one.
    fn rotate(&mut self) -> anyhow::Result<()> {
        self.writer
            .finish(self.last_unix_ns, self.frames, 0)
            .context("cannot write the capture")?;
        self.former_bytes += self.writer.bytes();
        self.frames = 0;
        let next = self.numbers.back().map_or(1, |last| last.saturating_add(1));
        let file = create(&numbered(self.path, Some(next)))?;
        let out: Box<dyn Write> = Box::new(BufWriter::new(file));
        self.writer =
            PcapngWriter::new(out, &self.interfaces).context("cannot write the capture")?;
        self.numbers.push_back(next);
        while self.keep.is_some_and(|keep| self.numbers.len() > keep as usize)
            && let Some(old) = self.numbers.pop_front()
        {
            let old = numbered(self.path, Some(old));
            std::fs::remove_file(&old)
                .with_context(|| format!("cannot remove {}", old.display()))?;
        }
        Ok(())
    }

    fn finish(mut self, EndLine { skipped, why }: &EndLine) -> anyhow::Result<()> {
        self.writer
            .finish(self.last_unix_ns, self.frames, *skipped)
            .context("cannot write the capture")?;
        let why = match why.as_str() {
            "packets" => "as many as were asked for",
            "duration" => "the time is over",
            "size" => "the files are as large as they may be",
            "interrupted" => "interrupted",
            "shutdown" => "adit has ended",
            other => other,
        };
        eprintln!("adit: {} packets captured, {skipped} lost; {why}", self.packets);
        if *skipped > 0 {
            eprintln!(
                "adit: more packets came than could be written: take fewer with --sample, or a session with --ue"
            );
        }
        Ok(())
    }
}

/// What became of a packet, in a line.
fn comment(packet: &Value) -> String {
    let outcome = &packet["outcome"];
    let word = |key: &str| outcome[key].as_str().unwrap_or_default();
    match outcome["reason"].as_str() {
        Some(reason) => format!("{} {reason}: {}", word("kind"), word("text")),
        None if word("kind") == "sent" => "sent".to_owned(),
        None => format!("{}: {}", word("kind"), word("text")),
    }
}

/// Creates a file that only its owner can read.
fn create(path: &Path) -> anyhow::Result<File> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.with_context(|| {
        format!(
            "cannot create {}; it must not exist yet, and its folder must be writable",
            path.display()
        )
    })
}

/// The path with a number before its suffix.
fn numbered(path: &Path, number: Option<u32>) -> PathBuf {
    let Some(number) = number else { return path.to_owned() };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(suffix) => format!("{stem}-{number:05}.{}", suffix.to_string_lossy()),
        None => format!("{stem}-{number:05}"),
    };
    path.with_file_name(name)
}

/// The octets of hexadecimal digits.
fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|digit| u8::try_from(digit.to_digit(16)?).ok()).collect();
    let (pairs, _) = digits.as_chunks::<2>();
    pairs.iter().map(|[high, low]| high << 4 | low).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        arguments: CaptureArguments,
    }

    fn packet(n: u64) -> Value {
        json!({
            "time_unix_ns": n, "port": "access", "interface": "n3", "len": 60, "octets": "0102ff",
            "sent": [{ "port": "core", "interface": "n6", "len": 40, "octets": "a0" }],
            "outcome": { "kind": "dropped", "reason": "far_drop", "text": "The FAR drops." },
        })
    }

    fn files(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn files_rotate_keep_their_number_and_only_their_owner_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.pcapng");
        let words = ["", "--all", "--rotate", "10k", "--keep", "2", "-w", path.to_str().unwrap()];
        let Cli { arguments } = Cli::try_parse_from(words).unwrap();
        let interfaces = ["access", "core", WAITED].map(str::to_owned).to_vec();
        let mut capture = CaptureFiles::open(&arguments, interfaces.clone()).unwrap();
        for n in 0..400 {
            capture.packet(&packet(n), None).unwrap();
        }
        let bytes = capture.bytes();
        capture.finish(&EndLine { skipped: 3, why: "duration".to_owned() }).unwrap();
        let names = files(folder.path());
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(bytes > 40_000 && !names.contains(&"all-00001.pcapng".to_owned()), "{names:?}");
        for name in names {
            let mode = std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn file_that_exists_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        std::fs::write(&path, "precious").unwrap();
        let words = ["", "--all", "-w", path.to_str().unwrap()];
        let Cli { arguments } = Cli::try_parse_from(words).unwrap();
        assert!(CaptureFiles::open(&arguments, Vec::new()).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn one_interface_gets_only_its_frames() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("n6");
        let words = ["", "--interface", "n6", "-w", path.to_str().unwrap()];
        let Cli { arguments } = Cli::try_parse_from(words).unwrap();
        let interfaces = ["access", "core", WAITED].map(str::to_owned).to_vec();
        let mut capture = CaptureFiles::open(&arguments, interfaces).unwrap();
        capture.packet(&packet(1), arguments.interface.as_deref()).unwrap();
        assert_eq!((capture.packets, capture.frames), (1, 1));
    }

    #[test]
    fn comment_names_the_reason_and_its_sentence() {
        assert_eq!(comment(&packet(1)), "dropped far_drop: The FAR drops.");
        assert_eq!(octets("0102ff"), [1, 2, 255]);
    }
}
