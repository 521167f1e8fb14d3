//! FARs that redirect, seen by a real HTTP client. Spec: TS 29.244 §7.5.2.3, §8.2.20.

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
use adit_lab_process::process::{Program, ProgramOutput};
use adit_lab_process::stop::POLL;

/// A host that nobody has.
const HOST: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 80);
const HTTP: u16 = 80;
const OTHER_PORT: u16 = 8080;
const PORTAL: &str = "http://portal.example/login";
/// What the server says about itself.
const PAGE: &str = "this is the other server";
/// Time for an answer that comes, and after which none comes.
const CLIENT_LIMIT: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_millis(700);
/// A server waits this long for a request.
const REQUEST_LIMIT: Duration = Duration::from_secs(2);

fn to(address_type: RedirectAddressType, address: &str) -> RedirectInformation<'_> {
    let address = address.as_bytes();
    RedirectInformation { address_type, address, other_address: &[], port: None }
}

/// A client gets the URL from port 80 of any host, other ports are dropped. With an address, its
/// connection reaches another server, and works when the answers get the address that it asked.
pub(super) fn redirect(context: &ScenarioContext<'_>) -> Result<String> {
    let url = to(RedirectAddressType::Url, PORTAL);
    let session =
        context.establish_with(&ScenarioRules { redirect: Some(url), ..ScenarioRules::USUAL })?;
    let answer = ask(context, HTTP, CLIENT_LIMIT)?;
    let wanted = format!("302 {PORTAL}");
    ensure!(answer.stdout == wanted, "to a URL: {:?} ({})", answer.stdout, answer.complaint);
    dropped(context)?;

    let (server, host) = (DN.to_string(), HOST.to_string());
    let redirecting = |far, address| {
        let address = to(RedirectAddressType::Ipv4, address);
        let redirect_information = Some(Nullable::Value(address));
        let none = UpdateForwardingParameters::new();
        session.forward(far, UpdateForwardingParameters { redirect_information, ..none })
    };
    redirecting(TO_CORE, &server)?;
    redirecting(TO_ACCESS, &host)?;
    let (answer, clients) = served(context, || ask(context, HTTP, CLIENT_LIMIT))?;
    let wanted = format!("{PAGE}200 ");
    ensure!(answer.stdout == wanted, "to a server: {:?} ({})", answer.stdout, answer.complaint);
    ensure!(clients == [context.ue.ipv4()], "the server was asked by {clients:?}");

    let redirect_information = Some(Nullable::Null);
    let none = UpdateForwardingParameters::new();
    session.forward(TO_ACCESS, UpdateForwardingParameters { redirect_information, ..none })?;
    let (answer, clients) = served(context, || ask(context, HTTP, SILENCE))?;
    ensure!(!answer.success, "answers of another address were taken: {:?}", answer.stdout);
    ensure!(clients.is_empty(), "a server whose answers are foreign was asked by {clients:?}");
    session.end()?;
    Ok(format!("{HOST} answered 302 {PORTAL}, then with the page of {DN}"))
}

/// With a redirection to a URL, only HTTP is answered; adit counts what it drops.
fn dropped(context: &ScenarioContext<'_>) -> Result<()> {
    let count = || -> Result<u64> {
        let document = context.network.adit.admin().show("counters", context.stop)?;
        let drops = AditCounters::read(&document)?.drops;
        Ok(drops.get("redirect_unmatched").copied().unwrap_or(0))
    };
    let before = count()?;
    let answer = ask(context, OTHER_PORT, SILENCE)?;
    ensure!(!answer.success, "port {OTHER_PORT} answered {:?}", answer.stdout);
    let attempts = count()? - before;
    ensure!(attempts > 0, "no segment to port {OTHER_PORT} is counted as redirect_unmatched");
    none("no TCP", &ProbeSockets::open(context, PORT)?.uplink()?)?;
    let datagrams = count()? - before - attempts;
    ensure!(
        datagrams >= DATAGRAMS.into(),
        "{datagrams} of {DATAGRAMS} datagrams are counted as redirect_unmatched"
    );
    Ok(())
}

/// Asks [`HOST`] as the stage's UE. The output is the page, the status and the new location.
fn ask(context: &ScenarioContext<'_>, port: u16, limit: Duration) -> Result<ProgramOutput> {
    let mut command = context.network.topology.ran.command("curl");
    command
        .args(["--silent", "--show-error", "--noproxy", "*", "--interface", &context.ue.device()])
        .args(["--max-time", &limit.as_secs_f64().to_string()])
        .args(["--write-out", "%{http_code} %{redirect_url}"])
        .arg(format!("http://{HOST}:{port}/"));
    Program::start(context.network.dir(), "curl", command, limit + CLIENT_LIMIT)?.wait(context.stop)
}

/// What `work` returns and who asked the server in the data network while it ran.
fn served<T>(
    context: &ScenarioContext<'_>,
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, Vec<Ipv4Addr>)> {
    let listener = context.network.topology.dn.enter(|| {
        TcpListener::bind((DN, HTTP)).with_context(|| format!("listen at {DN}:{HTTP}"))
    })?;
    listener.set_nonblocking(true).context("a listener that does not block")?;
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
        // Looked at first: who came before the end is accepted.
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
        ensure!(len > 0, "the request has no end");
        request.extend_from_slice(part.get(..len).unwrap_or_default());
    }
    let len = PAGE.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n");
    Ok(stream.write_all((head + PAGE).as_bytes())?)
}
