//! `adit capture`: writes packets and their outcomes as pcapng.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::json;

use super::capture_writer::CaptureWriter;
use super::connection::{TapConnection, describe_tap_end};
use crate::cli::CaptureArguments;
use crate::request::http_client::HttpRequest;
use crate::tap::JSON_LINES;
use crate::tap::packet::{TraceLine, TracedPacket};

/// Context of an error when the capture is written.
const WRITE_FAILURE: &str = "cannot write the capture";

/// Writes packets until the requested number is reached, the time is over or the user interrupts.
///
/// # Errors
/// No adit answers, it refuses, or its answer is cut short; the file exists or cannot be written.
pub(crate) fn capture(arguments: &CaptureArguments) -> anyhow::Result<()> {
    let is_stdout = arguments.write.as_os_str() == "-";
    if is_stdout && std::io::stdout().is_terminal() {
        bail!("a capture is binary: name a file with -w, or pipe it, such as `| tshark -r -`");
    }
    if is_stdout && arguments.rotate.is_some() {
        bail!("--rotate needs a file: name one with -w");
    }
    let request = HttpRequest::new("POST", "/v1/captures").with_body(json!(arguments.wish));
    let request = request.accepting(JSON_LINES);
    let mut tap = TapConnection::open(arguments.socket.path(), &request)?;
    tap.head.notes.iter().for_each(|note| eprintln!("adit: note: {note}"));
    let mut files = CaptureFiles::open(arguments, core::mem::take(&mut tap.head.ports))?;
    eprintln!("adit: capturing to {}; Ctrl-C ends it", files.name());
    loop {
        match tap.next()? {
            TraceLine::Packet(packet) => {
                files.packet(&packet)?;
                if arguments.size.is_some_and(|size| files.bytes() >= size) {
                    return files.finish(0, "size");
                }
            }
            TraceLine::End { end } => return files.finish(end.skipped, &end.why),
            TraceLine::Head { .. } => {}
        }
    }
}

/// The file that is being written, and the files before it.
struct CaptureFiles<'a> {
    arguments: &'a CaptureArguments,
    ports: Vec<String>,
    writer: CaptureWriter<Box<dyn Write>>,
    /// Numbers in the names of the kept files, the present file last.
    numbers: VecDeque<u32>,
    /// Octets written to the files before the present one.
    former_bytes: u64,
    packets: u64,
}

impl<'a> CaptureFiles<'a> {
    fn open(arguments: &'a CaptureArguments, ports: Vec<String>) -> anyhow::Result<Self> {
        let out: Box<dyn Write> = match arguments.write.as_os_str() == "-" {
            true => Box::new(BufWriter::new(std::io::stdout())),
            false => Box::new(BufWriter::new(create(&first_path(arguments))?)),
        };
        let writer = writer(arguments, out, &ports)?;
        let (numbers, former_bytes, packets) = (VecDeque::from([1]), 0, 0);
        Ok(Self { arguments, ports, writer, numbers, former_bytes, packets })
    }

    fn name(&self) -> String {
        match self.arguments.write.as_os_str() == "-" {
            true => "standard output".to_owned(),
            false => first_path(self.arguments).display().to_string(),
        }
    }

    const fn bytes(&self) -> u64 {
        self.former_bytes + self.writer.bytes()
    }

    /// Writes the frames of a packet.
    fn packet(&mut self, packet: &TracedPacket) -> anyhow::Result<()> {
        if self.arguments.rotate.is_some_and(|size| self.writer.bytes() >= size) {
            self.rotate()?;
        }
        self.packets += 1;
        self.writer.packet(packet).context(WRITE_FAILURE)?;
        // For a reader that follows the file.
        self.writer.flush().context(WRITE_FAILURE)
    }

    /// Ends the file and begins the next one.
    fn rotate(&mut self) -> anyhow::Result<()> {
        self.writer.finish(0).context(WRITE_FAILURE)?;
        self.former_bytes += self.writer.bytes();
        let path = &self.arguments.write;
        let next = self.numbers.back().map_or(1, |last| last.saturating_add(1));
        let file = create(&numbered(path, Some(next)))?;
        self.writer = writer(self.arguments, Box::new(BufWriter::new(file)), &self.ports)?;
        self.numbers.push_back(next);
        while self.arguments.keep.is_some_and(|keep| self.numbers.len() > keep as usize)
            && let Some(old) = self.numbers.pop_front()
        {
            let old = numbered(path, Some(old));
            std::fs::remove_file(&old)
                .with_context(|| format!("cannot remove {}", old.display()))?;
        }
        Ok(())
    }

    fn finish(mut self, skipped: u64, why: &str) -> anyhow::Result<()> {
        self.writer.finish(skipped).context(WRITE_FAILURE)?;
        let why = describe_tap_end(why);
        eprintln!("adit: {} packets captured, {skipped} lost; {why}", self.packets);
        if skipped > 0 {
            eprintln!(
                "adit: more packets came than could be written: take fewer with --sample, or a session with --ue"
            );
        }
        Ok(())
    }
}

/// Returns the path of the first file.
fn first_path(arguments: &CaptureArguments) -> PathBuf {
    numbered(&arguments.write, arguments.rotate.map(|_| 1))
}

fn writer(
    arguments: &CaptureArguments,
    out: Box<dyn Write>,
    ports: &[String],
) -> anyhow::Result<CaptureWriter<Box<dyn Write>>> {
    CaptureWriter::new(out, ports, arguments.wish.interface.as_deref()).context(WRITE_FAILURE)
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

/// Returns the path with `number` before its suffix.
fn numbered(path: &Path, number: Option<u32>) -> PathBuf {
    let Some(number) = number else { return path.to_owned() };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(suffix) => format!("{stem}-{number:05}.{}", suffix.to_string_lossy()),
        None => format!("{stem}-{number:05}"),
    };
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use clap::Parser;

    use super::super::capture_writer::tests::packet;
    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        arguments: CaptureArguments,
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
        let ports = ["access", "core"].map(str::to_owned).to_vec();
        let mut capture = CaptureFiles::open(&arguments, ports).unwrap();
        for n in 0..400 {
            capture.packet(&packet(n)).unwrap();
        }
        let bytes = capture.bytes();
        capture.finish(3, "duration").unwrap();
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
}
