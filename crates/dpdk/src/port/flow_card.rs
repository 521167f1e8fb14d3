//! Flow rules of sessions on ethdev ports: implements [`adit_rules::flows::FlowCard`] with
//! `rte_flow`.
//!
//! A flow is a rule of the card's embedded switch (`transfer`): it matches frames from the link of
//! a port, and sends them to the link of a port or to adit. Its counter is an indirect action,
//! which outlives the rule.

use core::ffi::c_void;
use core::mem::{MaybeUninit, size_of};
use core::ptr::{null, null_mut};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use adit_dpdk_sys as sys;
use adit_rules::flows::{
    Flow, FlowAction, FlowCard, FlowCardError, FlowCounts, FlowHandle, FlowHeader, FlowItem,
    FlowPriority,
};
use adit_types::PortId;
use sys::{rte_flow_action_type as action_type, rte_flow_item_type as item_type};

use super::flow::{empty_flow_error, text};
use super::{Port, StartedPort};
use crate::errno::Errno;
use crate::log;

/// Size of the buffer for an item. Items begin with the header as on the wire; the fields that
/// follow it in DPDK's structure may be zero. Unit: octets.
const ITEM_SIZE: usize = 64;

/// The value and mask of an item, aligned as DPDK's structures.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
struct MaskedItem {
    spec: [u8; ITEM_SIZE],
    mask: [u8; ITEM_SIZE],
}

const _: () = assert!(
    size_of::<sys::rte_flow_item_eth>() <= ITEM_SIZE
        && size_of::<sys::rte_flow_item_vlan>() <= ITEM_SIZE
        && size_of::<sys::rte_flow_item_ipv4>() <= ITEM_SIZE
        && size_of::<sys::rte_flow_item_udp>() <= ITEM_SIZE
        && size_of::<sys::rte_flow_item_tcp>() <= ITEM_SIZE
        && size_of::<sys::rte_flow_item_gtp>() <= ITEM_SIZE
        && size_of::<sys::rte_flow_item_gtp_psc>() <= ITEM_SIZE
        && size_of::<sys::rte_flow_item_integrity>() <= ITEM_SIZE
        && size_of::<sys::rte_flow_item_ethdev>() <= ITEM_SIZE
);

/// A rule on a port, and its counter if it has one.
#[derive(Debug)]
struct EthdevFlow {
    port: usize,
    rule: *mut sys::rte_flow,
    counter: *mut sys::rte_flow_action_handle,
}

/// The ports whose cards accept flows. The ports run as long as this value lives.
#[derive(Debug)]
pub struct EthdevFlows {
    ports: Vec<(PortId, Arc<StartedPort>)>,
    flows: HashMap<FlowHandle, EthdevFlow>,
    last: u64,
}

// SAFETY: the handles belong to ports that this value keeps running; DPDK lets one thread at a time
// use them, and every use takes `&mut self`.
unsafe impl Send for EthdevFlows {}

impl EthdevFlows {
    /// Makes one card of these ports; flows refer to them by their ids.
    #[must_use]
    pub fn new<'p>(ports: impl IntoIterator<Item = (PortId, &'p Port)>) -> Self {
        let ports = ports.into_iter().map(|(id, port)| (id, Arc::clone(&port.running)));
        Self { ports: ports.collect(), flows: HashMap::new(), last: 0 }
    }

    fn position(&self, port: PortId) -> Result<usize, FlowCardError> {
        let at = self.ports.iter().position(|(known, _)| *known == port);
        at.ok_or_else(|| FlowCardError(format!("port {} takes no flows", port.0)))
    }

    fn ethdev(&self, at: usize) -> u16 {
        self.ports.get(at).map_or(u16::MAX, |(_, running)| running.id())
    }

    fn try_create(&mut self, flow: &Flow) -> Result<EthdevFlow, (Errno, String)> {
        let at = self.position(flow.port).map_err(|error| (Errno::none(), error.0))?;
        let id = self.ethdev(at);
        let counter = match flow.actions.contains(&FlowAction::Count) {
            true => create_counter(id)?,
            false => null_mut(),
        };
        let rule = self.create_rule(id, flow, counter);
        match rule {
            Ok(rule) => Ok(EthdevFlow { port: at, rule, counter }),
            Err(reason) => {
                destroy_counter(id, counter);
                Err(reason)
            }
        }
    }

    fn create_rule(
        &self,
        id: u16,
        flow: &Flow,
        counter: *mut sys::rte_flow_action_handle,
    ) -> Result<*mut sys::rte_flow, (Errno, String)> {
        let lists = FlowLists::of(flow, id, counter, |port| {
            self.position(port).ok().map(|at| self.ethdev(at))
        });
        let lists = lists.map_err(|words| (Errno::none(), words.to_owned()))?;
        let (items, actions) = (lists.items(), lists.actions());
        let (attr, mut error) = (attributes(flow.priority), empty_flow_error());
        // SAFETY: both lists end with END and point into `lists`, which outlives the call; the
        // driver copies what it keeps. The counter belongs to the port.
        let rule = unsafe {
            sys::rte_flow_create(
                id,
                &raw const attr,
                items.as_ptr(),
                actions.as_ptr(),
                &raw mut error,
            )
        };
        if rule.is_null() { Err((Errno::last(), text(&error))) } else { Ok(rule) }
    }
}

impl FlowCard for EthdevFlows {
    fn create(&mut self, flow: &Flow) -> Result<FlowHandle, FlowCardError> {
        let (outcome, logged) = log::capture(|| self.try_create(flow));
        let created = outcome.map_err(|(errno, message)| card_error(errno, &message, &logged))?;
        if let Some((_, running)) = self.ports.get(created.port) {
            running.has_flow_rules.store(true, Ordering::Relaxed);
        }
        self.last += 1;
        let number = FlowHandle(self.last);
        self.flows.insert(number, created);
        Ok(number)
    }

    fn destroy(&mut self, flow: FlowHandle) -> Result<(), FlowCardError> {
        let at = self.flows.get(&flow).map(|known| known.port).ok_or_else(unknown_flow)?;
        let id = self.ethdev(at);
        let known = self.flows.get_mut(&flow).ok_or_else(unknown_flow)?;
        if known.rule.is_null() {
            return Ok(());
        }
        let mut error = empty_flow_error();
        // SAFETY: the rule exists on this port, and is not used after it was destroyed.
        let code = unsafe { sys::rte_flow_destroy(id, known.rule, &raw mut error) };
        if code < 0 {
            return Err(card_error(Errno::of_return(code), &text(&error), ""));
        }
        known.rule = null_mut();
        Ok(())
    }

    fn query(&mut self, flow: FlowHandle) -> Result<FlowCounts, FlowCardError> {
        let known = self.flows.get(&flow).ok_or_else(unknown_flow)?;
        if known.counter.is_null() {
            return Ok(FlowCounts::default());
        }
        // SAFETY: numbers only.
        let mut counts: sys::rte_flow_query_count = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut error = empty_flow_error();
        // SAFETY: the counter exists on this port; the query of a counter writes this structure.
        let code = unsafe {
            sys::rte_flow_action_handle_query(
                self.ethdev(known.port),
                known.counter,
                (&raw mut counts).cast::<c_void>(),
                &raw mut error,
            )
        };
        if code < 0 {
            return Err(card_error(Errno::of_return(code), &text(&error), ""));
        }
        if counts.hits_set() == 0 || counts.bytes_set() == 0 {
            return Err(FlowCardError("the driver does not count packets and octets".to_owned()));
        }
        Ok(FlowCounts { pkts: counts.hits, bytes: counts.bytes })
    }

    fn release(&mut self, flow: FlowHandle) {
        if self.flows.get(&flow).is_some_and(|known| known.rule.is_null())
            && let Some(known) = self.flows.remove(&flow)
        {
            destroy_counter(self.ethdev(known.port), known.counter);
        }
    }
}

impl Drop for EthdevFlows {
    fn drop(&mut self) {
        for known in self.flows.values() {
            let id = self.ethdev(known.port);
            let mut error = empty_flow_error();
            if !known.rule.is_null() {
                // SAFETY: the rule exists on this port, and is not used again.
                unsafe { sys::rte_flow_destroy(id, known.rule, &raw mut error) };
            }
            destroy_counter(id, known.counter);
        }
    }
}

/// Joins the error number, the driver's message and the last log line into one error.
fn card_error(errno: Errno, message: &str, logged: &str) -> FlowCardError {
    let mut parts: Vec<String> = Vec::new();
    if errno != Errno::none() {
        parts.push(errno.to_string());
    }
    for text in [message, logged.lines().last().unwrap_or_default()] {
        // If the driver has no message, DPDK sets it to the text of the error number.
        if !text.is_empty() && !parts.iter().any(|part| part.contains(text)) {
            parts.push(text.to_owned());
        }
    }
    FlowCardError(parts.join(": "))
}

fn unknown_flow() -> FlowCardError {
    FlowCardError("there is no such flow".to_owned())
}

fn attributes(priority: FlowPriority) -> sys::rte_flow_attr {
    // SAFETY: numbers only.
    let mut attr: sys::rte_flow_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    attr.set_transfer(1);
    attr.priority = match priority {
        FlowPriority::Exception => 0,
        FlowPriority::Session => 1,
    };
    attr
}

fn create_counter(id: u16) -> Result<*mut sys::rte_flow_action_handle, (Errno, String)> {
    // SAFETY: numbers only.
    let mut conf: sys::rte_flow_indir_action_conf = unsafe { MaybeUninit::zeroed().assume_init() };
    conf.set_transfer(1);
    let count = sys::rte_flow_action_count { id: 0 };
    let kind = action_type::RTE_FLOW_ACTION_TYPE_COUNT;
    let action = sys::rte_flow_action { type_: kind, conf: (&raw const count).cast() };
    let mut error = empty_flow_error();
    // SAFETY: reads both structures, which outlive the call; DPDK checks the port number.
    let handle = unsafe {
        sys::rte_flow_action_handle_create(id, &raw const conf, &raw const action, &raw mut error)
    };
    if handle.is_null() { Err((Errno::last(), text(&error))) } else { Ok(handle) }
}

fn destroy_counter(id: u16, counter: *mut sys::rte_flow_action_handle) {
    if !counter.is_null() {
        let mut error = empty_flow_error();
        // SAFETY: the counter exists on this port, no rule uses it, and it is not used again.
        unsafe { sys::rte_flow_action_handle_destroy(id, counter, &raw mut error) };
    }
}

/// The type of a pattern item, and its value with the mask; without them any content matches.
type EthdevItem = (item_type::Type, Option<Box<MaskedItem>>);

/// An action, with the value that its configuration pointer points to.
enum EthdevAction {
    None(action_type::Type),
    Counter(*mut sys::rte_flow_action_handle),
    Decap(Box<sys::rte_flow_action_raw_decap>, #[allow(dead_code, reason = "points here")] Vec<u8>),
    Encap(Box<sys::rte_flow_action_raw_encap>, #[allow(dead_code, reason = "points here")] Vec<u8>),
    Ethdev(action_type::Type, Box<sys::rte_flow_action_ethdev>),
}

/// The items and actions of a flow in DPDK's format, and the values that they point to.
struct FlowLists {
    items: Vec<EthdevItem>,
    actions: Vec<EthdevAction>,
}

impl FlowLists {
    /// Makes the lists for a rule of ethdev `id`. `ethdev` returns the ethdev id of a port.
    fn of(
        flow: &Flow,
        id: u16,
        counter: *mut sys::rte_flow_action_handle,
        ethdev: impl Fn(PortId) -> Option<u16>,
    ) -> Result<Self, &'static str> {
        let from_link = (
            item_type::RTE_FLOW_ITEM_TYPE_REPRESENTED_PORT,
            Some(octets(&id.to_ne_bytes(), &[u8::MAX; 2])),
        );
        let items = flow.items.iter().map(item);
        let items = core::iter::once(from_link).chain(items).collect();
        let action = |action: &FlowAction| {
            Ok(match action {
                FlowAction::Count => EthdevAction::Counter(counter),
                FlowAction::Decapsulate(front) => {
                    let mut front = front.clone();
                    let (data, size) = (front.as_mut_ptr(), front.len());
                    let conf = sys::rte_flow_action_raw_decap { data, size };
                    EthdevAction::Decap(Box::new(conf), front)
                }
                FlowAction::Encapsulate(front) => {
                    let mut front = front.clone();
                    let (data, size) = (front.as_mut_ptr(), front.len());
                    let preserve = null_mut();
                    let conf = sys::rte_flow_action_raw_encap { data, preserve, size };
                    EthdevAction::Encap(Box::new(conf), front)
                }
                FlowAction::DecrementHops => {
                    EthdevAction::None(action_type::RTE_FLOW_ACTION_TYPE_DEC_TTL)
                }
                FlowAction::Send(port) => {
                    let port_id = ethdev(*port).ok_or("packets leave through another card")?;
                    EthdevAction::Ethdev(
                        action_type::RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT,
                        Box::new(sys::rte_flow_action_ethdev { port_id }),
                    )
                }
                FlowAction::ToWorker => EthdevAction::Ethdev(
                    action_type::RTE_FLOW_ACTION_TYPE_PORT_REPRESENTOR,
                    Box::new(sys::rte_flow_action_ethdev { port_id: id }),
                ),
            })
        };
        Ok(Self { items, actions: flow.actions.iter().map(action).collect::<Result<_, _>>()? })
    }

    /// Returns the items, terminated by END. They point into `self`.
    fn items(&self) -> Vec<sys::rte_flow_item> {
        let item = |(kind, field): &EthdevItem| {
            let (spec, mask) = match field.as_deref() {
                Some(MaskedItem { spec, mask }) => (spec.as_ptr().cast(), mask.as_ptr().cast()),
                None => (null(), null()),
            };
            sys::rte_flow_item { type_: *kind, spec, last: null(), mask }
        };
        let end = (item_type::RTE_FLOW_ITEM_TYPE_END, None);
        self.items.iter().chain([&end]).map(item).collect()
    }

    /// Returns the actions, terminated by END. They point into `self`.
    fn actions(&self) -> Vec<sys::rte_flow_action> {
        let action = |action: &EthdevAction| {
            let (type_, conf) = match action {
                EthdevAction::None(kind) => (*kind, null()),
                EthdevAction::Counter(handle) => {
                    (action_type::RTE_FLOW_ACTION_TYPE_INDIRECT, handle.cast_const().cast())
                }
                EthdevAction::Decap(conf, _) => {
                    (action_type::RTE_FLOW_ACTION_TYPE_RAW_DECAP, (&raw const **conf).cast())
                }
                EthdevAction::Encap(conf, _) => {
                    (action_type::RTE_FLOW_ACTION_TYPE_RAW_ENCAP, (&raw const **conf).cast())
                }
                EthdevAction::Ethdev(kind, conf) => (*kind, (&raw const **conf).cast()),
            };
            sys::rte_flow_action { type_, conf }
        };
        let end = EthdevAction::None(action_type::RTE_FLOW_ACTION_TYPE_END);
        self.actions.iter().chain([&end]).map(action).collect()
    }
}

fn octets(spec: &[u8], mask: &[u8]) -> Box<MaskedItem> {
    let mut both = Box::new(MaskedItem { spec: [0; ITEM_SIZE], mask: [0; ITEM_SIZE] });
    both.spec[..spec.len()].copy_from_slice(spec);
    both.mask[..mask.len()].copy_from_slice(mask);
    both
}

fn item(item: &FlowItem) -> EthdevItem {
    let kind = match item.header {
        FlowHeader::Ethernet => item_type::RTE_FLOW_ITEM_TYPE_ETH,
        FlowHeader::Vlan => item_type::RTE_FLOW_ITEM_TYPE_VLAN,
        FlowHeader::Ipv4 => item_type::RTE_FLOW_ITEM_TYPE_IPV4,
        FlowHeader::Udp => item_type::RTE_FLOW_ITEM_TYPE_UDP,
        FlowHeader::Tcp => item_type::RTE_FLOW_ITEM_TYPE_TCP,
        FlowHeader::Gtpu => item_type::RTE_FLOW_ITEM_TYPE_GTPU,
        FlowHeader::Container => item_type::RTE_FLOW_ITEM_TYPE_GTP_PSC,
        FlowHeader::Intact(nth) => return integrity(nth),
    };
    (kind, (!item.spec.is_empty()).then(|| octets(&item.spec, &item.mask)))
}

/// Makes an item that matches if the hardware found the IPv4 header at level `nth` correct,
/// including its checksum.
fn integrity(nth: u32) -> EthdevItem {
    // SAFETY: numbers only.
    let mut checks: sys::rte_flow_item_integrity = unsafe { MaybeUninit::zeroed().assume_init() };
    let bits = &mut checks.__bindgen_anon_1;
    // SAFETY: the union is one number, and these are bits of it.
    unsafe { bits.__bindgen_anon_1.set_l3_ok(1) };
    // SAFETY: as above.
    unsafe { bits.__bindgen_anon_1.set_ipv4_csum_ok(1) };
    // SAFETY: as above.
    let value = unsafe { checks.__bindgen_anon_1.value }.to_ne_bytes();
    let at = core::mem::offset_of!(sys::rte_flow_item_integrity, __bindgen_anon_1);
    let mut both = octets(&nth.to_ne_bytes(), &[]);
    both.spec[at..at + value.len()].copy_from_slice(&value);
    both.mask[at..at + value.len()].copy_from_slice(&value);
    (item_type::RTE_FLOW_ITEM_TYPE_INTEGRITY, Some(both))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(items: Vec<FlowItem>, actions: Vec<FlowAction>) -> Flow {
        Flow { port: PortId(0), priority: FlowPriority::Session, items, actions }
    }

    /// Reads the value that an item or a configuration of `FlowLists` points to.
    fn read<T>(at: *const c_void) -> T {
        // SAFETY: the callers name the type of the structure at `at`, or of the first part of a
        // longer item there; it consists of numbers and pointers.
        unsafe { at.cast::<T>().read() }
    }

    #[test]
    fn headers_stand_where_dpdk_has_them() {
        let header = |header, spec: &[u8]| FlowItem {
            header,
            spec: spec.to_vec(),
            mask: vec![u8::MAX; spec.len()],
        };
        let container = header(FlowHeader::Container, &[1, 0x10, 9]);
        let items = vec![
            header(FlowHeader::Ethernet, &[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x08, 0]),
            header(FlowHeader::Gtpu, &[0x34, 255, 0, 0, 1, 2, 3, 4]),
            container,
            FlowItem { header: FlowHeader::Intact(2), spec: Vec::new(), mask: Vec::new() },
            header(FlowHeader::Tcp, &[0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0x50, 2]),
        ];
        let flow = flow(items, Vec::new());
        let lists = FlowLists::of(&flow, 7, null_mut(), |_| None).unwrap();
        let items = lists.items();
        assert_eq!(items.len(), 7);
        let port: sys::rte_flow_item_ethdev = read(items[0].spec);
        let ethernet: sys::rte_flow_item_eth = read(items[1].spec);
        let gtpu: sys::rte_flow_item_gtp = read(items[2].spec);
        let container: sys::rte_flow_item_gtp_psc = read(items[3].spec);
        let integrity: sys::rte_flow_item_integrity = read(items[4].spec);
        assert_eq!(port.port_id, 7);
        // SAFETY: both members of the union are this header.
        assert_eq!(unsafe { ethernet.__bindgen_anon_1.hdr.ether_type }, 0x0800_u16.to_be());
        assert_eq!((gtpu.v_pt_rsv_flags, { gtpu.teid }), (0x34, 0x0102_0304_u32.to_be()));
        assert_eq!((container.hdr.ext_hdr_len, container.hdr.type_()), (1, 1));
        assert_eq!(container.hdr.qfi(), 9);
        let tcp: sys::rte_flow_item_tcp = read(items[5].spec);
        assert_eq!((tcp.hdr.data_off, tcp.hdr.tcp_flags), (0x50, 2));
        assert_eq!(integrity.level, 2);
        // SAFETY: as above.
        assert_eq!(unsafe { integrity.__bindgen_anon_1.value }, 1 << 2 | 1 << 5);
    }

    #[test]
    fn actions_keep_their_order_and_name_ethdevs() {
        let actions = vec![
            FlowAction::Decapsulate(vec![0; 50]),
            FlowAction::Encapsulate(vec![7; 14]),
            FlowAction::DecrementHops,
            FlowAction::Send(PortId(3)),
        ];
        let flow = flow(Vec::new(), actions);
        assert!(FlowLists::of(&flow, 7, null_mut(), |_| None).is_err());
        let lists = FlowLists::of(&flow, 7, null_mut(), |port| Some(port.0 + 10)).unwrap();
        let actions = lists.actions();
        let kinds: Vec<_> = actions.iter().map(|action| action.type_).collect();
        assert_eq!(
            kinds,
            [
                action_type::RTE_FLOW_ACTION_TYPE_RAW_DECAP,
                action_type::RTE_FLOW_ACTION_TYPE_RAW_ENCAP,
                action_type::RTE_FLOW_ACTION_TYPE_DEC_TTL,
                action_type::RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT,
                action_type::RTE_FLOW_ACTION_TYPE_END,
            ]
        );
        let encap: sys::rte_flow_action_raw_encap = read(actions[1].conf);
        let port: sys::rte_flow_action_ethdev = read(actions[3].conf);
        assert_eq!((encap.size, port.port_id), (14, 13));
        assert_eq!(read::<[u8; 14]>(encap.data.cast_const().cast()), [7; 14]);
    }
}
