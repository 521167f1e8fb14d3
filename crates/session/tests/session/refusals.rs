//! The contents of a refusal: the rule, the reason, and the wrong part of the rule.

use adit_session::{Refusal, RuleId};
use adit_types::{FarId, PdrId, QerId, Seid, Teid, UrrId};

#[test]
fn refusal_names_the_rule_and_what_is_wrong_with_it() {
    let (pdr, urr) = (PdrId(3), UrrId(4));
    let prefix = "198.51.100.0/24".parse().unwrap();
    let addr = "192.0.2.7".parse().unwrap();
    let told = [
        (Refusal::UnknownFar { pdr, far: FarId(17) }, format!("{}", FarId(17))),
        (Refusal::UnknownQer { pdr, qer: QerId(17) }, format!("{}", QerId(17))),
        (Refusal::UnknownUrr { pdr, urr: UrrId(17) }, format!("{}", UrrId(17))),
        (Refusal::ForeignAddress { pdr, addr }, addr.to_string()),
        (Refusal::UeAddressTaken { pdr, addr }, addr.to_string()),
        (Refusal::FTeidTaken { pdr, teid: Teid(0x17) }, format!("{}", Teid(0x17))),
        (Refusal::FTeidSidesDiffer { pdr, teid: Teid(0x17) }, format!("{}", Teid(0x17))),
        (Refusal::FTeidDirectionsDiffer { pdr, teid: Teid(0x17) }, format!("{}", Teid(0x17))),
        (Refusal::UePrefixInvalid { pdr, prefix }, prefix.to_string()),
        (Refusal::FramedRouteInvalid { pdr, prefix }, prefix.to_string()),
        (Refusal::FramedRouteTaken { pdr, prefix }, prefix.to_string()),
    ];
    for (refusal, what) in told {
        let expected = format!("PDR {pdr}: {}: {what}", refusal.text());
        assert_eq!(refusal.to_string(), expected);
    }
    let refusal = Refusal::UnknownLinkedUrr { urr, linked: UrrId(17) };
    assert_eq!(refusal.to_string(), format!("URR {urr}: {}: {}", refusal.text(), UrrId(17)));
    let refusal = Refusal::UnknownQuotaFar { urr, far: FarId(17) };
    assert_eq!(refusal.to_string(), format!("URR {urr}: {}: {}", refusal.text(), FarId(17)));
    let refusal = Refusal::UnknownSession { up_seid: Seid(17) };
    assert_eq!(refusal.to_string(), format!("{}: {}", refusal.text(), Seid(17)));
    assert_eq!(Refusal::SessionTableFull.to_string(), "the session table is full");
    let refusal = Refusal::UnknownRule { rule: RuleId::Qer(QerId(17)) };
    assert_eq!(refusal.to_string(), format!("QER {}: {}", QerId(17), refusal.text()));
}
