//! The store: a `redis-server` of this command, another server, or a server of adit-lab itself.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use adit_transport::resp::{RespCommand, RespError, RespLimits, RespServer, RespValue};
use adit_transport::{StreamId, Transport};
use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::link::{STORE_PORT, StoreNetwork};
use super::load::{LoadControl, RunClock};
use adit_lab_process::process::{Process, is_installed};
use adit_lab_process::scratch::Scratch;
use adit_lab_process::stop::{Stop, environment};

/// Maximum wait for the start of `redis-server`.
const START_MAX: Duration = Duration::from_secs(10);
/// Iterations of the loop between two checks for new clients.
const TURNS_PER_ACCEPT: u32 = 64;
/// Octets of unsent replies to a client above which the own server reads no more of its requests.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Maximum number of octets that the own server stores.
const STORED_BYTES_MAX: usize = 256 << 20;

/// A running `redis-server`. Fields drop in order.
#[derive(Debug)]
pub(super) struct RedisServer {
    process: Process,
    scratch: Scratch,
    /// Version of the server, as it reports.
    pub version: String,
}

impl RedisServer {
    /// Starts a server without persistence in a folder of its own, in the server's namespace and on
    /// `core`.
    ///
    /// # Errors
    /// redis-server is not installed, or does not start.
    pub(super) fn start(network: &StoreNetwork, core: u16, stop: &Stop) -> Result<Self> {
        const PROGRAM: &str = "redis-server";
        if !is_installed(PROGRAM) {
            return Err(environment(
                "redis-server is missing; install it (scripts/install.sh lab, or the package \
                 redis-server), or name a server with --server HOST:PORT",
            ));
        }
        let scratch = Scratch::create("redis")?;
        let address = network.server_address();
        let mut command = network.server().command(PROGRAM);
        command.args(["--bind", &address.to_string(), "--port", &STORE_PORT.to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--protected-mode", "no"]);
        command.args(["--daemonize", "no", "--dir"]).arg(scratch.path());
        let log = scratch.path().join("redis.log");
        let process = on_one_core(core, || Process::start(PROGRAM, command, &log, &log))?;
        let mut server = Self { process, scratch, version: String::new() };
        let end = Instant::now() + START_MAX;
        while !server.log().contains("Ready to accept connections") {
            stop.sleep(Duration::from_millis(10))?;
            let ended = server.process.poll()?.is_some();
            if ended || Instant::now() >= end {
                bail!("redis-server did not start:\n{}", server.log());
            }
        }
        let log = server.log();
        let version = log.split("Redis version=").nth(1).and_then(|text| text.split(',').next());
        server.version = format!("redis-server {}", version.unwrap_or("of unknown version"));
        Ok(server)
    }

    /// Returns the process identifier.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// # Errors
    /// The server has ended.
    pub(super) fn check_running(&mut self) -> Result<()> {
        if let Some(status) = self.process.poll()? {
            bail!("redis-server ended with {status}:\n{}", self.log());
        }
        Ok(())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.path().join("redis.log")).unwrap_or_default()
    }
}

/// Runs `work`, and the processes that it starts, on `core`.
fn on_one_core<T>(core: u16, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let own = sched_getaffinity(None).context("read the affinity")?;
    let mut set = CpuSet::new();
    set.set(usize::from(core));
    sched_setaffinity(None, &set)
        .map_err(|error| environment(format!("core {core} cannot be used: {error}")))?;
    let result = work();
    sched_setaffinity(None, &own).context("restore the affinity")?;
    result
}

/// A store in memory: SET, GET, DEL and PING.
#[derive(Debug, Default)]
pub(super) struct MapStore {
    values: HashMap<Box<[u8]>, Vec<u8>>,
    stored_bytes: usize,
}

impl MapStore {
    /// Runs a command and passes its reply to `reply`.
    fn execute(&mut self, command: RespCommand<'_>, reply: &mut impl FnMut(&RespValue<'_>)) {
        let mut words = command.words();
        let name = words.next().unwrap_or_default();
        let arguments = (words.next(), words.next(), words.next());
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
        match arguments {
            (Some(key), Some(value), None) if is("SET") => reply(&self.set(key, value)),
            (Some(key), None, _) if is("GET") => match self.values.get(key) {
                Some(value) => reply(&RespValue::Bulk(value)),
                None => reply(&RespValue::Null),
            },
            (Some(key), None, _) if is("DEL") => {
                let removed = self.values.remove(key);
                self.stored_bytes -= removed.as_ref().map_or(0, |value| key.len() + value.len());
                reply(&RespValue::Integer(i64::from(removed.is_some())));
            }
            (None, ..) if is("PING") => reply(&RespValue::Simple(b"PONG")),
            _ => reply(&RespValue::Error(b"ERR unknown command or wrong number of arguments")),
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> RespValue<'static> {
        let before = self.values.get(key).map_or(0, |old| key.len() + old.len());
        let after = self.stored_bytes - before + key.len() + value.len();
        if after > STORED_BYTES_MAX {
            return RespValue::Error(b"OOM the store is full");
        }
        self.stored_bytes = after;
        match self.values.get_mut(key) {
            Some(stored) => {
                stored.clear();
                stored.extend_from_slice(value);
            }
            None => {
                self.values.insert(key.into(), value.to_vec());
            }
        }
        RespValue::Simple(b"OK")
    }
}

/// One client of the own server.
struct OwnClient {
    stream: StreamId,
    resp: RespServer,
    /// True if the client violated the protocol: the connection ends after the last reply.
    is_ending: bool,
}

/// Serves a store in memory at `local` until `done`. Sleeps while the clients of the same process
/// rest.
///
/// # Errors
/// The transport cannot listen at the address.
pub(super) fn serve<T: Transport>(
    transport: &mut T,
    clock: RunClock,
    local: SocketAddr,
    control: &LoadControl,
    done: &AtomicBool,
) -> Result<()> {
    transport.listen(local).with_context(|| format!("listen at {local}"))?;
    let mut store = MapStore::default();
    let mut clients: Vec<OwnClient> = Vec::new();
    let mut turns = 0u32;
    while !done.load(Ordering::Relaxed) {
        transport.poll(clock.now());
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(TURNS_PER_ACCEPT) {
            while let Some(stream) = transport.accept() {
                let resp = RespServer::new(RespLimits::default());
                clients.push(OwnClient { stream, resp, is_ending: false });
            }
            control.rest_with_clients();
        }
        clients.retain_mut(|client| {
            let stays = serve_client(transport, client, &mut store);
            if !stays {
                transport.close(client.stream);
            }
            stays
        });
    }
    Ok(())
}

/// Reads commands that have arrived, runs them and sends replies. False once the connection is
/// over.
fn serve_client<T: Transport>(
    transport: &mut T,
    client: &mut OwnClient,
    store: &mut MapStore,
) -> bool {
    let RespServer { requests, replies } = &mut client.resp;
    while replies.output().len() < REPLY_BYTES_MAX && !client.is_ending {
        match requests.next_command() {
            Ok(Some(command)) => store.execute(command, &mut |value| replies.reply(value)),
            Ok(None) => match transport.receive(client.stream, requests.input_room()) {
                Ok(0) => break,
                Ok(len) => requests.input_arrived(len),
                Err(_) => client.is_ending = true,
            },
            Err(error) => {
                replies.reply(&RespValue::Error(protocol_error(error).as_bytes()));
                client.is_ending = true;
            }
        }
    }
    while !replies.output().is_empty() {
        match transport.send(client.stream, replies.output()) {
            Ok(0) => return true,
            Ok(len) => replies.output_sent(len),
            Err(_) => return false,
        }
    }
    !client.is_ending
}

fn protocol_error(error: RespError) -> String {
    format!("ERR Protocol error: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(store: &mut MapStore, request: &[u8]) -> Vec<u8> {
        let mut server = RespServer::new(RespLimits::default());
        server.requests.input_room()[..request.len()].copy_from_slice(request);
        server.requests.input_arrived(request.len());
        while let Ok(Some(command)) = server.requests.next_command() {
            store.execute(command, &mut |value| server.replies.reply(value));
        }
        server.replies.output().to_vec()
    }

    #[test]
    fn store_keeps_what_it_was_given() {
        let mut store = MapStore::default();
        let request = b"*1\r\n$4\r\nping\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nv1\r\n\
            *2\r\n$3\r\nGET\r\n$1\r\nk\r\n*2\r\n$3\r\nGET\r\n$1\r\nx\r\n*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n\
            *2\r\n$3\r\nDEL\r\n$1\r\nk\r\n*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n";
        let wanted =
            b"+PONG\r\n+OK\r\n$2\r\nv1\r\n$-1\r\n:1\r\n:0\r\n-ERR unknown command or wrong number \
            of arguments\r\n";
        let answer = answers(&mut store, request);
        assert_eq!(String::from_utf8_lossy(&answer), String::from_utf8_lossy(wanted));
        assert_eq!(store.stored_bytes, 0);
    }

    #[test]
    fn store_is_full_by_name() {
        let mut store = MapStore { stored_bytes: STORED_BYTES_MAX - 3, ..MapStore::default() };
        let answer = answers(&mut store, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\nabc\r\n");
        assert_eq!(answer, b"-OOM the store is full\r\n");
        assert!(store.values.is_empty());
    }
}
