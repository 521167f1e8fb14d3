//! The effect of each command, and the answer to each wrong one.

use std::net::SocketAddr;

use adit_shared_store::replication::{
    CommandOutcome, ReplicationClient, ReplicationConfig, ReplicationError, ReplicationRefusal,
    ReplicationServer, ReplicationTail, TailError,
};
use adit_store::{
    GroupNumber, GroupPosition, GroupQueue, Incarnation, QueuedGroup, RecordKey, RecordKind,
    StoreChange, encode_change,
};
use adit_transport::resp::{RespLimits, RespServer, RespValue, write_command};
use adit_transport::{StreamId, Transport, TransportError};
use adit_types::Nanos;

use crate::world::{LossyNetwork, MemoryTransport, ReplicationRandom};

const ADDRESS: ([u8; 4], u16) = ([192, 0, 2, 2], 7000);

fn changes(value: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    let key = RecordKey::number(RecordKind::Session, 5);
    encode_change(&mut octets, &StoreChange::put(key, value));
    octets
}

fn tail() -> ReplicationTail {
    let mut tail = ReplicationTail::new("upf-1", Incarnation(77), 4000);
    tail.note_epoch(3);
    tail
}

/// Carries a command out and returns its reply as text.
fn reply(tail: &mut ReplicationTail, words: &[&[u8]]) -> String {
    let mut server = RespServer::new(RespLimits::default());
    let mut command = Vec::new();
    write_command(&mut command, words);
    server.requests.input_room()[..command.len()].copy_from_slice(&command);
    server.requests.input_arrived(command.len());
    let command = server.requests.next_command().unwrap().unwrap();
    tail.execute(command, &mut server.replies);
    let (value, _) = RespValue::read(server.replies.output()).unwrap().unwrap();
    text(&value)
}

fn text(value: &RespValue<'_>) -> String {
    match value {
        RespValue::Array(elements) => {
            let words: Vec<_> = elements.map(|element| text(&element)).collect();
            format!("[{}]", words.join(" "))
        }
        RespValue::Integer(number) => number.to_string(),
        RespValue::Error(octets) => format!("-{}", octets.escape_ascii()),
        RespValue::Simple(octets) | RespValue::Bulk(octets) => octets.escape_ascii().to_string(),
        other => format!("{other:?}"),
    }
}

fn hello(tail: &mut ReplicationTail, epoch: &str, after: &str) -> String {
    greet(tail, [epoch, after, "0", "0"])
}

/// `ADIT.HELLO` with epoch, the group before, the newest group, and the greeting that it follows
/// up.
fn greet(tail: &mut ReplicationTail, numbers: [&str; 4]) -> String {
    let [epoch, after, newest, greeting] = numbers.map(str::as_bytes);
    reply(tail, &[b"ADIT.HELLO", b"4", b"upf-1", epoch, after, newest, greeting])
}

fn group(tail: &mut ReplicationTail, numbers: [&str; 3], value: &[u8]) -> String {
    let [epoch, previous, number] = numbers.map(str::as_bytes);
    reply(tail, &[b"ADIT.GROUP", epoch, previous, number, &changes(value)])
}

fn position(epoch: u64, number: u64) -> GroupPosition {
    GroupPosition { epoch, number: GroupNumber(number) }
}

#[test]
fn groups_are_taken_in_order_and_dropped_once_the_shared_store_has_them() {
    let mut tail = tail();
    assert_eq!(hello(&mut tail, "3", "0"), "[77 0 1]");
    assert_eq!(group(&mut tail, ["3", "0", "1"], b"a"), "1");
    assert_eq!(group(&mut tail, ["3", "1", "4"], b"b"), "4");
    assert_eq!(group(&mut tail, ["3", "4", "5"], b"c"), "5");
    assert_eq!(hello(&mut tail, "3", "1"), "[77 5 2]");
    assert_eq!((tail.base(), tail.len()), (GroupNumber(1), 2));
    tail.drop_found(position(2, 100));
    assert_eq!(tail.len(), 2, "those are groups of another epoch");
    tail.drop_found(position(3, 4));
    let found: Vec<_> = tail.groups_after(position(3, 4)).unwrap().cloned().collect();
    let expected =
        QueuedGroup { previous: GroupNumber(4), number: GroupNumber(5), changes: changes(b"c") };
    assert_eq!(found, [expected]);
    assert_eq!((tail.base(), tail.len()), (GroupNumber(4), 1), "what was not found stays");
}

#[test]
fn groups_that_were_found_before_they_arrived_are_not_needed() {
    let mut tail = tail();
    hello(&mut tail, "3", "0");
    assert_eq!(group(&mut tail, ["3", "0", "1"], b"a"), "1");
    tail.drop_found(position(3, 9));
    assert_eq!((tail.base(), tail.last(), tail.len()), (GroupNumber(9), GroupNumber(9), 0));
    assert_eq!(group(&mut tail, ["3", "1", "2"], b"b"), "2");
    assert_eq!(group(&mut tail, ["3", "2", "9"], b"c"), "9");
    assert!(tail.is_empty());
    assert_eq!(group(&mut tail, ["3", "9", "10"], b"d"), "10");
    assert_eq!(group(&mut tail, ["3", "1", "10"], b"d"), "-GAP 10 is the last group here");
    assert_eq!(tail.len(), 1);
}

#[test]
fn groups_between_two_positions_come_from_the_tail_only_if_it_has_all() {
    let mut tail = tail();
    hello(&mut tail, "3", "2");
    (3..=6).for_each(|number: u32| {
        let [previous, number] = [number - 1, number].map(|number| number.to_string());
        assert_eq!(group(&mut tail, ["3", &previous, &number], b"a"), number);
    });
    let numbers = |after, through| -> Option<Vec<u64>> {
        Some(tail.groups_between(after, through)?.map(|group| group.number.0).collect())
    };
    assert_eq!(numbers(position(3, 2), position(3, 6)), Some(vec![3, 4, 5, 6]));
    assert_eq!(numbers(position(3, 4), position(3, 5)), Some(vec![5]));
    assert_eq!(numbers(position(3, 5), position(3, 5)), Some(vec![]));
    assert_eq!(numbers(position(3, 1), position(3, 5)), None);
    assert_eq!(numbers(position(3, 4), position(3, 7)), None);
    assert_eq!(numbers(position(2, 4), position(3, 5)), None);
    assert_eq!(numbers(position(3, 4), position(4, 5)), None);
}

#[test]
fn groups_that_the_shared_store_lost_are_noticed() {
    let mut tail = tail();
    hello(&mut tail, "3", "7");
    group(&mut tail, ["3", "7", "8"], b"a");
    let after = |tail: &ReplicationTail, epoch, number| {
        tail.groups_after(position(epoch, number)).map(Iterator::count)
    };
    let behind = |store| Err(TailError { store: GroupNumber(store), base: GroupNumber(7) });
    assert_eq!(after(&tail, 3, 7), Ok(1));
    assert_eq!(after(&tail, 3, 8), Ok(0));
    assert_eq!(after(&tail, 3, 6), behind(6));
    assert_eq!(after(&tail, 2, 100), behind(0));
    // The holder of epoch 4 did not finish writing the tail.
    assert_eq!(after(&tail, 4, 1), Ok(1));
}

#[test]
fn commands_that_do_not_fit_are_refused_and_change_nothing() {
    let mut tail = tail();
    assert_eq!(group(&mut tail, ["0", "0", "1"], b"a"), "-ERR epochs begin with 1");
    assert_eq!(hello(&mut tail, "0", "0"), "-ERR epochs begin with 1");
    assert!(group(&mut tail, ["3", "0", "1"], b"a").starts_with("-ERR ADIT.HELLO"));
    hello(&mut tail, "3", "0");
    group(&mut tail, ["3", "0", "1"], b"a");
    let before = (tail.base(), tail.last(), tail.len(), tail.epoch());
    let large = [7; 3990];
    let later = "-LATER 3 is the newest epoch that the store has shown to this adit";
    let fenced = "-FENCED 3 the records were taken over";
    let refused: &[(&[&[u8]], &str)] = &[
        (&[b"GET", b"x"], "-ERR unknown command"),
        (&[b"ADIT.HELLO"], "-ERR wrong number of arguments"),
        (&[b"ADIT.HELLO", b"4", b"upf-1", b"3", b"0"], "-ERR wrong number of arguments"),
        (&[b"ADIT.GROUP", b"3", b"1", b"2"], "-ERR wrong number of arguments"),
        (&[b"PING", b"x"], "-ERR wrong number of arguments"),
        (&[b"ADIT.SHARED", b"3", b"1"], "-ERR unknown command"),
        (&[b"ADIT.TAIL", b"4", b"upf-1", b"3", b"0", b"0"], "-ERR unknown command"),
        (&[b"ADIT.GROUP", b"3", b"+1", b"2", b""], "-ERR an argument is not a number"),
        (&[b"ADIT.GROUP", b"3", b"1", b"", b""], "-ERR an argument is not a number"),
        (
            &[b"ADIT.GROUP", b"3", b"1", b"18446744073709551616", b""],
            "-ERR an argument is not a number",
        ),
        (&[b"ADIT.HELLO", b"4", b"upf-1", b"4", b"0", b"0", b"1"], later),
        (&[b"ADIT.HELLO", b"4", b"upf-1", b"18446744073709551615", b"0", b"0", b"1"], later),
        (&[b"ADIT.GROUP", b"4", b"1", b"2", &changes(b"z")], later),
        (&[b"ADIT.HELLO", b"4", b"upf-1", b"2", b"0", b"0", b"0"], fenced),
        (&[b"ADIT.GROUP", b"2", b"1", b"2", &changes(b"z")], fenced),
        (
            &[b"ADIT.HELLO", b"4", b"upf-2", b"3", b"0", b"0", b"0"],
            "-ERR the records have another name here: give store.name the same value on both hosts",
        ),
        (
            &[b"ADIT.HELLO", b"3", b"upf-1", b"3", b"0"],
            "-ERR this adit speaks version 4 of the replication protocol, not 3: run the same version of adit on both \
             hosts",
        ),
        (
            &[b"ADIT.GROUP", b"3", b"1", b"2", b"\x00"],
            "-ERR the changes of the group cannot be read",
        ),
        (&[b"ADIT.GROUP", b"3", b"0", b"1", &changes(b"z")], "-GAP 1 is the last group here"),
        (&[b"ADIT.GROUP", b"3", b"2", b"3", &changes(b"z")], "-GAP 1 is the last group here"),
        (&[b"ADIT.GROUP", b"3", b"1", b"1", &changes(b"z")], "-ERR numbers of groups ascend"),
        (
            &[b"ADIT.GROUP", b"3", b"1", b"2", &changes(&large)],
            "-FULL the tail has all the memory that it may",
        ),
    ];
    for (words, answer) in refused {
        assert_eq!(reply(&mut tail, words), *answer);
        assert_eq!((tail.base(), tail.last(), tail.len(), tail.epoch()), before, "{answer}");
    }
    assert_eq!(reply(&mut tail, &[b"ping"]), "0", "it promises nothing");
    tail.set_promise(1500);
    assert_eq!(reply(&mut tail, &[b"PING"]), "1500");
}

#[test]
fn epochs_count_once_the_store_has_shown_them() {
    let mut tail = tail();
    hello(&mut tail, "3", "0");
    group(&mut tail, ["3", "0", "1"], b"a");
    assert!(hello(&mut tail, "4", "0").starts_with("-LATER 3 "));
    assert_eq!(group(&mut tail, ["3", "1", "2"], b"b"), "2", "nobody's word ended the epoch");
    tail.note_epoch(4);
    assert!(group(&mut tail, ["3", "2", "3"], b"c").starts_with("-FENCED 4 "));
    assert!(hello(&mut tail, "3", "0").starts_with("-FENCED 4 "));
    assert_eq!(tail.len(), 2, "what was acknowledged stays");
    assert!(group(&mut tail, ["4", "2", "3"], b"c").starts_with("-ERR ADIT.HELLO"));
    assert_eq!(hello(&mut tail, "4", "0"), "[77 0 2]");
    assert!(tail.is_empty());
    tail.note_epoch(3);
    assert!(hello(&mut tail, "3", "0").starts_with("-FENCED 4 "), "epochs ascend");
}

#[test]
fn tail_of_a_process_that_took_over_takes_no_group_even_if_the_store_forgot_the_epoch() {
    let mut tail = tail();
    hello(&mut tail, "3", "0");
    assert_eq!(group(&mut tail, ["3", "0", "1"], b"a"), "1");
    tail.fence(1);
    assert!(group(&mut tail, ["3", "1", "2"], b"b").starts_with("-FENCED 4 "));
    assert!(hello(&mut tail, "3", "0").starts_with("-FENCED 4 "));
    assert_eq!(tail.len(), 1);
}

#[test]
fn groups_that_the_active_adit_has_not_made_are_dropped_by_its_newest_greeting_alone() {
    let mut tail = tail();
    assert_eq!(hello(&mut tail, "3", "0"), "[77 0 1]");
    (1..=9).for_each(|number: u32| {
        let [previous, number] = [number - 1, number].map(|number| number.to_string());
        assert_eq!(group(&mut tail, ["3", &previous, &number], b"a"), number);
    });
    // A greeting that was on its way for long, of a connection that its sender gave up.
    assert_eq!(greet(&mut tail, ["3", "0", "5", "0"]), "[77 9 2]");
    assert_eq!(greet(&mut tail, ["3", "0", "5", "1"]), "[77 9 3]");
    assert_eq!(greet(&mut tail, ["3", "0", "5", "3"]), "[77 5 4]");
    assert_eq!((tail.base(), tail.len()), (GroupNumber(0), 5));
    // Somebody said that the store has more than the active adit has made.
    assert_eq!(greet(&mut tail, ["3", "100008", "100008", "0"]), "[77 100008 5]");
    assert_eq!(greet(&mut tail, ["3", "2", "7", "4"]), "[77 100008 6]");
    assert_eq!(greet(&mut tail, ["3", "2", "7", "6"]), "[77 2 7]");
    assert_eq!(group(&mut tail, ["3", "2", "3"], b"b"), "3");
}

/// A client and a server over a network in memory.
struct Pair {
    network: LossyNetwork,
    client: ReplicationClient<MemoryTransport>,
    groups: GroupQueue,
    server: ReplicationServer<MemoryTransport>,
    now: Nanos,
}

fn config(epoch: u64) -> ReplicationConfig {
    ReplicationConfig {
        peer: SocketAddr::from(ADDRESS),
        name: "upf-1".to_owned(),
        epoch,
        silence_max: Nanos::from_millis(50),
        retry_after: Nanos::from_millis(5),
        ping_interval: Nanos::from_millis(10),
    }
}

impl Pair {
    fn new(tail_octets_max: usize) -> Self {
        let network = LossyNetwork::new(ReplicationRandom::new(1));
        let mut tail = ReplicationTail::new("upf-1", Incarnation(9), tail_octets_max);
        tail.note_epoch(1);
        let server =
            ReplicationServer::new(network.transport(1), SocketAddr::from(ADDRESS), tail).unwrap();
        let client = ReplicationClient::new(network.transport(0), config(1));
        Self { network, client, groups: GroupQueue::new(GroupNumber(0)), server, now: Nanos(0) }
    }

    fn run(&mut self, turns: usize) {
        for _ in 0..turns {
            self.now += Nanos::from_micros(100);
            self.client.poll(self.now, &self.groups);
            self.server.poll(self.now);
            self.server.note_promises(|| self.now);
        }
    }

    fn push(&mut self, count: u64) {
        for _ in 0..count {
            let number = self.groups.last().0 + 1;
            self.groups.push(GroupNumber(number), changes(&number.to_be_bytes()));
        }
    }

    /// The active process learns that the shared store has the groups up to `number`, and keeps
    /// none of them.
    fn note_durable(&mut self, number: u64) {
        self.groups.set_durable(GroupNumber(number));
        self.groups.trim(0);
    }

    /// The standby finds the groups up to `number` in the shared store.
    fn find(&mut self, number: u64) {
        self.server.tail_mut().drop_found(position(1, number));
    }

    fn has(&self) -> Option<u64> {
        self.client.progress().map(|progress| progress.last.0)
    }
}

#[test]
fn client_sends_what_the_standby_lacks_after_a_reconnection() {
    let mut pair = Pair::new(1 << 20);
    pair.run(10);
    assert_eq!(pair.has(), Some(0));
    pair.push(100);
    pair.run(60);
    assert_eq!(pair.has(), Some(100));
    pair.network.cut();
    pair.push(20);
    pair.run(1);
    assert_eq!(pair.has(), None);
    assert_eq!(*pair.client.error(), ReplicationError::Transport(TransportError::Reset));
    pair.run(200);
    assert_eq!((pair.has(), pair.client.connections()), (Some(120), 2));
    assert_eq!(pair.server.tail().len(), 120);
    assert_eq!(pair.server.counters().refused, 0);
}

#[test]
fn standby_is_greeted_anew_once_the_queue_lacks_what_it_needs() {
    let mut pair = Pair::new(16 << 20);
    pair.run(10);
    pair.network.set_down(true);
    // The output takes some of them, and the others wait.
    pair.push(30_000);
    pair.run(10);
    pair.note_durable(29_000);
    pair.network.set_down(false);
    pair.run(20_000);
    assert_eq!((pair.has(), pair.client.connections()), (Some(30_000), 2));
    assert_eq!(*pair.client.error(), ReplicationError::Untried, "the connection is the same");
    assert_eq!(pair.server.tail().base(), GroupNumber(29_000));
    assert_eq!(pair.server.tail().len(), 1000);
    assert_eq!(pair.server.counters().refused, 0);
}

#[test]
fn queue_keeps_what_the_shared_store_has_for_a_standby_that_is_slow() {
    let mut pair = Pair::new(16 << 20);
    pair.run(10);
    pair.push(10_000);
    pair.groups.set_durable(GroupNumber(10_000));
    pair.run(20_000);
    assert_eq!((pair.has(), pair.client.connections()), (Some(10_000), 1));
    // Nothing is sent unless somebody waits for it.
    pair.note_durable(10_000);
    pair.run(100);
    assert_eq!((pair.has(), pair.client.connections()), (Some(10_000), 1));
    pair.push(1);
    pair.run(100);
    assert_eq!((pair.has(), pair.client.connections()), (Some(10_001), 1));
}

#[test]
fn standby_that_finds_groups_before_they_arrive_stays_connected() {
    let mut pair = Pair::new(1 << 20);
    pair.run(10);
    pair.network.set_down(true);
    pair.push(20);
    pair.run(10);
    pair.find(15);
    pair.network.set_down(false);
    pair.run(100);
    assert_eq!((pair.has(), pair.client.connections()), (Some(20), 1));
    assert_eq!((pair.server.tail().base(), pair.server.tail().len()), (GroupNumber(15), 5));
    // The active process has not learned that the shared store has any of them.
    pair.network.cut();
    pair.find(20);
    pair.push(5);
    pair.run(200);
    assert_eq!((pair.has(), pair.client.connections()), (Some(25), 2));
    assert_eq!((pair.server.tail().base(), pair.server.tail().len()), (GroupNumber(20), 5));
    assert_eq!(pair.server.counters().refused, 0);
}

#[test]
fn silent_standby_is_given_up_and_an_idle_one_is_not() {
    let mut pair = Pair::new(1 << 20);
    pair.run(10_000);
    assert_eq!((pair.has(), pair.client.connections()), (Some(0), 1));
    pair.network.set_down(true);
    pair.run(700);
    assert_eq!(pair.has(), None);
    assert_eq!(*pair.client.error(), ReplicationError::Silent);
    pair.network.set_down(false);
    pair.run(700);
    assert_eq!(pair.has(), Some(0));
}

#[test]
fn active_adit_never_counts_on_the_standby_for_longer_than_the_standby_does() {
    let mut pair = Pair::new(1 << 20);
    pair.run(1000);
    assert_eq!(pair.client.promised_until(), Nanos(0), "nothing was said");
    pair.server.tail_mut().set_promise(100);
    for turn in 0..2000 {
        if turn == 1000 {
            pair.server.tail_mut().set_promise(0);
        }
        // Groups do not stop the request.
        pair.push(3);
        pair.run(1);
        assert!(pair.client.promised_until() <= pair.server.promised_until());
        let lasts_ms = pair.client.promised_until().since(pair.now).0 / 1_000_000;
        assert!(!(300..1000).contains(&turn) || lasts_ms > 50, "{lasts_ms} ms in turn {turn}");
    }
    let (client, server) = (pair.client.promised_until(), pair.server.promised_until());
    pair.run(1000);
    assert_eq!((pair.client.promised_until(), pair.server.promised_until()), (client, server));
}

#[test]
fn full_tail_makes_the_standby_useless_until_it_has_found_groups_in_the_shared_store() {
    let mut pair = Pair::new(2000);
    pair.run(10);
    pair.push(100);
    pair.run(100);
    assert_eq!(pair.has(), None);
    assert!(pair.client.error().to_string().contains("FULL"), "{}", pair.client.error());
    let had = pair.server.tail().last();
    assert!(had > GroupNumber(10) && had < GroupNumber(90), "{had:?}");
    pair.find(90);
    pair.run(200);
    assert_eq!(pair.has(), Some(100));
    // Or until the active process has learned of them.
    pair.push(100);
    pair.run(100);
    assert_eq!(pair.has(), None);
    pair.note_durable(190);
    pair.run(200);
    assert_eq!(pair.has(), Some(200));
}

#[test]
fn newer_active_adit_replaces_the_older_one_for_good() {
    let mut pair = Pair::new(1 << 20);
    pair.push(5);
    pair.run(50);
    assert!(pair.server.has_active());
    let mut newer = ReplicationClient::new(pair.network.transport(0), config(2));
    let none = GroupQueue::new(GroupNumber(0));
    let run = |pair: &mut Pair, newer: &mut ReplicationClient<_>| {
        for _ in 0..100 {
            pair.run(1);
            newer.poll(pair.now, &none);
        }
    };
    run(&mut pair, &mut newer);
    assert_eq!(newer.progress(), None);
    assert!(newer.error().to_string().contains("LATER 1"), "{}", newer.error());
    assert_eq!((pair.has(), pair.client.connections()), (Some(5), 1), "it replaces nobody");
    pair.server.tail_mut().note_epoch(2);
    run(&mut pair, &mut newer);
    assert_eq!(newer.progress().map(|progress| progress.last), Some(GroupNumber(0)));
    pair.push(1);
    pair.run(200);
    assert_eq!(pair.has(), None);
    assert!(pair.client.error().to_string().contains("FENCED 2"), "{}", pair.client.error());
    assert!(pair.server.counters().fenced > 0);
}

#[test]
fn strangers_cannot_take_up_connections_or_memory() {
    let mut pair = Pair::new(1 << 20);
    pair.run(10);
    let mut stranger = pair.network.transport(0);
    let streams: Vec<_> =
        (0..20).map(|_| stranger.connect(SocketAddr::from(ADDRESS)).unwrap()).collect();
    pair.run(10);
    let mut room = [0; 100];
    let ended = |stranger: &mut MemoryTransport, stream| {
        matches!(stranger.receive(stream, &mut [0; 10]), Err(TransportError::Ended))
    };
    let count = streams.iter().filter(|stream| ended(&mut stranger, **stream)).count();
    assert_eq!(count, 20 - 7, "the active adit has one of eight");
    // A violation is answered, and ends the connection.
    assert!(stranger.send(streams[19], b"*1\r\n:5\r\n").unwrap() > 0);
    let mut answer = Vec::new();
    for _ in 0..100 {
        pair.run(1);
        let len = stranger.receive(streams[19], &mut room).unwrap_or(0);
        answer.extend_from_slice(&room[..len]);
    }
    assert_eq!(answer, b"-ERR a request is not an array of bulk strings\r\n");
    assert!(ended(&mut stranger, streams[19]));
    pair.run(100_000);
    let idle = streams.iter().filter(|stream| !ended(&mut stranger, **stream)).count();
    assert_eq!((idle, pair.client.connections()), (0, 1));
    pair.push(3);
    pair.run(20);
    assert_eq!(pair.has(), Some(3));
}

/// A stranger at the port of the standby, without TLS.
struct Stranger {
    transport: MemoryTransport,
    stream: StreamId,
}

impl Stranger {
    fn connect(pair: &Pair) -> Self {
        let mut transport = pair.network.transport(0);
        let stream = transport.connect(SocketAddr::from(ADDRESS)).unwrap();
        Self { transport, stream }
    }

    /// Sends octets and returns the reply.
    fn send(&mut self, pair: &mut Pair, octets: &[u8]) -> String {
        let (mut sent, mut answer, mut room) = (0, Vec::new(), [0; 4000]);
        for _ in 0..200 {
            sent += self.transport.send(self.stream, &octets[sent..]).unwrap_or(0);
            pair.run(1);
            let len = self.transport.receive(self.stream, &mut room).unwrap_or(0);
            answer.extend_from_slice(&room[..len]);
        }
        answer.escape_ascii().to_string()
    }

    fn command(&mut self, pair: &mut Pair, words: &[&[u8]]) -> String {
        let mut command = Vec::new();
        write_command(&mut command, words);
        self.send(pair, &command)
    }
}

#[test]
fn pair_goes_on_whatever_strangers_say() {
    let mut pair = Pair::new(1 << 20);
    pair.push(15);
    pair.run(100);
    assert_eq!(pair.has(), Some(15));
    let most = u64::MAX.to_string().into_bytes();
    let removal = changes(b"");
    let commands: [&[&[u8]]; 2] = [
        &[b"ADIT.HELLO", b"4", b"upf-1", &most, b"0", b"0", b"0"],
        &[b"ADIT.GROUP", &most, b"15", b"16", &removal],
    ];
    for words in commands {
        let answer = Stranger::connect(&pair).command(&mut pair, words);
        assert!(answer.starts_with("-LATER 1 "), "{answer}");
    }
    for garbage in [&[0xff; 10_000][..], b"*4294967295\r\n", b"GET / HTTP/1.1\r\n\r\n"] {
        Stranger::connect(&pair).send(&mut pair, garbage);
    }
    pair.push(1);
    pair.run(50);
    assert_eq!((pair.has(), pair.client.connections()), (Some(16), 1));
    // Idle ones do not keep it out when its link has failed.
    pair.network.cut();
    let _idle: Vec<_> = (0..8).map(|_| Stranger::connect(&pair)).collect();
    pair.push(1);
    pair.run(200);
    assert_eq!((pair.has(), pair.client.connections()), (Some(17), 2));
}

#[test]
fn number_that_the_active_adit_has_not_made_heals() {
    let changes = changes(b"x");
    let commands: [(&[&[u8]], &str); 2] = [
        (&[b"ADIT.GROUP", b"1", b"15", b"100008", &changes], ":100008\\r\\n"),
        (
            &[b"ADIT.HELLO", b"4", b"upf-1", b"1", b"100008", b"100008", b"0"],
            "*3\\r\\n$1\\r\\n9\\r\\n$6",
        ),
    ];
    for (command, expected) in commands {
        let mut pair = Pair::new(1 << 20);
        pair.push(15);
        pair.run(100);
        let answer = Stranger::connect(&pair).command(&mut pair, command);
        assert!(answer.starts_with(expected), "{answer}");
        pair.push(5);
        pair.run(400);
        assert_eq!((pair.has(), pair.client.connections()), (Some(20), 2), "{answer}");
        assert_eq!(pair.server.tail().last(), GroupNumber(20));
        pair.push(5);
        pair.run(50);
        assert_eq!((pair.has(), pair.client.connections()), (Some(25), 2), "{answer}");
        assert_eq!(pair.server.tail().len(), 25, "{answer}");
    }
}

#[test]
fn executed_commands_are_distinguished() {
    let mut server = RespServer::new(RespLimits::default());
    let mut tail = tail();
    let mut executed = Vec::new();
    let commands: [&[&[u8]]; 3] =
        [&[b"ADIT.HELLO", b"4", b"upf-1", b"3", b"0", b"0", b"0"], &[b"PING"], &[b"ADIT.HELLO"]];
    for words in commands {
        let mut command = Vec::new();
        write_command(&mut command, words);
        server.requests.input_room()[..command.len()].copy_from_slice(&command);
        server.requests.input_arrived(command.len());
        let command = server.requests.next_command().unwrap().unwrap();
        executed.push(tail.execute(command, &mut server.replies));
    }
    let refused = CommandOutcome::Refused(ReplicationRefusal::Arguments);
    assert_eq!(executed, [CommandOutcome::Greeted, CommandOutcome::Done, refused]);
}
