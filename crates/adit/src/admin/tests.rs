use super::client::{WholeDocument, request};
use super::*;

fn about(topic: Topic) -> AdminCommand {
    AdminCommand::Show(AdminQuestion::about(topic))
}

fn asked(path: &Path, topic: Topic) -> anyhow::Result<Value> {
    let mut gathered = WholeDocument::default();
    request(path, &about(topic), &mut gathered)?;
    Ok(Value::Object(gathered.members))
}

fn page(list: &'static str, rows: Vec<Value>, next: Option<u32>) -> AdminAnswer {
    let next = next.map(|from| PageCursor { list: 0, from: PagePosition::Index(from) });
    AdminAnswer::Page(AnswerPage {
        list: Some(list),
        rows: Box::new(|| rows),
        members: Box::new(Map::new),
        next,
    })
}

/// Answers `ports` with one member and `sessions` with three pages of one row each; nothing else.
fn answers(command: &AdminCommand, cursor: PageCursor) -> Option<AdminAnswer> {
    let AdminCommand::Show(question) = command else { return None };
    match (question.topic, cursor.from) {
        (Topic::Ports, _) => {
            let members = Map::from_iter([("n".to_owned(), Value::from(1))]);
            Some(AdminAnswer::Page(AnswerPage {
                list: None,
                rows: Box::new(Vec::new),
                members: Box::new(|| members),
                next: None,
            }))
        }
        (Topic::Sessions, PagePosition::Start) => Some(page("sessions", vec![0.into()], Some(1))),
        (Topic::Sessions, PagePosition::Index(1)) => Some(page("sessions", vec![], Some(2))),
        (Topic::Sessions, PagePosition::Index(2)) => Some(page("sessions", vec![2.into()], None)),
        (Topic::Paths, PagePosition::Start) => Some(page("paths", vec![0.into()], Some(1))),
        _ => None,
    }
}

fn serve(path: &Path) -> AdminServer {
    let server = AdminServer::bind(path).unwrap();
    let serving = server.listener().unwrap();
    std::thread::spawn(move || serving.serve(answers));
    server
}

#[test]
fn line_that_is_no_text_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("admin.sock");
    let _server = serve(&path);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"{\"show\":\"\xff\xfe\"}\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"error\":\"not a request"), "{answer}");
}

#[test]
fn client_that_sends_an_octet_now_and_then_keeps_no_place() {
    let (mut client, server) = UnixStream::pair().unwrap();
    let reader = std::thread::spawn(move || {
        read_line(&server, Instant::now() + Duration::from_millis(300)).is_err()
    });
    while client.write_all(b"x").is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(reader.join().unwrap());
}

#[test]
fn request_and_answer_cross_the_socket_in_pages() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sub/admin.sock");
    let server = serve(&path);
    assert_eq!(asked(&path, Topic::Ports).unwrap(), serde_json::json!({ "n": 1 }));
    let sessions = asked(&path, Topic::Sessions).unwrap();
    assert_eq!(sessions, serde_json::json!({ "sessions": [0, 2] }));
    let refused = asked(&path, Topic::Qos).unwrap_err().to_string();
    assert!(refused.contains("shutting down"), "{refused}");
    let cut = asked(&path, Topic::Paths).unwrap_err().to_string();
    assert!(cut.contains("did not finish"), "{cut}");
    drop(server);
    assert!(!path.exists());
}

#[test]
fn silent_clients_hold_nobody_up_and_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("admin.sock");
    let _server = serve(&path);
    let silent = || UnixStream::connect(&path).unwrap();
    let mut held: Vec<UnixStream> = (1..ADMIN_CLIENTS_MAX).map(|_| silent()).collect();
    assert_eq!(asked(&path, Topic::Ports).unwrap(), serde_json::json!({ "n": 1 }));
    let refused = loop {
        // A served client releases its place a little later.
        match asked(&path, Topic::Ports) {
            Ok(_) => held.push(silent()),
            Err(refused) => break refused.to_string(),
        }
    };
    assert!(refused.contains("clients already"), "{refused}");
}

#[test]
fn path_that_is_no_dead_socket_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let refusal = |name: &str| AdminServer::bind(&path(name)).unwrap_err().to_string();
    std::fs::write(path("file"), "precious").unwrap();
    assert!(refusal("file").contains("a regular file"), "{}", refusal("file"));
    assert_eq!(std::fs::read_to_string(path("file")).unwrap(), "precious");
    std::fs::create_dir(path("dir")).unwrap();
    assert!(refusal("dir").contains("a directory"), "{}", refusal("dir"));
    std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
    assert!(refusal("link").contains("a symbolic link"), "{}", refusal("link"));
    let live = UnixListener::bind(path("live")).unwrap();
    assert!(refusal("live").contains("another process"), "{}", refusal("live"));
    assert!(path("live").exists());
    drop(live);
    drop(AdminServer::bind(&path("live")).unwrap());
    let datagrams = std::os::unix::net::UnixDatagram::bind(path("datagrams")).unwrap();
    assert!(refusal("datagrams").contains("another process"), "{}", refusal("datagrams"));
    assert!(path("datagrams").exists());
    drop(datagrams);
}

/// As a process does that was killed, for as long as the kernel takes its memory.
#[test]
fn socket_of_a_process_that_is_dying_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("admin.sock");
    let dying = UnixListener::bind(&path).unwrap();
    let end = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(dying);
    });
    drop(AdminServer::bind(&path).unwrap());
    end.join().unwrap();
}

#[test]
fn file_that_took_the_place_of_the_socket_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("admin.sock");
    let server = AdminServer::bind(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    drop(server);
    assert!(path.exists());
}

#[test]
fn bad_request_line_is_answered_with_an_error() {
    for line in [
        "",
        "{\"show\":\"all\"}",
        "{\"show\":\"ports\",\"x\":1}",
        "{\"show\":\"ports\",\"session\":\"1\"}",
        "{}",
        "{\"act\":\"stop\"}",
        "{\"act\":\"takeover\",\"show\":\"ports\"}",
        "{\"act\":\"takeover\",\"session\":\"1\"}",
        "{\"act\":\"takeover\",\"of\":\"1\"}",
        "{\"act\":\"end_session\"}",
        "{\"act\":\"drain\",\"of\":\"maybe\"}",
        "{\"show\":\"ports\",\"of\":\"1\"}",
        "{\"show\":\"ports\",\"limit\":1}",
        "{\"show\":\"sessions\",\"limit\":0}",
        "{\"show\":\"ports\",\"filter\":{\"ue\":\"10.60.0.1\"}}",
        "{\"show\":\"sessions\",\"filter\":{\"ue\":\"here\"}}",
        "{\"show\":\"sessions\",\"filter\":{\"imsi\":\"1\"}}",
    ] {
        assert!(command_of(line.as_bytes()).is_err(), "{line}");
    }
    let of = |topic, session: Option<&str>| {
        let session = session.map(str::to_owned);
        Ok(AdminCommand::Show(AdminQuestion { session, ..AdminQuestion::about(topic) }))
    };
    assert_eq!(command_of(b"{\"show\":\"ports\"}\n"), of(Topic::Ports, None));
    let one = command_of(b"{\"show\":\"qos\",\"session\":\"10.60.0.1\"}");
    assert_eq!(one, of(Topic::Qos, Some("10.60.0.1")));
    let mut few = AdminQuestion::about(Topic::Sessions);
    few.filter.dnn = Some("internet".to_owned());
    few.rows_max = Some(2);
    for command in [
        AdminCommand::Show(few),
        AdminCommand::Act(AdminAct::TakeOver),
        AdminCommand::Act(AdminAct::EndSession("0x1".to_owned())),
        AdminCommand::Act(AdminAct::ReleaseAssociation("smf.example".to_owned())),
        AdminCommand::Act(AdminAct::EndAssociation("smf.example".to_owned())),
        AdminCommand::Act(AdminAct::Drain(true)),
        AdminCommand::Act(AdminAct::Drain(false)),
        AdminCommand::Act(AdminAct::DrainWorker("1".to_owned())),
        AdminCommand::Act(AdminAct::ResumeWorker("1".to_owned())),
        AdminCommand::Act(AdminAct::SetLog("debug".to_owned())),
    ] {
        let line = serde_json::to_string(&command.request()).unwrap();
        assert_eq!(command_of(line.as_bytes()), Ok(command), "{line}");
    }
}

#[test]
fn limit_ends_the_document_at_its_row() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("admin.sock");
    let _server = serve(&path);
    let mut gathered = WholeDocument::default();
    let question = AdminQuestion { rows_max: Some(1), ..AdminQuestion::about(Topic::Sessions) };
    request(&path, &AdminCommand::Show(question), &mut gathered).unwrap();
    assert_eq!(gathered.members["sessions"], serde_json::json!([0]));
}
