//! Checks requests of a UPF against TS 29.510 and TS 29.571. An attribute that is not listed is an
//! error: it is misspelled, or has to be added here.

use serde_json::{Map, Value};

type Conformance = Result<(), String>;
type Check = fn(&Value) -> Conformance;

struct Attribute {
    name: &'static str,
    is_required: bool,
    check: Check,
}

const fn must(name: &'static str, check: Check) -> Attribute {
    Attribute { name, is_required: true, check }
}

const fn may(name: &'static str, check: Check) -> Attribute {
    Attribute { name, is_required: false, check }
}

const PROFILE: &[Attribute] = &[
    must("nfInstanceId", uuid),
    must("nfType", |value| one_of(value, &["UPF"])),
    must("nfStatus", status),
    may("heartBeatTimer", |value| number(value, 1, u64::MAX)),
    must("load", |value| number(value, 0, 100)),
    may("priority", |value| number(value, 0, 65_535)),
    may("capacity", |value| number(value, 0, 65_535)),
    may("fqdn", fqdn),
    may("ipv4Addresses", |value| list(value, ipv4)),
    may("ipv6Addresses", |value| list(value, ipv6)),
    must("sNssais", |value| list(value, snssai)),
    must("upfInfo", upf_info),
];

const UPF_INFO: &[Attribute] = &[
    must("sNssaiUpfInfoList", |value| list(value, snssai_item)),
    may("smfServingArea", |value| list(value, text)),
    may("interfaceUpfInfoList", |value| list(value, interface)),
    may("pduSessionTypes", |value| list(value, session_type)),
    may("ueIpAddrInd", boolean),
    may("atsssCapability", |value| {
        object(value, &[may("atsssLL", boolean), may("mptcp", boolean)])
    }),
];

const DNN: &[Attribute] = &[
    must("dnn", text),
    may("pduSessionTypes", |value| list(value, session_type)),
    may("ipv4AddressRanges", |value| {
        list(value, |item| object(item, &[must("start", ipv4), must("end", ipv4)]))
    }),
    may("ipv6PrefixRanges", |value| {
        list(value, |item| object(item, &[must("start", ipv6_prefix), must("end", ipv6_prefix)]))
    }),
    may("networkInstance", text),
];

const INTERFACE: &[Attribute] = &[
    must("interfaceType", |value| one_of(value, &["N3", "N6", "N9"])),
    may("ipv4EndpointAddresses", |value| list(value, ipv4)),
    may("ipv6EndpointAddresses", |value| list(value, ipv6)),
    may("networkInstance", text),
];

/// Checks the NFProfile of NFRegister.
pub(crate) fn check_profile(profile: &Value) -> Conformance {
    object(profile, PROFILE)?;
    let addressed = ["fqdn", "ipv4Addresses", "ipv6Addresses"];
    let has_address = addressed.iter().any(|name| profile.get(name).is_some());
    has_address.then_some(()).ok_or_else(|| "no address of the UPF".to_owned())
}

/// Checks a JSON Patch of NFUpdate against the profile that it changes, and applies it.
pub(crate) fn apply_patch(profile: &mut Map<String, Value>, patch: &Value) -> Conformance {
    let items = patch.as_array().filter(|items| !items.is_empty()).ok_or("no list of changes")?;
    for item in items {
        let known = [
            must("op", |value| one_of(value, &["add", "remove", "replace"])),
            must("path", text),
            may("value", |_| Ok(())),
        ];
        object(item, &known)?;
        let (op, path) = (item["op"].as_str().unwrap(), item["path"].as_str().unwrap());
        let name = path.strip_prefix('/').ok_or(format!("{path} begins without a slash"))?;
        let exists = profile.contains_key(name);
        match (op, item.get("value")) {
            ("add", Some(value)) => drop(profile.insert(name.to_owned(), value.clone())),
            ("replace", Some(value)) if exists => {
                profile.insert(name.to_owned(), value.clone());
            }
            ("remove", None) if exists => drop(profile.remove(name)),
            _ => return Err(format!("{item} does not apply")),
        }
    }
    check_profile(&Value::Object(profile.clone()))
}

fn object(value: &Value, known: &[Attribute]) -> Conformance {
    let object = value.as_object().ok_or(format!("{value} is no object"))?;
    if let Some(missing) = known.iter().find(|of| of.is_required && !object.contains_key(of.name)) {
        return Err(format!("{} is missing", missing.name));
    }
    for (name, value) in object {
        let attribute = known.iter().find(|known| known.name == name);
        let attribute = attribute.ok_or(format!("{name} is unknown"))?;
        (attribute.check)(value).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

/// All lists of these objects have `minItems: 1`.
fn list(value: &Value, check: Check) -> Conformance {
    let items = value.as_array().filter(|items| !items.is_empty());
    items.ok_or(format!("{value} is no list with items"))?.iter().try_for_each(check)
}

fn that(is_valid: bool, value: &Value) -> Conformance {
    is_valid.then_some(()).ok_or(format!("{value} is wrong"))
}

fn parses<T: std::str::FromStr>(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.parse::<T>().is_ok())
}

fn text(value: &Value) -> Conformance {
    that(value.as_str().is_some_and(|text| !text.is_empty()), value)
}

fn boolean(value: &Value) -> Conformance {
    that(value.is_boolean(), value)
}

fn number(value: &Value, min: u64, max: u64) -> Conformance {
    that(value.as_u64().is_some_and(|number| (min..=max).contains(&number)), value)
}

fn one_of(value: &Value, words: &[&str]) -> Conformance {
    that(value.as_str().is_some_and(|text| words.contains(&text)), value)
}

fn status(value: &Value) -> Conformance {
    one_of(value, &["REGISTERED", "UNDISCOVERABLE"])
}

fn session_type(value: &Value) -> Conformance {
    one_of(value, &["IPV4", "IPV6", "IPV4V6", "UNSTRUCTURED", "ETHERNET"])
}

fn ipv4(value: &Value) -> Conformance {
    that(parses::<std::net::Ipv4Addr>(value), value)
}

fn ipv6(value: &Value) -> Conformance {
    that(parses::<std::net::Ipv6Addr>(value), value)
}

fn ipv6_prefix(value: &Value) -> Conformance {
    let parts = value.as_str().and_then(|text| text.split_once('/'));
    let is_prefix = |of: (&str, &str)| {
        of.0.parse::<std::net::Ipv6Addr>().is_ok() && of.1.parse::<u8>().is_ok_and(|len| len <= 128)
    };
    that(parts.is_some_and(is_prefix), value)
}

fn fqdn(value: &Value) -> Conformance {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|octet| octet.is_ascii_alphanumeric() || octet == b'-')
    };
    let is_name = |text: &str| (4..=253).contains(&text.len()) && text.split('.').all(is_label);
    that(value.as_str().is_some_and(is_name), value)
}

fn uuid(value: &Value) -> Conformance {
    let is_uuid = |text: &str| {
        let lengths: Vec<usize> = text.split('-').map(str::len).collect();
        let is_hex = text.bytes().all(|octet| octet == b'-' || octet.is_ascii_hexdigit());
        lengths == [8, 4, 4, 4, 12] && is_hex && text.as_bytes()[14] == b'4'
    };
    that(value.as_str().is_some_and(is_uuid), value)
}

fn snssai(value: &Value) -> Conformance {
    let is_sd = |text: &str| text.len() == 6 && text.bytes().all(|octet| octet.is_ascii_hexdigit());
    object(
        value,
        &[
            must("sst", |value| number(value, 0, 255)),
            may("sd", |value| that(value.as_str().is_some_and(|sd| sd.len() == 6), value)),
        ],
    )?;
    that(value.get("sd").is_none_or(|sd| sd.as_str().is_some_and(is_sd)), value)
}

fn snssai_item(value: &Value) -> Conformance {
    object(
        value,
        &[
            must("sNssai", snssai),
            must("dnnUpfInfoList", |value| list(value, |item| object(item, DNN))),
        ],
    )
}

fn interface(value: &Value) -> Conformance {
    object(value, INTERFACE)?;
    let has_address = ["ipv4EndpointAddresses", "ipv6EndpointAddresses"]
        .iter()
        .any(|name| value.get(name).is_some());
    that(has_address, value)
}

fn upf_info(value: &Value) -> Conformance {
    object(value, UPF_INFO)
}
