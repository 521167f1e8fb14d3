//! FARs that redirect, tested with a real HTTP client. Spec: TS 29.244 §7.5.2.3, §8.2.20.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use adit_pfcp::grouped::UpdateForwardingParameters;
use adit_pfcp::ie::{Nullable, RedirectAddressType, RedirectInformation};
use anyhow::{Context, Result, anyhow, bail, ensure};

use super::PORT;
use crate::demo::report::AditCounters;
use crate::scenario::expect::none;
use crate::scenario::probe::{DATAGRAMS, ProbeSockets};
use crate::scenario::session::{ScenarioContext, ScenarioRules, TO_ACCESS, TO_CORE};
use crate::topology::DN;
use adit_lab_process::process::{ProgramOutput, TimedProgram};
use adit_lab_process::stop::POLL;

/// An address that no host has.
const HOST: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 80);
const HTTP: u16 = 80;
const OTHER_PORT: u16 = 8080;
const PORTAL: &str = "http://portal.example/login";
/// The page of the server in the data network.
const PAGE: &str = "this is the other server";
/// Timeout of the HTTP client.
const CLIENT_LIMIT: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_millis(700);
/// Timeout of the HTTP server for a request.
const REQUEST_LIMIT: Duration = Duration::from_secs(2);

fn redirect_to(address_type: RedirectAddressType, address: &str) -> RedirectInformation<'_> {
    let address = address.as_bytes();
    RedirectInformation { address_type, address, other_address: &[], port: None }
}

/// Redirects uplink packets. To a URL: a client gets the URL from port 80 of any host, and adit
/// drops packets to other ports. To an address: the client's connection reaches another server, and
/// succeeds if a downlink rule restores the address that the client used as the source of replies.
pub(super) fn redirect(context: &ScenarioContext<'_>) -> Result<String> {
    let url = redirect_to(RedirectAddressType::Url, PORTAL);
    let session =
        context.establish_with(&ScenarioRules { redirect: Some(url), ..ScenarioRules::USUAL })?;
    let answer = request_page(context, HTTP, CLIENT_LIMIT)?;
    let wanted = format!("302 {PORTAL}");
    ensure!(answer.stdout == wanted, "to a URL: {:?} ({})", answer.stdout, answer.error_line);
    dropped(context)?;

    let (server, host) = (DN.to_string(), HOST.to_string());
    let redirecting = |far, address| {
        let address = redirect_to(RedirectAddressType::Ipv4, address);
        let redirect_information = Some(Nullable::Value(address));
        let none = UpdateForwardingParameters::new();
        session.forward(far, UpdateForwardingParameters { redirect_information, ..none })
    };
    redirecting(TO_CORE, &server)?;
    redirecting(TO_ACCESS, &host)?;
    let (answer, clients) = with_server(context, || request_page(context, HTTP, CLIENT_LIMIT))?;
    let wanted = format!("{PAGE}200 ");
    ensure!(answer.stdout == wanted, "to a server: {:?} ({})", answer.stdout, answer.error_line);
    ensure!(clients == [context.ue.ipv4()], "the server had requests from {clients:?}");

    let redirect_information = Some(Nullable::Null);
    let none = UpdateForwardingParameters::new();
    session.forward(TO_ACCESS, UpdateForwardingParameters { redirect_information, ..none })?;
    let (answer, clients) = with_server(context, || request_page(context, HTTP, SILENCE))?;
    ensure!(
        !answer.success,
        "the client accepted answers from another address: {:?}",
        answer.stdout
    );
    ensure!(clients.is_empty(), "a server with a foreign address had requests from {clients:?}");
    session.end()?;
    Ok(format!("{HOST} answered 302 {PORTAL}, then with the page of {DN}"))
}

/// Checks that with a redirection to a URL adit answers only HTTP, and drops and counts other
/// packets.
fn dropped(context: &ScenarioContext<'_>) -> Result<()> {
    let count = || -> Result<u64> {
        let document = context.network.adit.admin().show("counters", context.stop)?;
        let drops = AditCounters::read(&document)?.drops;
        Ok(drops.get("redirect_unmatched").copied().unwrap_or(0))
    };
    let before = count()?;
    let answer = request_page(context, OTHER_PORT, SILENCE)?;
    ensure!(!answer.success, "port {OTHER_PORT} answered {:?}", answer.stdout);
    let attempts = count()? - before;
    ensure!(attempts > 0, "adit counts no segment to port {OTHER_PORT} as redirect_unmatched");
    none("no TCP", &ProbeSockets::open(context, PORT)?.uplink()?)?;
    let datagrams = count()? - before - attempts;
    ensure!(
        datagrams >= DATAGRAMS.into(),
        "adit counts {datagrams} of {DATAGRAMS} datagrams as redirect_unmatched"
    );
    Ok(())
}

/// Requests a page from [`HOST`] as the scenario's UE. Returns curl's output: the page, the status
/// and the redirect URL.
fn request_page(
    context: &ScenarioContext<'_>,
    port: u16,
    limit: Duration,
) -> Result<ProgramOutput> {
    let mut command = context.network.topology.ran.command("curl");
    command
        .args(["--silent", "--show-error", "--noproxy", "*", "--interface", &context.ue.device()])
        .args(["--max-time", &limit.as_secs_f64().to_string()])
        .args(["--write-out", "%{http_code} %{redirect_url}"])
        .arg(format!("http://{HOST}:{port}/"));
    TimedProgram::start(context.network.dir(), "curl", command, limit + CLIENT_LIMIT)?
        .wait(context.stop)
}

/// Runs `work` with an HTTP server in the data network. Returns its result, and the addresses of
/// the clients.
fn with_server<T>(
    context: &ScenarioContext<'_>,
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, Vec<Ipv4Addr>)> {
    let listener = context.network.topology.dn.enter(|| {
        TcpListener::bind((DN, HTTP)).with_context(|| format!("listen at {DN}:{HTTP}"))
    })?;
    listener.set_nonblocking(true).context("set the listener to nonblocking")?;
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let server = scope.spawn(|| serve(&listener, &ended));
        let done = work();
        ended.store(true, Ordering::Release);
        let clients = server.join().map_err(|_| anyhow!("the server panicked"))?;
        Ok((done?, clients?))
    })
}

fn serve(listener: &TcpListener, ended: &AtomicBool) -> Result<Vec<Ipv4Addr>> {
    let mut clients = Vec::new();
    loop {
        // Reads the flag before it accepts, so that clients from before the end are served.
        let is_last = ended.load(Ordering::Acquire);
        match listener.accept() {
            Ok((stream, SocketAddr::V4(client))) => {
                clients.push(*client.ip());
                respond(stream).with_context(|| format!("answer {client}"))?;
            }
            Ok((_, SocketAddr::V6(client))) => bail!("{client} at an IPv4 address"),
            Err(_) if is_last => return Ok(clients),
            Err(_) => thread::sleep(POLL),
        }
    }
}

/// Reads one request and answers it.
fn respond(mut stream: TcpStream) -> Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(REQUEST_LIMIT))?;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        let len = stream.read(&mut part)?;
        ensure!(len > 0, "the request is incomplete");
        request.extend_from_slice(part.get(..len).unwrap_or_default());
    }
    let len = PAGE.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n");
    Ok(stream.write_all((head + PAGE).as_bytes())?)
}
