//! Flow rules (`rte_flow`): the device steers matching frames to a receive queue.
//!
//! A rule consists of a pattern of headers and a queue. Drivers refuse rules that their device does
//! not support; only creating a rule shows whether it does. Rules are created on a running port,
//! and removed when the port stops.

use core::ffi::CStr;
use core::fmt;
use core::mem::{MaybeUninit, size_of};
use core::net::{Ipv4Addr, Ipv6Addr};
use core::ptr::null;
use std::sync::atomic::Ordering;

use adit_dpdk_sys as sys;
use adit_types::VlanId;
use sys::{rte_flow_action_type as action_type, rte_flow_item_type as item_type};

use super::Port;
use crate::errno::Errno;
use crate::log;

/// A rule that steers matching frames to one receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRule {
    /// The VLAN that frames must have.
    pub vlan: VlanId,
    /// The header field that frames must have.
    pub key: FlowRuleKey,
    /// Index of the receive queue.
    pub queue: u16,
}

/// A header field; only the bits set in `mask` are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowRuleKey {
    /// The TEID of G-PDUs over IPv4.
    TeidOverIpv4 {
        /// The TEID in host byte order.
        teid: u32,
        /// The bits to compare, in host byte order.
        mask: u32,
    },
    /// The TEID of G-PDUs over IPv6.
    TeidOverIpv6 {
        /// The TEID in host byte order.
        teid: u32,
        /// The bits to compare, in host byte order.
        mask: u32,
    },
    /// The destination of IPv4 packets.
    Ipv4Destination {
        /// The address.
        addr: Ipv4Addr,
        /// The bits of the address to compare.
        mask: Ipv4Addr,
    },
    /// The destination of IPv6 packets.
    Ipv6Destination {
        /// The address.
        addr: Ipv6Addr,
        /// The bits of the address to compare.
        mask: Ipv6Addr,
    },
}

/// The reason why a device refuses a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRefusal {
    /// DPDK's reason.
    pub errno: Errno,
    /// The driver's message; empty if there is none.
    pub message: String,
    /// How many rules the device accepted before the refusal. They have been removed.
    pub taken: usize,
}

impl fmt::Display for FlowRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.errno.to_string();
        f.write_str(&reason)?;
        // If the driver has no message, DPDK sets it to the text of the error number.
        if !self.message.is_empty() && !reason.contains(&self.message) {
            write!(f, ": {}", self.message)?;
        }
        if self.taken > 0 { write!(f, ", after {} rules", self.taken) } else { Ok(()) }
    }
}

impl Port {
    /// Installs `rules` on the device, all of them or none.
    ///
    /// # Errors
    /// See [`FlowRefusal`]. Most virtual devices support no flow rules at all.
    pub fn create_flow_rules(&self, rules: &[FlowRule]) -> Result<(), FlowRefusal> {
        let (outcome, log) = log::capture(|| self.create_each(rules));
        outcome.map_err(|(taken, errno, message)| {
            let last = log.lines().last().unwrap_or_default();
            let messages = [message.as_str(), last].into_iter().filter(|text| !text.is_empty());
            FlowRefusal { errno, message: messages.collect::<Vec<_>>().join("; "), taken }
        })
    }

    fn create_each(&self, rules: &[FlowRule]) -> Result<(), (usize, Errno, String)> {
        let id = self.running.id();
        if let Some(first) = rules.first() {
            validate(id, first).map_err(|(errno, message)| (0, errno, message))?;
        }
        let mut created = Vec::with_capacity(rules.len());
        for rule in rules {
            match create(id, rule) {
                Ok(flow) => created.push(flow),
                Err((errno, message)) => {
                    for flow in &created {
                        let mut error = empty_flow_error();
                        // SAFETY: the rule exists on this port, and is not used again.
                        unsafe { sys::rte_flow_destroy(id, *flow, &raw mut error) };
                    }
                    return Err((created.len(), errno, message));
                }
            }
            self.running.has_flow_rules.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Removes all rules of a port.
pub(super) fn flush(id: u16) {
    let mut error = empty_flow_error();
    // SAFETY: valid for any port id; writes one structure. No code keeps a pointer to a rule.
    unsafe { sys::rte_flow_flush(id, &raw mut error) };
}

fn validate(id: u16, rule: &FlowRule) -> Result<(), (Errno, String)> {
    let pattern = FlowPattern::of(rule);
    let (items, actions) = (pattern.items(), pattern.actions());
    let (attr, mut error) = (ingress(), empty_flow_error());
    // SAFETY: both lists end with END and point into `pattern`, which outlives the call.
    let code = unsafe {
        sys::rte_flow_validate(
            id,
            &raw const attr,
            items.as_ptr(),
            actions.as_ptr(),
            &raw mut error,
        )
    };
    if code < 0 { Err((Errno::of_return(code), text(&error))) } else { Ok(()) }
}

fn create(id: u16, rule: &FlowRule) -> Result<*mut sys::rte_flow, (Errno, String)> {
    let pattern = FlowPattern::of(rule);
    let (items, actions) = (pattern.items(), pattern.actions());
    let (attr, mut error) = (ingress(), empty_flow_error());
    // SAFETY: as in `validate`; the driver copies what it keeps.
    let flow = unsafe {
        sys::rte_flow_create(id, &raw const attr, items.as_ptr(), actions.as_ptr(), &raw mut error)
    };
    if flow.is_null() { Err((Errno::last(), text(&error))) } else { Ok(flow) }
}

fn ingress() -> sys::rte_flow_attr {
    // SAFETY: numbers only.
    let mut attr: sys::rte_flow_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    attr.set_ingress(1);
    attr
}

pub(super) fn empty_flow_error() -> sys::rte_flow_error {
    // SAFETY: numbers and pointers only.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

pub(super) fn text(error: &sys::rte_flow_error) -> String {
    if error.message.is_null() {
        return String::new();
    }
    // SAFETY: a C string of the driver, valid until its next flow call.
    unsafe { CStr::from_ptr(error.message) }.to_string_lossy().into_owned()
}

/// The octets of a pattern item. Every item used here begins with the header as on the wire; the
/// rest of DPDK's structure may be zero.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
struct FlowItemOctets([u8; ITEM_SIZE_MAX]);

const ITEM_SIZE_MAX: usize = 64;

const _: () = assert!(
    size_of::<sys::rte_flow_item_vlan>() <= ITEM_SIZE_MAX
        && size_of::<sys::rte_flow_item_ipv4>() <= ITEM_SIZE_MAX
        && size_of::<sys::rte_flow_item_ipv6>() <= ITEM_SIZE_MAX
        && size_of::<sys::rte_flow_item_gtp>() <= ITEM_SIZE_MAX
);

impl FlowItemOctets {
    fn at(offset: usize, octets: &[u8]) -> Self {
        let mut header = [0; ITEM_SIZE_MAX];
        header[offset..offset + octets.len()].copy_from_slice(octets);
        Self(header)
    }
}

/// A header, and the value and mask of one of its fields; without them any content matches.
type FlowPatternItem = (item_type::Type, Option<(FlowItemOctets, FlowItemOctets)>);

/// The headers of a rule, and the queue for matching frames.
struct FlowPattern {
    headers: Vec<FlowPatternItem>,
    queue: sys::rte_flow_action_queue,
}

impl FlowPattern {
    fn of(rule: &FlowRule) -> Self {
        let field = |kind, offset, value: &[u8], mask: &[u8]| -> FlowPatternItem {
            (kind, Some((FlowItemOctets::at(offset, value), FlowItemOctets::at(offset, mask))))
        };
        let any = |kind| -> FlowPatternItem { (kind, None) };
        let mut headers = vec![any(item_type::RTE_FLOW_ITEM_TYPE_ETH)];
        if rule.vlan != VlanId::UNTAGGED {
            let (tci, mask) = (rule.vlan.value().to_be_bytes(), 0x0fff_u16.to_be_bytes());
            headers.push(field(item_type::RTE_FLOW_ITEM_TYPE_VLAN, 0, &tci, &mask));
        }
        let gtpu = |teid: u32, mask: u32| {
            let (teid, mask) = (teid.to_be_bytes(), mask.to_be_bytes());
            // The TEID is in octets 5 to 8 of the header. Spec: TS 29.281 §5.1.
            field(item_type::RTE_FLOW_ITEM_TYPE_GTPU, 4, &teid, &mask)
        };
        let udp = any(item_type::RTE_FLOW_ITEM_TYPE_UDP);
        let (ipv4, ipv6) = (item_type::RTE_FLOW_ITEM_TYPE_IPV4, item_type::RTE_FLOW_ITEM_TYPE_IPV6);
        match rule.key {
            FlowRuleKey::TeidOverIpv4 { teid, mask } => {
                headers.extend([any(ipv4), udp, gtpu(teid, mask)]);
            }
            FlowRuleKey::TeidOverIpv6 { teid, mask } => {
                headers.extend([any(ipv6), udp, gtpu(teid, mask)]);
            }
            // The destination follows 16 octets of the header. Spec: RFC 791 §3.1.
            FlowRuleKey::Ipv4Destination { addr, mask } => {
                headers.push(field(ipv4, 16, &addr.octets(), &mask.octets()));
            }
            // The destination follows 24 octets of the header. Spec: RFC 8200 §3.
            FlowRuleKey::Ipv6Destination { addr, mask } => {
                headers.push(field(ipv6, 24, &addr.octets(), &mask.octets()));
            }
        }
        Self { headers, queue: sys::rte_flow_action_queue { index: rule.queue } }
    }

    /// Returns the items in DPDK's format, terminated by END. They point into `self`.
    fn items(&self) -> Vec<sys::rte_flow_item> {
        let item = |(kind, field): &FlowPatternItem| {
            let (spec, mask) = match field {
                Some((spec, mask)) => ((&raw const *spec).cast(), (&raw const *mask).cast()),
                None => (null(), null()),
            };
            sys::rte_flow_item { type_: *kind, spec, last: null(), mask }
        };
        let end = (item_type::RTE_FLOW_ITEM_TYPE_END, None);
        self.headers.iter().chain([&end]).map(item).collect()
    }

    /// Returns the actions in DPDK's format. They point into `self`.
    fn actions(&self) -> [sys::rte_flow_action; 2] {
        let conf = (&raw const self.queue).cast();
        let queue = action_type::RTE_FLOW_ACTION_TYPE_QUEUE;
        let end = action_type::RTE_FLOW_ACTION_TYPE_END;
        [
            sys::rte_flow_action { type_: queue, conf },
            sys::rte_flow_action { type_: end, conf: null() },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(vlan: u16, key: FlowRuleKey) -> FlowPattern {
        FlowPattern::of(&FlowRule { vlan: VlanId::from_tag_control(vlan), key, queue: 3 })
    }

    #[test]
    fn teid_is_where_the_header_of_gtpu_has_it() {
        let pattern = pattern(7, FlowRuleKey::TeidOverIpv4 { teid: 0x0102_0304, mask: 0x7e });
        let kinds: Vec<_> = pattern.items().iter().map(|item| item.type_).collect();
        assert_eq!(
            kinds,
            [
                item_type::RTE_FLOW_ITEM_TYPE_ETH,
                item_type::RTE_FLOW_ITEM_TYPE_VLAN,
                item_type::RTE_FLOW_ITEM_TYPE_IPV4,
                item_type::RTE_FLOW_ITEM_TYPE_UDP,
                item_type::RTE_FLOW_ITEM_TYPE_GTPU,
                item_type::RTE_FLOW_ITEM_TYPE_END,
            ]
        );
        let items = pattern.items();
        // SAFETY: the item points to a header of this size in `pattern`.
        let gtp = unsafe { items[4].spec.cast::<[u8; 8]>().read() };
        assert_eq!(gtp, [0, 0, 0, 0, 1, 2, 3, 4]);
        // SAFETY: as above.
        let mask = unsafe { items[4].mask.cast::<[u8; 8]>().read() };
        assert_eq!(mask, [0, 0, 0, 0, 0, 0, 0, 0x7e]);
        // SAFETY: as above.
        let vlan = unsafe { items[1].spec.cast::<[u8; 2]>().read() };
        assert_eq!(vlan, [0, 7]);
        assert!(items[0].spec.is_null() && items[3].mask.is_null());
    }

    #[test]
    fn destination_is_where_dpdk_has_it() {
        let key = FlowRuleKey::Ipv4Destination {
            addr: Ipv4Addr::new(10, 45, 0, 6),
            mask: Ipv4Addr::new(255, 255, 0, 0x7e),
        };
        let v4 = pattern(0, key);
        let items = v4.items();
        // SAFETY: the item points to zeroed octets, at least as many as the structure has, and the
        // structure consists of numbers.
        let ip = unsafe { items[1].spec.cast::<sys::rte_flow_item_ipv4>().read() };
        assert_eq!({ ip.hdr.dst_addr }, u32::from_ne_bytes([10, 45, 0, 6]));
        let key = FlowRuleKey::Ipv6Destination {
            addr: "2001:db8::1".parse().unwrap(),
            mask: Ipv6Addr::from_bits(u128::MAX),
        };
        let v6 = pattern(0, key);
        let items = v6.items();
        // SAFETY: as above.
        let mask = unsafe { items[1].mask.cast::<[u8; 40]>().read() };
        assert_eq!((&mask[..24], &mask[24..]), (&[0; 24][..], &[0xff; 16][..]));
        // SAFETY: the configuration points to the index of the queue.
        let queue = unsafe { v6.actions()[0].conf.cast::<u16>().read() };
        assert_eq!(queue, 3);
    }
}
