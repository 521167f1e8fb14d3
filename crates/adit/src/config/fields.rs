//! Values that occur in several sections.

pub(super) use crate::ip_net::IpNet;

/// The expected form of a network instance, for messages and documents.
pub(super) const NETWORK_INSTANCE: &str = "a name such as \"internet\"";

/// Checks that a text is a network instance. The error is the message to the user.
pub(super) fn network_instance(name: &str) -> Result<(), String> {
    let is_name =
        (1..=100).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
    is_name.then_some(()).ok_or("takes 1 to 100 printable characters without spaces".to_owned())
}

/// Checks that a text is a name. The error is the message to the user.
pub(super) fn name(name: &str) -> Result<(), String> {
    (!name.is_empty()).then_some(()).ok_or_else(|| "takes a name".to_owned())
}
