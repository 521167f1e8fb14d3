//! Packet Detection Information beyond the usual: what names the operator's configuration.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod smf;

use adit_n4::NodeConfig;
use adit_pfcp::ie::{FailedRuleId, NetworkInstance, OffendingIe};
use adit_pfcp::message::SessionEstablishmentResponse;
use adit_pfcp::{Cause, IeType, Message};
use adit_session::{LocalInterface, Provisioning, StoreConfig};
use adit_types::{InterfaceRole, InterfaceSet, PdrId};

use smf::*;

fn established(bytes: &[u8]) -> SessionEstablishmentResponse<'_> {
    let Message::SessionEstablishmentResponse(body) = decode(bytes) else { panic!() };
    body
}

fn script() -> SessionScript {
    SessionScript::new(0xc1, 1)
}

fn associated_with(provisioning: Provisioning) -> Bench {
    let store = StoreConfig { provisioning, ..config().store };
    let mut bench = Bench::with(NodeConfig { store, ..config() });
    bench.associate(10);
    bench
}

fn two_networks() -> Provisioning {
    let interface =
        |role, name: Option<&str>| LocalInterface { role, network_instance: name.map(Box::from) };
    let interfaces = vec![
        interface(InterfaceRole::N3, None),
        interface(InterfaceRole::N6, Some("internet")),
        interface(InterfaceRole::N6, Some("ims")),
    ];
    Provisioning { interfaces }
}

/// An establishment whose downlink PDR names the network instance.
fn in_network(octets: &'static [u8]) -> Vec<u8> {
    establish_with(2, &script(), |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        pdrs[1].pdi.network_instance = Some(NetworkInstance(octets));
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    })
}

/// TS 29.244 §8.2.4: the encoding is up to the peers, so both usual ones mean the same.
#[test]
fn network_instance_as_text_or_labels_selects_interfaces() {
    for octets in [&b"ims"[..], b"\x03ims", b"\x03IMS\x00"] {
        let mut bench = associated_with(two_networks());
        bench.node.handle_datagram(bench.now, smf(10), &in_network(octets));
        let (_, delta) = bench.node.poll_delta().unwrap();
        assert_eq!(delta.rules.unwrap().downlink[0].interfaces, InterfaceSet(0b101));
    }
}

/// TS 29.244 §7.5.3.1: the response names the IE and the rule.
#[test]
fn network_instance_unknown_is_refused_with_rule_and_ie() {
    let mut bench = associated_with(two_networks());
    let bytes = bench.answer(smf(10), &in_network(b"corp"));
    let body = established(&bytes);
    assert_eq!(body.cause, Cause::RuleCreationModificationFailure);
    assert_eq!(body.offending_ie, Some(OffendingIe::from(IeType::NETWORK_INSTANCE)));
    assert_eq!(body.failed_rule_id, Some(FailedRuleId::Pdr(PdrId(2))));
    assert_eq!(bench.node.store().len(), 0);
}
