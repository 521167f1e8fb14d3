//! The control side in this process and the SMF that drives it, for the benches of N4, memory and
//! churn.

use adit_n4::{Node, RecordConfig};
use adit_pfcp::{Cause, Message, PfcpDatagram};
use adit_shared_store::store_thread::{StoreLink, StoreReport};
use adit_store::JournalFigures;
use adit_tables::{Publisher, TablesReader};
use adit_types::{Nanos, Seid, Teid, VlanId};
use anyhow::{Context, bail, ensure};

use super::network::BenchSession;
use super::smf;

/// Number of requests whose records go to the store together.
const REQUESTS_PER_GROUP: u32 = 64;

/// Maximum number of answers that wait for the store before the next request.
const UNDURABLE_MAX: usize = 4096;

/// Configuration of the records in benches with a store.
const RECORDS: RecordConfig =
    RecordConfig { usage_interval: Nanos::from_secs(3600), serves_without_store: false };

/// Maximum number of changes that wait for the workers before the next request.
const UNOBSERVED_MAX: usize = 256;

/// Identifiers of an established session.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BenchSessionIds {
    /// The SEID of the UP function.
    pub up_seid: Seid,
    /// The TEID to which the gNB sends.
    pub uplink_teid: Teid,
}

/// The node and its publisher. Without workers every delta is observed at once.
#[derive(Debug)]
pub(crate) struct BenchControlPlane {
    /// The PFCP node.
    pub node: Node,
    /// The publisher of the node's rules.
    pub publisher: Publisher,
    /// Readers of the workers, until the workers take them.
    pub readers: Vec<TablesReader>,
    /// Identifiers of the sessions, by session number.
    pub sessions: Vec<BenchSessionIds>,
    requests: u32,
    accepted: u32,
    refused: Option<Cause>,
    store: Option<StoreLink<JournalFigures>>,
}

impl BenchControlPlane {
    /// Makes an associated node for the sessions 0 to `sessions_max - 1`.
    ///
    /// # Errors
    /// The association is refused.
    pub(crate) fn new(sessions_max: u32, workers: usize) -> anyhow::Result<Self> {
        Self::make(sessions_max, workers, None)?.associate()
    }

    /// Makes an associated node with a store, without workers.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub(crate) fn with_store(
        sessions_max: u32,
        store: StoreLink<JournalFigures>,
    ) -> anyhow::Result<Self> {
        let mut control = Self::make(sessions_max, 0, Some(RECORDS))?;
        control.node.begin_records(1);
        control.store = Some(store);
        control.associate()
    }

    /// Makes a node that restores its records, without association and workers.
    ///
    /// # Errors
    /// There is no memory for its tables.
    pub(crate) fn unassociated(sessions_max: u32) -> anyhow::Result<Self> {
        Self::make(sessions_max, 0, Some(RECORDS))
    }

    fn make(
        sessions_max: u32,
        workers: usize,
        records: Option<RecordConfig>,
    ) -> anyhow::Result<Self> {
        let max = usize::try_from(sessions_max)?;
        let (node, publisher, readers) = super::sessions::control_side(max, workers, records)?;
        Ok(Self {
            node,
            publisher,
            readers,
            sessions: Vec::with_capacity(max),
            requests: 0,
            accepted: 0,
            refused: None,
            store: None,
        })
    }

    /// Sets up the association.
    ///
    /// # Errors
    /// The association is refused.
    pub(crate) fn associate(self) -> anyhow::Result<Self> {
        let mut control = self;
        let mut buf = [0; smf::REQUEST_BYTES_MAX];
        let len = smf::association_setup(&mut buf).context("the request fits its buffer")?;
        control.turn(Nanos(1), &buf[..len], |_| {});
        ensure!(control.node.associations().count() == 1, "the association was refused");
        Ok(control)
    }

    /// Establishes `count` sessions, from session `first` on.
    ///
    /// # Errors
    /// A request is refused.
    pub(crate) fn establish(&mut self, first: u32, count: u32) -> anyhow::Result<()> {
        let mut buf = [0; smf::REQUEST_BYTES_MAX];
        for number in first..first + count {
            let len = smf::establishment(&mut buf, smf::sequence(self.requests), number)
                .context("the request fits its buffer")?;
            self.request(&buf[..len])?;
        }
        self.settle()
    }

    /// Moves `count` sessions, from session `first` on, to other gNB TEIDs.
    ///
    /// # Errors
    /// A request is refused.
    pub(crate) fn modify(&mut self, first: u32, count: u32) -> anyhow::Result<()> {
        for number in first..first + count {
            self.modify_one(number)?;
        }
        self.settle()
    }

    /// Moves one session to another gNB TEID, without waiting for the workers.
    ///
    /// # Errors
    /// See [`Self::modify`].
    pub(crate) fn modify_one(&mut self, number: u32) -> anyhow::Result<()> {
        let mut buf = [0; smf::REQUEST_BYTES_MAX];
        let known = self.known(number)?;
        let sequence = smf::sequence(self.requests);
        let teid = Teid(self.requests | 1 << 31);
        let len = smf::modification(&mut buf, sequence, known.up_seid, teid)
            .context("the request fits its buffer")?;
        self.request(&buf[..len])
    }

    /// Deletes `count` sessions, from session `first` on.
    ///
    /// # Errors
    /// A request is refused.
    pub(crate) fn delete(&mut self, first: u32, count: u32) -> anyhow::Result<()> {
        let mut buf = [0; smf::REQUEST_BYTES_MAX];
        for number in first..first + count {
            let known = self.known(number)?;
            let len = smf::deletion(&mut buf, smf::sequence(self.requests), known.up_seid)
                .context("the request fits its buffer")?;
            self.request(&buf[..len])?;
        }
        self.settle()
    }

    fn known(&self, number: u32) -> anyhow::Result<BenchSessionIds> {
        let known = self.sessions.get(usize::try_from(number)?);
        known.copied().context("the session was established")
    }

    /// Handles one request, and waits while too many changes are unobserved.
    fn request(&mut self, datagram: &[u8]) -> anyhow::Result<()> {
        self.begin(datagram);
        let now = self.now();
        self.publish_and_collect(now)?;
        // As in a turn of adit, several requests share a group.
        if self.requests.is_multiple_of(REQUESTS_PER_GROUP) {
            self.pass_records_to_store(now);
        }
        while self.publisher.unobserved() > UNOBSERVED_MAX {
            self.publish_and_collect(now)?;
        }
        while self.node.store_backlog().1 > UNDURABLE_MAX {
            self.pass_records_to_store(now);
            self.publish_and_collect(now)?;
        }
        Ok(())
    }

    /// Hands a request to the node.
    pub(crate) fn begin(&mut self, datagram: &[u8]) {
        self.requests += 1;
        let now = self.now();
        let peer = std::net::SocketAddr::from((smf::CP_ADDR, adit_pfcp::PFCP_PORT));
        self.node.handle_datagram(now, peer, datagram);
        self.node.handle_timeout(now);
    }

    /// Returns the sequence number of the next request.
    pub(crate) const fn next_sequence(&self) -> u32 {
        smf::sequence(self.requests)
    }

    /// True if every request is answered.
    pub(crate) const fn is_answered(&self) -> bool {
        self.accepted == self.requests
    }

    /// Processes changes that the workers have observed.
    ///
    /// # Errors
    /// A request was refused.
    pub(crate) fn poll(&mut self) -> anyhow::Result<()> {
        self.publish_and_collect(self.now())
    }

    /// Waits until every request is answered.
    ///
    /// # Errors
    /// A request was refused.
    pub(crate) fn settle(&mut self) -> anyhow::Result<()> {
        while self.publisher.unobserved() > 0 || self.node.store_backlog().0 > 0 {
            self.pass_records_to_store(self.now());
            self.publish_and_collect(self.now())?;
        }
        ensure!(
            self.accepted == self.requests,
            "{} of {} requests were accepted",
            self.accepted,
            self.requests
        );
        Ok(())
    }

    /// Hands records to the store, and notifies the node of durable ones.
    fn pass_records_to_store(&mut self, now: Nanos) {
        let Some(store) = &self.store else { return };
        if let Some(group) = self.node.poll_records(now) {
            store.send(group);
        }
        self.node.handle_durable(now, store.durable());
    }

    /// Returns the report of the store; `None` without a store.
    pub(crate) fn store_report(&self) -> Option<StoreReport<JournalFigures>> {
        self.store.as_ref().map(StoreLink::report)
    }

    /// Returns the virtual time, 20 µs per request, so that cached answers expire.
    pub(crate) const fn now(&self) -> Nanos {
        Nanos(1 + 20_000 * self.requests as u64)
    }

    /// Publishes changes and collects answers.
    fn publish_and_collect(&mut self, now: Nanos) -> anyhow::Result<()> {
        self.node.apply_changes(&mut self.publisher, |_| {});
        self.node.conclude_changes(now, &mut self.publisher, usize::MAX);
        while let Some(datagram) = self.node.poll_transmit() {
            self.on_response(&datagram.bytes);
        }
        match self.refused {
            Some(cause) => bail!("a request was refused with Cause {cause}"),
            None => Ok(()),
        }
    }

    /// Processes a response.
    fn on_response(&mut self, response: &[u8]) {
        let Some(Ok(raw)) = PfcpDatagram::new(response).next() else { return };
        let cause = match Message::decode(&raw) {
            Ok(Message::SessionEstablishmentResponse(response)) => {
                let teid = response.created_pdrs.iter().find_map(|pdr| smf::given_teid(&pdr));
                let known = response.up_f_seid.map(|up| up.seid).zip(teid);
                let number = raw.header.seid.and_then(|seid| usize::try_from(seid.0 - 1).ok());
                if let (Some((up_seid, uplink_teid)), Some(number)) = (known, number) {
                    let len = self.sessions.len().max(number + 1);
                    self.sessions.resize(len, BenchSessionIds::default());
                    self.sessions[number] = BenchSessionIds { up_seid, uplink_teid };
                }
                response.cause
            }
            Ok(Message::SessionModificationResponse(response)) => response.cause,
            Ok(Message::SessionDeletionResponse(response)) => response.cause,
            _ => return,
        };
        match cause.is_accepted() {
            true => self.accepted += 1,
            false => self.refused = Some(cause),
        }
    }

    /// Runs a turn of the control thread with a datagram; `sent` gets the datagrams of the turn.
    pub(crate) fn turn(&mut self, now: Nanos, datagram: &[u8], mut sent: impl FnMut(&[u8])) {
        let Self { node, publisher, .. } = self;
        let peer = std::net::SocketAddr::from((smf::CP_ADDR, adit_pfcp::PFCP_PORT));
        node.handle_datagram(now, peer, datagram);
        node.handle_timeout(now);
        node.apply_changes(publisher, |_| {});
        node.conclude_changes(now, publisher, usize::MAX);
        while let Some(datagram) = node.poll_transmit() {
            sent(&datagram.bytes);
        }
    }
}

/// Returns the Cause of a refused establishment; `None` if it was accepted.
pub(crate) fn refusal(response: &[u8]) -> Option<Cause> {
    let raw = PfcpDatagram::new(response).next()?.ok()?;
    match Message::decode(&raw) {
        Ok(Message::SessionEstablishmentResponse(response)) => {
            (!response.cause.is_accepted()).then_some(response.cause)
        }
        _ => None,
    }
}

/// Returns the events per second.
pub(crate) fn rate(count: u32, elapsed: std::time::Duration) -> u64 {
    let per_s = f64::from(count) / elapsed.as_secs_f64().max(1e-9);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate of at most 10^9, and positive"
    )]
    let rounded = per_s.round() as u64;
    rounded
}

/// Returns the data of session `number` that its packets need.
pub(crate) fn bench_session(number: u32, known: BenchSessionIds) -> BenchSession {
    BenchSession {
        teid: known.uplink_teid,
        ue: smf::ue_addr(number),
        up_seid: known.up_seid,
        vlan: VlanId::UNTAGGED,
        gnb: 0,
        n9_teid: None,
        n3_v6: false,
    }
}
