#[path = "../../../n4/tests/n4/smf.rs"]
mod smf;

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use adit_n4::{FaultPoint, Node, NodeConfig};
use adit_pfcp::Message;
use adit_pfcp::grouped::CreateUrr;
use adit_pfcp::ie::{MeasurementMethod, ReportingTriggers};
use adit_session::StoreConfig;
use adit_tables::{Publisher, TablesConfig, TablesReader};
use adit_types::limits::SESSIONS_PER_PAGE_MAX;
use adit_types::{MacAddr, Role, Roles, Seid, UrrId};
use serde_json::{Map, Value};
use signal_hook::iterator::Signals;

use super::*;
use crate::admin::{
    AdminAct, AdminAnswer, AdminCommand, AdminQuestion, PageCursor, SessionFilterText,
};
use crate::cli::Topic;
use crate::clock::ProcessClock;
use crate::config::{Config, PollMode, ThreadSettings};
use crate::control_parts::{ConfigFiles, ServingRole};
use crate::ports::kernel_twins::TwinStates;
use crate::record_store::serving_lease::ServingLease;
use crate::threads::lifecycle::Lifecycle;
use crate::threads::liveness::Liveness;
use crate::threads::packet_path::spawn;
use crate::{run, wiring};
use adit_kernel::n4_socket::N4Socket;
use smf::SessionScript;

const EXAMPLE: &str = include_str!("../../../../adit.example.toml");

fn worker_on(core: u16) -> ThreadSettings {
    ThreadSettings { role: Role::Worker, core, poll: PollMode::Busy }
}

/// An associated PFCP node, the publisher of its rules, and the readers of its workers.
struct Plant {
    node: Node,
    publisher: Publisher,
    readers: Vec<TablesReader>,
    sessions: Vec<Seid>,
}

impl Plant {
    /// Makes a node with the tables of the example configuration, and associates it.
    fn new(sessions_max: usize, workers: usize) -> Self {
        let known = smf::config();
        let store = StoreConfig { sessions_max, ..known.store };
        let node = Node::new(NodeConfig { store, ..known });
        let given = format!("\nsessions_max = {sessions_max}\n");
        let config = Config::parse(&EXAMPLE.replace("\nsessions_max = 100000\n", &given)).unwrap();
        let macs = vec![MacAddr([2, 0, 0, 0, 0, 1]); config.ports.len()];
        let tables =
            wiring::tables(&config, &macs, u8::try_from(node.store().slot_bits()).unwrap(), 1);
        let (publisher, readers) = adit_tables::build(TablesConfig { workers, ..tables }).unwrap();
        let mut plant = Self { node, publisher, readers, sessions: Vec::new() };
        plant.ask(&smf::setup(1, [192, 0, 2, 10].into(), smf::SMF_STARTED));
        plant
    }

    /// Makes a plant with `count` sessions established.
    fn with_sessions(sessions_max: usize, count: u32) -> Self {
        let mut plant = Self::new(sessions_max, 0);
        for number in 0..count {
            let answer = plant.ask(&establishment(number));
            let Message::SessionEstablishmentResponse(body) = smf::decode(&answer) else {
                panic!()
            };
            plant.sessions.push(body.up_f_seid.unwrap().seid);
        }
        plant
    }

    /// Sends a request to the node, publishes its changes, and returns the answer.
    fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        let Self { node, publisher, .. } = self;
        node.handle_datagram(Nanos(1), smf::smf(10), request);
        node.apply_changes(publisher, |_| {});
        node.conclude_changes(Nanos(1), publisher, usize::MAX);
        node.poll_transmit().unwrap().bytes
    }
}

/// Establishes session `number` with a URR.
fn establishment(number: u32) -> Vec<u8> {
    let script = SessionScript::of_many(u64::from(number) + 1, number);
    smf::establish_with(2 + number, &script, |body| {
        let triggers = ReportingTriggers::default();
        let urr = CreateUrr::new(UrrId(1), MeasurementMethod::VOLUM, triggers);
        body.create_urrs = smf::list([urr]).into();
    })
}

/// Makes a control thread without ports, over the sessions of `plant`.
fn control(plant: Plant) -> ControlThread {
    let Plant { node, publisher, readers, .. } = plant;
    let socket = N4Socket::bind("127.0.0.1:0".parse().unwrap(), 1 << 20).unwrap();
    let threads = (0..).take(readers.len()).map(worker_on).collect();
    let ends = adit_datapath::connect(Roles::run_to_completion(readers.len()), 8);
    let owners = ends[0].owner_changes();
    ControlThread::new(ControlParts {
        config: Arc::new(Config::parse(EXAMPLE).unwrap()),
        files: ConfigFiles { config: "no-file.toml".into(), api: None },
        started: std::time::Instant::now(),
        clock: ProcessClock::new(1_000_000_000),
        node,
        publisher,
        socket,
        peer_names: None,
        store: None,
        role: ServingRole::Active,
        nrf: None,
        kernel_routes: None,
        announcements: None,
        addresses: None,
        twins: TwinStates::default(),
        keeps_at_stop: false,
        events: Vec::new(),
        commands: Vec::new(),
        owners,
        taps: crate::tap::TapHub::new(Vec::new(), Default::default()),
        bells: Vec::new(),
        model: "run-to-completion",
        scheduler: None,
        threads,
        nodes: Default::default(),
        loads: Vec::new(),
        frequencies: None,
        names: Vec::new(),
        ports: Vec::new(),
        burst_pkts: 32,
        pool: None,
        lease: ServingLease::unlimited(),
        liveness: Liveness::default(),
    })
}

/// Returns the rows of the page at `cursor`, the members that the page adds to the document, and
/// the cursor of the next page.
fn page(
    control: &mut ControlThread,
    question: &AdminQuestion,
    cursor: PageCursor,
) -> (Vec<Value>, Map<String, Value>, Option<PageCursor>) {
    let (queries, questions) = mpsc::channel();
    let (answer, result) = mpsc::channel();
    let command = AdminCommand::Show(question.clone());
    let answer = Box::new(move |answered| answer.send(answered).unwrap());
    queries.send(AdminQuery { command, cursor, answer }).unwrap();
    control.turn(&questions);
    match result.try_recv().unwrap() {
        AdminAnswer::Page(page) => ((page.rows)(), (page.members)(), page.next),
        AdminAnswer::Refused(what)
        | AdminAnswer::RefusedKeys(what, _)
        | AdminAnswer::Unknown(what) => panic!("{what}"),
        AdminAnswer::Stream(_) => panic!("a document was asked for"),
    }
}

fn seids(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| row["up_seid"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn sessions_are_shown_in_pages_that_those_that_end_between_do_not_disturb() {
    let plant = Plant::with_sessions(1100, 1000);
    let known = plant.sessions.clone();
    let mut control = control(plant);
    let question = AdminQuestion::about(Topic::Sessions);
    let (first, _, next) = page(&mut control, &question, PageCursor::default());
    assert_eq!(first.len(), SESSIONS_PER_PAGE_MAX);
    assert!(first.iter().all(|row| row["urrs"][0]["measures_volume"] == true));
    let mut told = seids(&first);
    // The last session of the first page, and the first session of the second page.
    for gone in &known[SESSIONS_PER_PAGE_MAX - 1..=SESSIONS_PER_PAGE_MAX] {
        let request = smf::delete(0xf_0000, *gone);
        control.parts.node.handle_datagram(Nanos::from_secs(9), smf::smf(10), &request);
        assert!(control.parts.node.store().session(*gone).is_none());
    }
    let mut next = next;
    while let Some(cursor) = next {
        let (rows, members, behind) = page(&mut control, &question, cursor);
        assert!(rows.len() <= SESSIONS_PER_PAGE_MAX && members.is_empty());
        told.extend(seids(&rows));
        next = behind;
    }
    let mut expected: Vec<_> = known.iter().map(ToString::to_string).collect();
    expected.remove(SESSIONS_PER_PAGE_MAX);
    assert_eq!(told, expected, "all but the one that ended before its page");
}

/// Lists the keys of a JSON object, in their order.
fn keys(value: &Value) -> String {
    let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.join(" ")
}

#[test]
fn documents_have_the_keys_that_operators_know() {
    let mut control = control(Plant::with_sessions(10, 1));
    let mut ask = |topic| {
        let question = AdminQuestion::about(topic);
        page(&mut control, &question, PageCursor::default())
    };
    let (rows, ..) = ask(Topic::Sessions);
    let expected = "bars cp_node cp_seid downlink_bytes downlink_pkts fars inactivity_timer_s \
                    information pdrs qers teids ue up_seid uplink_bytes uplink_pkts urrs";
    assert_eq!(keys(&rows[0]), expected);
    let expected = "active application far filters flow_descriptions framed_routes id \
                    interface_type network_instance precedence predefined_rules qers qfis \
                    sdf_filters source_interface teid traffic_endpoints urrs";
    assert_eq!(keys(&rows[0]["pdrs"][0]), expected);
    let expected = "action apply_action bar destination_interface forwarding_policy id \
                    interface_type linked_traffic_endpoint network_instance redirect \
                    transport_level_marking tunnel";
    assert_eq!(keys(&rows[0]["fars"][0]), expected);
    let expected = "downlink_bytes downlink_pkts id measures_duration measures_volume \
                    quota_exhausted uplink_bytes uplink_pkts";
    assert_eq!(keys(&rows[0]["urrs"][0]), expected);
    let (_, members, _) = ask(Topic::Associations);
    let expected = "nf_instance node_id peer recovery_time_stamp sessions state";
    assert_eq!(keys(&members["associations"][0]), expected);
    assert_eq!(members["associations"][0]["sessions"], 1);
    let (_, members, _) = ask(Topic::Counters);
    for group in ["control", "drops", "interfaces", "n4", "punts", "shaping_delays", "workers"] {
        assert!(members[group].is_object(), "{group}");
    }
    assert_eq!(members["identity_holds"], true);
    assert_eq!((&members["transmitted_pkts"], &members["received_pkts"]), (&0.into(), &0.into()));
    assert_eq!(members["n4"]["sessions_established"], 1);
}

#[test]
fn rates_of_one_session_are_found_by_its_seid_or_address_and_by_nothing_else() {
    let plant = Plant::with_sessions(1100, 600);
    let wanted = plant.sessions[555];
    let mut control = control(plant);
    let lists = |control: &mut ControlThread, session: Option<&str>| {
        let question = AdminQuestion {
            session: session.map(str::to_owned),
            ..AdminQuestion::about(Topic::Qos)
        };
        let (mut count, mut next) = (0, Some(PageCursor::default()));
        while let Some(cursor) = next {
            let (_, members, behind) = page(control, &question, cursor);
            assert_eq!(members.contains_key("shared"), behind.is_none());
            (count, next) = (count + 1, behind);
        }
        count
    };
    assert_eq!(lists(&mut control, None), 6, "two lists of three pages each");
    let seid = wanted.to_string();
    assert_eq!(lists(&mut control, Some(&seid)), 3, "the search and two lists");
    assert_eq!(lists(&mut control, Some("10.45.2.43")), 3);
    let unknown =
        AdminQuestion { session: Some("10.99.9.9".to_owned()), ..AdminQuestion::about(Topic::Qos) };
    let mut cursor = PageCursor::default();
    let refused = loop {
        match snapshot::answer(&control.view(), &unknown, cursor) {
            AdminAnswer::Page(page) => cursor = page.next.unwrap(),
            AdminAnswer::Refused(what)
            | AdminAnswer::RefusedKeys(what, _)
            | AdminAnswer::Unknown(what) => break what,
            AdminAnswer::Stream(_) => unreachable!("a document was asked for"),
        }
    };
    assert!(refused.contains("10.99.9.9"), "{refused}");
}

#[test]
fn sessions_are_found_by_what_they_have_in_bounded_pages() {
    let plant = Plant::with_sessions(1100, 1000);
    let wanted = plant.sessions[700];
    let mut control = control(plant);
    let mut find = |filter: SessionFilterText, rows_max: Option<usize>| {
        let question = AdminQuestion { filter, rows_max, ..AdminQuestion::about(Topic::Sessions) };
        let (mut found, mut pages, mut next) = (Vec::new(), 0, Some(PageCursor::default()));
        while let Some(cursor) = next {
            let (rows, _, behind) = page(&mut control, &question, cursor);
            assert!(rows.len() <= rows_max.unwrap_or(SESSIONS_PER_PAGE_MAX));
            found.extend(rows);
            (pages, next) = (pages + 1, behind);
        }
        (found, pages)
    };
    let by_seid = SessionFilterText { seid: Some(wanted.to_string()), ..Default::default() };
    let (found, pages) = find(by_seid, None);
    assert_eq!((seids(&found), pages), (vec![wanted.to_string()], 1));
    let text = |member: &str| found[0][member][0].as_str().map(str::to_owned);
    let by_ue = SessionFilterText { ue: text("ue"), ..Default::default() };
    assert_eq!(
        (seids(&find(by_ue.clone(), None).0), find(by_ue, None).1),
        (vec![wanted.to_string()], 1)
    );
    let by_teid = SessionFilterText { teid: text("teids"), ..Default::default() };
    assert_eq!(seids(&find(by_teid, None).0), [wanted.to_string()]);
    let none = SessionFilterText { dnn: Some("elsewhere".to_owned()), ..Default::default() };
    assert_eq!(find(none, None), (Vec::new(), 4), "all places, and nothing");
    let (all, pages) = find(SessionFilterText::default(), Some(300));
    assert_eq!((all.len(), pages), (1000, 4));
    assert_eq!(find(SessionFilterText::default(), Some(100)).0.len(), 1000);
}

/// Carries out an act, and returns the answer as text.
fn told(control: &mut ControlThread, act: AdminAct) -> String {
    let (answer, answered) = mpsc::channel();
    control.act(Nanos(0), act, Box::new(move |answered| answer.send(answered).unwrap()));
    control.continue_reload(Nanos(0));
    match answered.try_recv().unwrap() {
        AdminAnswer::Page(page) => (page.members)()["outcome"].as_str().unwrap().to_owned(),
        AdminAnswer::Refused(what) | AdminAnswer::RefusedKeys(what, _) => {
            format!("refused: {what}")
        }
        AdminAnswer::Unknown(what) => format!("unknown: {what}"),
        AdminAnswer::Stream(_) => unreachable!("an act has no stream"),
    }
}

/// Writes the example configuration, with these words replaced, to the file that a reload reads.
fn change_file(control: &mut ControlThread, path: &std::path::Path, changes: &[(&str, &str)]) {
    let mut text = EXAMPLE.to_owned();
    for (old, new) in changes {
        assert!(text.contains(old), "{old}");
        text = text.replace(old, new);
    }
    std::fs::write(path, text).unwrap();
    control.parts.files.config = path.to_owned();
}

#[test]
fn reload_changes_all_or_nothing() {
    let mut control = control(Plant::new(10, 0));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("adit.toml");
    change_file(&mut control, &path, &[]);
    assert_eq!(told(&mut control, AdminAct::Reload), "nothing changed");
    let changes = [("t1_ms = 3000", "t1_ms = 1500"), ("\"10.0.4.0/24\"", "\"10.0.5.0/24\"")];
    let [t1, allow] = changes;
    change_file(&mut control, &path, &[t1, allow, ("workers = [1]", "workers = [2]")]);
    let before = control.parts.node.config().clone();
    let refused = told(&mut control, AdminAct::Reload);
    assert!(
        refused.contains("nothing was changed") && refused.contains("datapath.workers"),
        "{refused}"
    );
    assert_eq!(control.parts.node.config(), &before);
    change_file(&mut control, &path, &[t1, allow]);
    assert_eq!(told(&mut control, AdminAct::Reload), "2 changes");
    assert_eq!(control.parts.node.config().t1, Nanos::from_millis(1500));
    assert_ne!(control.parts.node.config().policy, before.policy);
    assert_eq!(told(&mut control, AdminAct::Reload), "nothing changed");
    std::fs::write(&path, "[n4\n").unwrap();
    let refused = told(&mut control, AdminAct::Reload);
    assert!(refused.contains("line 1: not TOML"), "{refused}");
}

#[test]
fn acts_change_the_node_or_are_refused_with_a_reason() {
    let plant = Plant::with_sessions(10, 2);
    let gone = plant.sessions[0].to_string();
    let mut control = control(plant);
    let end = AdminAct::EndSession(gone);
    assert_eq!(told(&mut control, end.clone()), "the session is ended");
    assert!(told(&mut control, end).starts_with("unknown"));
    assert!(told(&mut control, AdminAct::EndSession("x".to_owned())).starts_with("refused"));
    told(&mut control, AdminAct::Drain(true));
    assert!(control.parts.node.is_draining());
    told(&mut control, AdminAct::Drain(false));
    assert!(!control.parts.node.is_draining());
    let known = control.parts.node.associations().next().unwrap().node_id.to_string();
    assert!(told(&mut control, AdminAct::ReleaseAssociation(known)).contains("is asked"));
    let unknown = AdminAct::ReleaseAssociation("smf.example".to_owned());
    assert!(told(&mut control, unknown).starts_with("unknown"));
    assert!(told(&mut control, AdminAct::TakeOver).contains("no standby"));
    let known = control.parts.node.associations().next().unwrap().node_id.to_string();
    let sessions = control.parts.node.store().len();
    let ended = told(&mut control, AdminAct::EndAssociation(known.clone()));
    assert!(
        ended.contains(&format!("{sessions} sessions")) && ended.contains("Cause 72"),
        "{ended}"
    );
    assert_eq!(control.parts.node.associations().count(), 0);
    assert!(told(&mut control, AdminAct::EndAssociation(known)).starts_with("unknown"));
    assert!(told(&mut control, AdminAct::SetLog("loud".to_owned())).starts_with("refused"));
}

#[test]
fn only_worker_keeps_its_sessions() {
    let mut control = control(Plant::new(10, 1));
    let drain = |of: &str| AdminAct::DrainWorker(of.to_owned());
    assert!(told(&mut control, drain("0")).contains("is the only one with sessions"));
    assert!(told(&mut control, drain("7")).starts_with("unknown: no worker has the number"));
    let resume = AdminAct::ResumeWorker("0".to_owned());
    assert_eq!(told(&mut control, resume), "worker 0 was not drained");
}

#[test]
fn kernel_twins_have_a_carrier_only_while_adit_is_not_paused() {
    let mut control = control(Plant::new(10, 1));
    let (twins, states) = TwinStates::of_ports(&[PortId(0), PortId(1)]);
    control.parts.twins = twins;
    control.parts.lease = ServingLease::with_length(Some(Duration::from_secs(2)), false);
    let clock = control.parts.clock;
    control.parts.lease.set_clock(clock);
    let carriers = |control: &mut ControlThread, confirmed: Option<Instant>| {
        control.parts.lease.note_store(confirmed);
        control.turn_of_active(clock.now());
        states.clone().map(|state| state.has_carrier.load(Ordering::Relaxed))
    };
    let confirmed = || Some(Instant::now() + Duration::from_secs(2));
    assert_eq!(carriers(&mut control, confirmed()), [true; 2]);
    assert_eq!(carriers(&mut control, None), [false; 2], "paused");
    assert_eq!(carriers(&mut control, confirmed()), [true; 2], "active again");
}

#[test]
fn worker_that_takes_no_step_is_named_once_and_again_when_it_goes_on() {
    let mut plant = Plant::new(10, 2);
    let mut readers = core::mem::take(&mut plant.readers);
    let publisher = &mut plant.publisher;
    let mut watch = Standstill::new(&[4, 5].map(worker_on), Nanos(0));
    let seconds = |tenths: u64| Nanos::from_millis(100 * tenths);
    let mut changes = Vec::new();
    for tenth in 0..40 {
        readers[0].observe();
        if !(10..25).contains(&tenth) {
            readers[1].observe();
        }
        changes.extend(watch.check(seconds(tenth), publisher));
        assert_eq!(watch.stopped_count(), usize::from((19..25).contains(&tenth)), "{tenth}");
    }
    let (worker, core) = (adit_types::WorkerId(1), 5);
    let stands = standstill::StandstillChange::Stopped { worker, core, since: Nanos::from_secs(1) };
    let goes_on =
        standstill::StandstillChange::Resumed { worker, core, after: Nanos::from_millis(1600) };
    assert_eq!(changes, [stands, goes_on]);
}

#[test]
fn worker_that_sleeps_does_not_stand_still() {
    let mut plant = Plant::new(10, 1);
    let mut readers = core::mem::take(&mut plant.readers);
    readers[0].observe();
    readers[0].go_offline();
    let mut watch = Standstill::new(&[0].map(worker_on), Nanos(0));
    let changes =
        (0..40).flat_map(|n| watch.check(Nanos::from_millis(100 * n), &mut plant.publisher));
    assert_eq!(changes.count(), 0);
}

#[test]
fn control_thread_sleeps_longer_the_longer_workers_observe_nothing() {
    assert_eq!(sleep_while_unobserved(Nanos(0)), None);
    assert_eq!(sleep_while_unobserved(Nanos(YIELD_MAX.0 - 1)), None);
    let spans = [200, 800, 4_000, 1_000_000].map(Nanos::from_micros).map(sleep_while_unobserved);
    let expected = [25, 100, 500, 1000].map(|us| Some(Nanos::from_micros(us)));
    assert_eq!(spans, expected);
}

/// Returns the result of `supervise` for a control thread that runs `body`, next to a worker and
/// the admin thread. Checks that the worker was stopped.
fn outcome_of(
    mut control: ControlThread,
    body: impl FnOnce(&mut ControlThread, &Receiver<AdminQuery>) + Send + 'static,
) -> String {
    let mut signals = Signals::new([signal_hook::consts::SIGUSR1]).unwrap();
    let lifecycle = Lifecycle::default();
    let (queries, questions) = mpsc::channel();
    let stopping = Arc::clone(&lifecycle.stop_control);
    let control = spawn("adit-control", move || {
        body(&mut control, &questions);
        control.run(&questions, &stopping);
        control
    });
    let was_stopped = Arc::new(AtomicBool::new(false));
    let worker = {
        let (stop, was_stopped) = (Arc::clone(&lifecycle.stop), Arc::clone(&was_stopped));
        spawn("adit-worker-0", move || {
            while !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            was_stopped.store(true, Ordering::Relaxed);
            Ok(())
        })
    };
    // The admin thread outlives the others.
    let (held, lives) = mpsc::channel::<()>();
    let admin = spawn("adit-admin", move || {
        let _ = lives.recv();
    });
    let threads = run::Threads {
        control: control.unwrap(),
        workers: vec![worker.unwrap()],
        admin: admin.unwrap(),
        api: None,
        queries: queries.clone(),
    };
    let outcome = run::supervise(&mut signals, threads, &lifecycle);
    drop((held, queries));
    assert!(was_stopped.load(Ordering::Relaxed) && lifecycle.stop_control.load(Ordering::Relaxed));
    assert!(!lifecycle.gate.pass(), "threads that never began end, too");
    outcome.unwrap_err().to_string()
}

#[test]
fn control_thread_whose_timers_fail_again_and_again_ends_the_process_by_name() {
    let control = control(Plant::new(10, 0));
    let outcome = outcome_of(control, |control, questions| {
        loop {
            control.parts.node.inject_fault(FaultPoint::Timer);
            control.turn(questions);
        }
    });
    assert!(outcome.contains("the thread adit-control ended by itself"), "{outcome}");
}

/// A fault in publication is not contained: workers may see half of the change.
#[test]
fn panic_in_publication_ends_the_process_by_name() {
    let mut plant = Plant::new(10, 0);
    plant.node.handle_datagram(Nanos::from_secs(9), smf::smf(10), &establishment(0));
    let (id, mut delta) = plant.node.poll_delta().unwrap();
    // More entries than workers' rules can hold; no session of the node has that many.
    delta.rules.as_mut().unwrap().ue = vec![Default::default(); 1 << 16];
    let outcome = outcome_of(control(plant), move |control, _| {
        control.parts.publisher.apply(id, delta);
    });
    assert!(outcome.contains("the thread adit-control ended by itself"), "{outcome}");
}
