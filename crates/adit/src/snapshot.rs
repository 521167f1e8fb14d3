//! The documents of the admin socket: what `adit show --json` prints.
//!
//! Member names are an interface: they change only with an entry in the changelog.

mod qos;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use adit_n4::{PathState, SessionInformation};
use adit_rules::ApplyAction;
use adit_session::{OwnerId, RunningUsage, Session};
use adit_tables::{NeighborState, SessionTraffic, Snapshot};
use adit_types::limits::{ROWS_PER_PAGE_MAX, SESSIONS_PER_PAGE_MAX};
use adit_types::{NextHopIndex, SessionIndex};
use serde_json::{Map, Value, json};

use crate::admin::{AdminAnswer, AdminQuestion, AnswerPage, PageCursor, PagePosition};
use crate::cli::Topic;
use crate::control::{ControlPort, ControlThread};
use crate::steering::PortSteering;

/// The next page of the answer to a question: what it costs does not grow with the number of
/// sessions.
pub fn answer(
    control: &ControlThread,
    question: &AdminQuestion,
    cursor: PageCursor,
) -> AdminAnswer {
    let page = match question.topic {
        Topic::Associations => whole(associations(control)),
        Topic::Sessions => sessions(control, cursor),
        Topic::Counters => whole(counters(control)),
        Topic::Ports => whole(ports(control)),
        Topic::Neighbours => neighbors(control, cursor),
        Topic::Paths => paths(control, cursor),
        Topic::Applications => whole(applications(control)),
        Topic::Qos => return qos::qos(control, question.session.as_deref(), cursor),
    };
    AdminAnswer::Page(page)
}

/// A document in one page.
fn whole(document: Value) -> AnswerPage {
    let members = match document {
        Value::Object(members) => members,
        other => Map::from_iter([("value".to_owned(), other)]),
    };
    AnswerPage { list: None, rows: Box::new(Vec::new), members, next: None }
}

/// A page of rows that `json` makes of `rows` on the client's thread.
fn list<R: Send + 'static>(
    list: &'static str,
    rows: Vec<R>,
    json: impl Fn(R) -> Value + Send + 'static,
    next: Option<PagePosition>,
) -> AnswerPage {
    let next = next.map(|from| PageCursor { list: 0, from });
    let rows = Box::new(move || rows.into_iter().map(json).collect());
    AnswerPage { list: Some(list), rows, members: Map::new(), next }
}

/// The index that a page begins with.
const fn index(from: PagePosition) -> u32 {
    match from {
        PagePosition::Index(index) | PagePosition::Only(index) => index,
        PagePosition::Start | PagePosition::Behind(_) => 0,
    }
}

fn associations(control: &ControlThread) -> Value {
    let node = &control.parts.node;
    let row = |association: &adit_n4::Association| {
        json!({
            "node_id": association.node_id.to_string(),
            "peer": std::net::SocketAddr::new(association.address, association.port).to_string(),
            "state": "up",
            "sessions": node.store().owned_count(association.owner),
            "recovery_time_stamp": association.recovery_time_stamp,
            "nf_instance": node.nf_instance_id(association.address).map(uuid),
        })
    };
    json!({ "associations": node.associations().map(row).collect::<Vec<_>>() })
}

/// A UUID as text. Spec: RFC 9562 §4.
fn uuid(octets: [u8; 16]) -> String {
    let hex: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)].map(|(from, to)| &hex[from..to]).join("-")
}

/// What the control plane told of a session; identities are masked.
fn information(told: &adit_n4::SessionInformation) -> Value {
    let user = told.user.iter().map(|(kind, text)| ((*kind).to_owned(), (**text).into()));
    json!({
        "dnn": told.dnn,
        "s_nssai": told.s_nssai.map(|slice| adit_n4::session_s_nssai(slice).to_string()),
        "rat_type": told.rat_type.map(|rat| rat.to_string()),
        "user": Value::Object(user.collect()),
    })
}

/// What the control thread gathers of one session.
struct SessionRow {
    session: Session,
    cp_node: Option<Arc<str>>,
    traffic: SessionTraffic,
    usage: Vec<RunningUsage>,
    information: Option<SessionInformation>,
}

fn sessions(control: &ControlThread, cursor: PageCursor) -> AnswerPage {
    let (node, publisher) = (&control.parts.node, &control.parts.publisher);
    let cp_nodes: BTreeMap<OwnerId, Arc<str>> = node
        .associations()
        .map(|association| (association.owner, association.node_id.to_string().into()))
        .collect();
    let first = SessionIndex(index(cursor.from));
    let (sessions, next) = node.store().sessions_from(first, SESSIONS_PER_PAGE_MAX);
    let row = |session: &Session| SessionRow {
        session: session.clone(),
        cp_node: cp_nodes.get(&session.owner()).cloned(),
        traffic: publisher.session_traffic(session.index()),
        usage: node.store().running_usage(session),
        information: node.session_information(session.up_seid()).cloned(),
    };
    let next = next.map(|SessionIndex(next)| PagePosition::Index(next));
    list("sessions", sessions.map(row).collect(), session, next)
}

fn session(row: SessionRow) -> Value {
    let SessionRow { session, cp_node, traffic, usage, information } = row;
    let records = session.records();
    let pdis = records.pdrs.iter().flat_map(|pdr| pdr.pdi.each());
    let teids = pdis.filter_map(|pdi| Some(pdi.f_teid.as_ref()?.teid.to_string()));
    let teids: BTreeSet<String> = teids.collect();
    json!({
        "up_seid": session.up_seid().to_string(),
        "cp_seid": session.cp_f_seid().seid.to_string(),
        "cp_node": cp_node.as_deref(),
        "ue": ues(&records),
        "teids": teids,
        "uplink_pkts": traffic.ul_pkts,
        "uplink_bytes": traffic.ul_bytes,
        "downlink_pkts": traffic.dl_pkts,
        "downlink_bytes": traffic.dl_bytes,
        "pdrs": records.pdrs.iter().map(pdr).collect::<Vec<_>>(),
        "fars": records.fars.iter().map(far).collect::<Vec<_>>(),
        "qers": records.qers.iter().map(qer).collect::<Vec<_>>(),
        "bars": records.bars.iter().map(bar).collect::<Vec<_>>(),
        "urrs": urrs(&records.urrs, &usage),
        "information": information.as_ref().map(self::information),
        "inactivity_timer_s":
            records.inactivity_timer.map(|timer| timer.to_duration().as_secs()),
    })
}

/// The addresses and networks of a session's UE.
fn ues(records: &adit_session::Records) -> Vec<String> {
    let mut ues = BTreeSet::new();
    for pdi in records.pdrs.iter().flat_map(|pdr| pdr.pdi.each()) {
        let ue = pdi.ue_addresses();
        ues.extend(ue.v4.map(|addr| addr.to_string()));
        ues.extend(ue.v6.map(|prefix| prefix.to_string()));
        ues.extend(pdi.further_ues.iter().map(|prefix| prefix.to_string()));
    }
    ues.into_iter().collect()
}

fn interface_type(known: adit_session::InterfaceType) -> String {
    adit_pfcp::ie::InterfaceType::from_code(known.0).to_string()
}

fn pdr(pdr: &adit_session::Pdr) -> Value {
    json!({
        "id": pdr.id.0,
        "precedence": pdr.precedence.0,
        "source_interface": format!("{:?}", pdr.pdi.source),
        "interface_type": pdr.pdi.interface_type.map(interface_type),
        "active": pdr.is_active,
        "traffic_endpoints": pdr.pdi.traffic_endpoints.iter().map(|id| id.0).collect::<Vec<_>>(),
        "framed_routes": pdr.pdi.each().flat_map(|pdi| &pdi.framed_routes)
            .map(|prefix| prefix.to_string()).collect::<Vec<_>>(),
        "teid": pdr.pdi.f_teid.as_ref().map(|f_teid| f_teid.teid.to_string()),
        "network_instance": pdr.pdi.network_instance.as_deref(),
        "qfis": pdr.pdi.qfis.iter().map(|qfi| qfi.value()).collect::<Vec<_>>(),
        "sdf_filters": pdr.pdi.sdf.len(),
        "application": pdr.pdi.application.as_deref(),
        "predefined_rules": pdr.predefined.iter().map(|name| &**name).collect::<Vec<_>>(),
        "far": pdr.far.map(|id| id.0),
        "qers": pdr.qers.iter().map(|id| id.0).collect::<Vec<_>>(),
        "urrs": pdr.urrs.iter().map(|id| id.0).collect::<Vec<_>>(),
    })
}

/// The URRs of a session with the usage since their last report.
fn urrs(urrs: &[adit_session::Urr], usage: &[RunningUsage]) -> Value {
    let row = |(urr, usage): (&adit_session::Urr, &RunningUsage)| {
        json!({
            "id": urr.id.0,
            "measures_volume": urr.method.volume,
            "measures_duration": urr.method.duration,
            "uplink_pkts": usage.volume.ul_pkts,
            "uplink_bytes": usage.volume.ul_bytes,
            "downlink_pkts": usage.volume.dl_pkts,
            "downlink_bytes": usage.volume.dl_bytes,
            "quota_exhausted": usage.stopped,
        })
    };
    urrs.iter().zip(usage).map(row).collect()
}

fn far(far: &adit_session::Far) -> Value {
    let forwarding = far.forwarding.as_ref();
    let outer = forwarding.and_then(|forwarding| forwarding.outer_header_creation);
    json!({
        "id": far.id.0,
        "action": action_name(far.action),
        "apply_action": far.action.iter_names().map(|(name, _)| name).collect::<Vec<_>>(),
        "bar": far.bar.map(|id| id.0),
        "destination_interface":
            far.forwarding.as_ref().map(|forwarding| format!("{:?}", forwarding.destination)),
        "interface_type":
            forwarding.and_then(|forwarding| forwarding.interface_type).map(interface_type),
        "linked_traffic_endpoint":
            forwarding.and_then(|forwarding| forwarding.linked_endpoint).map(|id| id.0),
        "tunnel": outer.and_then(|outer| outer.tunnel()).map(|tunnel| {
            json!({ "teid": tunnel.teid.to_string(), "addr": tunnel.addr.to_string() })
        }),
    })
}

const fn action_name(action: ApplyAction) -> &'static str {
    if action.contains(ApplyAction::FORW) {
        "forward"
    } else if action.contains(ApplyAction::BUFF) {
        "buffer"
    } else {
        "drop"
    }
}

fn bar(bar: &adit_session::Bar) -> Value {
    json!({
        "id": bar.id.0,
        "notification_delay_ms": u32::from(bar.notification_delay) * 50,
        "suggested_pkts": bar.suggested_pkts,
    })
}

fn qer(qer: &adit_session::Qer) -> Value {
    let rates = |rates: Option<adit_session::Rates>| {
        rates.map(|r| json!({ "uplink": r.uplink.as_bps(), "downlink": r.downlink.as_bps() }))
    };
    json!({
        "id": qer.id.0,
        "gate_uplink": format!("{:?}", qer.gates.uplink).to_lowercase(),
        "gate_downlink": format!("{:?}", qer.gates.downlink).to_lowercase(),
        "qfi": qer.qfi.map(adit_types::Qfi::value),
        "mbr_bps": rates(qer.mbr),
        "gbr_bps": rates(qer.gbr),
    })
}

/// All counters of the process.
pub fn counters(control: &ControlThread) -> Value {
    let snapshot = control.parts.publisher.snapshot();
    let mut document = Map::new();
    for (name, value, _) in snapshot.scalars() {
        document.insert(name.to_owned(), value.into());
    }
    document.insert("transmitted_pkts".to_owned(), snapshot.transmitted_pkts().into());
    document.insert("dropped_pkts".to_owned(), snapshot.dropped_pkts().into());
    document.insert("punted_pkts".to_owned(), snapshot.punted_pkts().into());
    document.insert("identity_holds".to_owned(), snapshot.identity_holds().into());
    let drops = snapshot.drops().map(|(reason, n)| (reason.name().to_owned(), n.into()));
    document.insert("drops".to_owned(), Value::Object(drops.collect()));
    let punts = snapshot.punts().map(|(reason, n)| (reason.name().to_owned(), n.into()));
    document.insert("punts".to_owned(), Value::Object(punts.collect()));
    document.insert("shaping_delays".to_owned(), shaping_delays(&snapshot));
    document.insert("interfaces".to_owned(), interfaces(control, &snapshot));
    document.insert("workers".to_owned(), workers(control));
    let n4 = control.parts.node.counters().list().into_iter().map(|(name, n)| (name, n.into()));
    document.insert("n4".to_owned(), Value::Object(n4.collect()));
    document.insert("control".to_owned(), control_counters(control));
    Value::Object(document)
}

/// Packets that waited for their rates, by the power of two of a microsecond that they stayed below.
fn shaping_delays(snapshot: &Snapshot) -> Value {
    let slots = snapshot.shaping_delays.iter().enumerate();
    let slots = slots.map(|(power, n)| match power + 1 < snapshot.shaping_delays.len() {
        true => (format!("below_{}_us", 1_u64 << power), (*n).into()),
        false => ("longer".to_owned(), (*n).into()),
    });
    Value::Object(slots.collect())
}

fn interfaces(control: &ControlThread, snapshot: &Snapshot) -> Value {
    let mut flat = Map::new();
    for (name, counters) in control.parts.names.iter().zip(&snapshot.interfaces) {
        flat.insert(format!("{name}_rx_pkts"), counters.rx_pkts.into());
        flat.insert(format!("{name}_rx_bytes"), counters.rx_bytes.into());
        flat.insert(format!("{name}_tx_pkts"), counters.tx_pkts.into());
        flat.insert(format!("{name}_tx_bytes"), counters.tx_bytes.into());
    }
    Value::Object(flat)
}

/// What each worker did, by its number.
fn workers(control: &ControlThread) -> Value {
    let mut flat = Map::new();
    for (worker, counters) in control.parts.publisher.worker_counters().iter().enumerate() {
        let counted = Snapshot::sum([&**counters]);
        for (name, value) in [
            ("received_pkts", counted.received_pkts),
            ("taken_over_pkts", counted.taken_over_pkts),
            ("handed_off_pkts", counted.handed_off_pkts),
            ("transmitted_pkts", counted.transmitted_pkts()),
            ("dropped_pkts", counted.dropped_pkts()),
        ] {
            flat.insert(format!("{worker}_{name}"), value.into());
        }
    }
    Value::Object(flat)
}

fn control_counters(control: &ControlThread) -> Value {
    let publisher = control.parts.publisher.counters();
    let neighbours = control.neighbors.counters();
    json!({
        "deltas_applied": publisher.deltas_applied,
        "keys_refused": publisher.keys_refused,
        "sessions_out_of_range": publisher.sessions_out_of_range,
        "peers_without_route": publisher.peers_without_route,
        "next_hops_refused": publisher.next_hops_refused,
        "peers_refused": publisher.peers_refused,
        "neighbour_solicits": neighbours.solicits,
        "neighbour_failures": neighbours.failures,
        "neighbour_wanted_refused": neighbours.wanted_refused,
        "neighbour_seen_refused": neighbours.seen_refused,
        "neighbour_mac_changes": neighbours.mac_changes,
        "neighbour_claims_refuted": neighbours.claims_refuted,
        "commands_lost": control.commands_lost + neighbours.commands_lost,
        "n4_datagrams_unsent": control.datagrams_unsent,
        "n4_datagrams_dropped_by_kernel": control.parts.socket.dropped(),
        "n4_receive_buffer_bytes": control.parts.socket.receive_buffer_bytes(),
        "workers_standing_still": control.workers_standing_still(),
    })
}

fn ports(control: &ControlThread) -> Value {
    json!({ "ports": control.parts.ports.iter().map(port).collect::<Vec<_>>() })
}

fn port(row: &ControlPort) -> Value {
    let ControlPort { config, port, steering } = row;
    let details = port.details().ok();
    let details = details.as_ref();
    let stats = port.stats().unwrap_or_default();
    let driver_counters = port.xstats().unwrap_or_default();
    let why_no_rss = details.filter(|details| details.rss.is_empty()).map(|details| {
        match (port.rx_queues(), details.can_rss) {
            (1, _) => "one receive queue",
            (_, false) => "the driver has no RSS",
            (_, true) => "the driver hashes none of the headers that adit asks for",
        }
    });
    json!({
        "name": config.name,
        "device": config.device.to_string(),
        "driver": details.map(|details| details.driver.clone()),
        "mac": port.info().mac.to_string(),
        "mtu_bytes": port.info().mtu_bytes,
        "link": details.map(|d| if d.link_up { "up" } else { "down" }),
        "link_speed_mbps": details.and_then(|details| details.link_speed_mbps),
        "rx_queues": port.rx_queues(),
        "rx_queues_max": details.map(|details| details.rx_queues_max),
        "rx_queue_pkts": queue_pkts(&driver_counters, port.rx_queues()),
        "rss": details.map(|details| details.rss.clone()),
        "rss_reason": why_no_rss,
        "steering": steering.iter().map(PortSteering::document).collect::<Vec<_>>(),
        "offloads": details.map(|details| details.offloads.clone()),
        "rx_pkts": stats.ipackets,
        "rx_bytes": stats.ibytes,
        "rx_missed": stats.imissed,
        "rx_errors": stats.ierrors,
        "rx_no_mbuf": stats.rx_nombuf,
        "tx_pkts": stats.opackets,
        "tx_bytes": stats.obytes,
        "tx_errors": stats.oerrors,
        "losses": losses(&driver_counters),
    })
}

/// Packets of each receive queue, for drivers that tell.
fn queue_pkts(counters: &[(String, u64)], queues: u16) -> Option<Vec<u64>> {
    let of_queue = |queue| {
        let name = format!("rx_q{queue}_packets");
        counters.iter().find(|(counter, _)| *counter == name).map(|(_, value)| *value)
    };
    (0..queues).map(of_queue).collect()
}

/// The driver's own counters of packets that were lost, those that are not zero.
fn losses(counters: &[(String, u64)]) -> Value {
    let tells = |name: &str| {
        ["error", "miss", "drop", "discard", "alloc", "nobuf", "no_buf", "mbuf", "full"]
            .iter()
            .any(|word| name.contains(word))
    };
    let counters = counters.iter().filter(|(name, value)| *value != 0 && tells(name));
    Value::Object(counters.map(|(name, value)| (name.clone(), (*value).into())).collect())
}

fn neighbors(control: &ControlThread, cursor: PageCursor) -> AnswerPage {
    let first = NextHopIndex(index(cursor.from));
    let (entries, next) = control.neighbors.entries_from(first, ROWS_PER_PAGE_MAX);
    let named = |entry: adit_tables::NeighborEntry| {
        (entry, control.parts.names.get(usize::from(entry.interface.0)).cloned())
    };
    let json = |(entry, interface): (adit_tables::NeighborEntry, Option<String>)| {
        json!({
            "interface": interface,
            "addr": entry.addr.to_string(),
            "mac": entry.mac.map(|mac| mac.to_string()),
            "state": state_name(entry.state),
            "pinned": entry.pinned,
        })
    };
    let next = next.map(|NextHopIndex(next)| PagePosition::Index(next));
    list("neighbours", entries.map(named).collect(), json, next)
}

fn paths(control: &ControlThread, cursor: PageCursor) -> AnswerPage {
    let behind = match cursor.from {
        PagePosition::Behind(peer) => Some(peer),
        _ => None,
    };
    let rows: Vec<adit_n4::PathEntry> =
        control.parts.node.paths_behind(behind).take(ROWS_PER_PAGE_MAX).collect();
    let json = |path: adit_n4::PathEntry| {
        json!({
            "peer": path.peer.to_string(),
            "state": match path.state {
                PathState::Unknown => "unknown",
                PathState::Up => "up",
                PathState::Down => "down",
            },
            "requests": path.requests,
            "responses": path.responses,
        })
    };
    let last = rows.last().filter(|_| rows.len() == ROWS_PER_PAGE_MAX);
    let next = last.map(|path| PagePosition::Behind(path.peer));
    list("paths", rows, json, next)
}

/// Configured applications, and those that control planes describe by PFDs: they take precedence.
fn applications(control: &ControlThread) -> Value {
    let node = &control.parts.node;
    let store = node.store();
    let source = |owner| {
        let association = node.associations().find(|association| association.owner == owner);
        association.map(|association| association.node_id.to_string())
    };
    let row = |id: &str, source: Option<String>, count: usize, in_effect: bool| {
        json!({
            "id": id,
            "source": source,
            "flow_descriptions": count,
            "in_effect": in_effect,
        })
    };
    let replaced: BTreeSet<&str> = store.provided_applications().map(|known| known.id).collect();
    let configured = node.config().store.provisioning.applications.iter().map(|application| {
        let id = &*application.id;
        let in_effect = !replaced.contains(id);
        row(id, Some("configuration".to_owned()), application.filters.len(), in_effect)
    });
    let provided = store.provided_applications().map(|provided| {
        let count = provided.flow_descriptions;
        row(provided.id, source(provided.owner), count, provided.in_effect)
    });
    json!({ "applications": configured.chain(provided).collect::<Vec<_>>() })
}

const fn state_name(state: NeighborState) -> &'static str {
    match state {
        NeighborState::Incomplete => "incomplete",
        NeighborState::Reachable => "reachable",
        NeighborState::Stale => "stale",
        NeighborState::Probe => "probe",
        NeighborState::Failed => "failed",
    }
}
