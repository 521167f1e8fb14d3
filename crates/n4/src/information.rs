//! What CP functions tell of a session for people to read: nothing here decides anything.
//!
//! Identities of subscribers are kept masked, so that neither an operator's screen nor a dump of
//! this process tells who somebody is. Spec: TS 29.244 §7.5.2.1, §8.2.101, §8.2.117, §8.2.176,
//! §8.2.186.

use adit_pfcp::ie::{ApnDnn, NetworkInstance, RatType, SNssai, UserId};
use adit_pfcp::message::{SessionEstablishmentRequest, SessionModificationRequest};
use adit_pfcp::{Cause, IeType};
use adit_types::Seid;

use crate::node::Node;
use crate::procedure::name;
use crate::refusal::Rejected;

/// Octets of a data network name at most. Spec: TS 23.003 §9.1.
const DNN_BYTES_MAX: usize = 100;

/// Characters of an identity that are not masked: the last ones.
const CLEAR_CHARS: usize = 4;

/// What was told of one session; absent parts were not told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionInformation {
    /// Data network name.
    pub dnn: Option<Box<str>>,
    /// Network slice.
    pub s_nssai: Option<SNssai>,
    /// Radio access technology.
    pub rat_type: Option<RatType>,
    /// Identities of the user by their kind, masked but for the last four characters.
    pub user: Vec<(&'static str, Box<str>)>,
}

impl SessionInformation {
    /// What an establishment tells.
    ///
    /// # Errors
    /// Cause 68 when the DNN is longer than one can be.
    pub(crate) fn of_establishment(
        message: &SessionEstablishmentRequest<'_>,
    ) -> Result<Self, Rejected> {
        Ok(Self {
            dnn: message.apn_dnn.map(dnn).transpose()?,
            s_nssai: message.s_nssai,
            rat_type: message.rat_type,
            user: message.user_id.map_or_else(Vec::new, |user| identities(&user)),
        })
    }

    /// What a modification tells anew.
    pub(crate) fn of_modification(message: &SessionModificationRequest<'_>) -> Self {
        Self { s_nssai: message.s_nssai, rat_type: message.rat_type, ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn update(&mut self, news: Self) {
        self.dnn = news.dnn.or(self.dnn.take());
        self.s_nssai = news.s_nssai.or(self.s_nssai);
        self.rat_type = news.rat_type.or(self.rat_type);
        if !news.user.is_empty() {
            self.user = news.user;
        }
    }
}

impl Node {
    /// What was told of the session that we named `up_seid`; `None` when nothing was.
    #[must_use]
    pub fn session_information(&self, up_seid: Seid) -> Option<&SessionInformation> {
        let index = self.store().session(up_seid)?.index();
        self.information.get(&index).map(|information| &**information)
    }

    /// Keeps what was told anew of a session, until the session ends.
    pub(crate) fn update_information(&mut self, up_seid: Seid, news: SessionInformation) {
        let Some(session) = self.store.session(up_seid) else { return };
        if !news.is_empty() {
            self.information.entry(session.index()).or_default().update(news);
        }
    }
}

fn dnn(ie: ApnDnn<'_>) -> Result<Box<str>, Rejected> {
    match ie.0.len() > DNN_BYTES_MAX {
        true => Err(Rejected::with_ie(Cause::InvalidLength, IeType::APN_DNN)),
        false => Ok(name::network_instance(NetworkInstance(ie.0))),
    }
}

fn identities(user: &UserId<'_>) -> Vec<(&'static str, Box<str>)> {
    let numbers = [("imsi", user.imsi), ("imei", user.imei), ("msisdn", user.msisdn)];
    let numbers = numbers.into_iter().filter_map(|(kind, octets)| Some((kind, digits(octets?))));
    let texts = [("nai", user.nai), ("supi", user.supi), ("gpsi", user.gpsi), ("pei", user.pei)];
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let texts = texts.into_iter().filter_map(|(kind, octets)| Some((kind, text(octets?))));
    numbers.chain(texts).map(|(kind, clear)| (kind, masked(&clear))).collect()
}

/// Telephony digits: two per octet, the first in the lower half, a filler at the end.
/// Spec: TS 29.274 §8.3; TS 29.002 (TBCD-STRING).
fn digits(octets: &[u8]) -> String {
    let halves = octets.iter().flat_map(|octet| [octet & 0xf, octet >> 4]);
    halves
        .take_while(|half| *half != 0xf)
        .map(|half| char::from(b"0123456789*#abc?"[usize::from(half)]))
        .collect()
}

fn masked(clear: &str) -> Box<str> {
    let hidden = match clear.chars().count() {
        len if len > CLEAR_CHARS => len - CLEAR_CHARS,
        len => len,
    };
    let mask = |(at, char)| if at < hidden { '*' } else { char };
    clear.chars().enumerate().map(mask).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_masked_but_for_the_last_four_characters() {
        let user = UserId {
            imsi: Some(&[0x00, 0x01, 0x01, 0x21, 0x43, 0x65, 0x87, 0xf9]),
            supi: Some(b"imsi-001010123456789"),
            pei: Some(b"abcd"),
            ..UserId::default()
        };
        let shown = identities(&user);
        assert_eq!(shown[0], ("imsi", "***********6789".into()));
        assert_eq!(shown[1], ("supi", "****************6789".into()));
        assert_eq!(shown[2], ("pei", "****".into()), "nothing is left of a short one");
    }

    #[test]
    fn news_replace_what_they_name_only() {
        let dnn = Some(Box::from("internet"));
        let mut known = SessionInformation { dnn, ..SessionInformation::default() };
        let rat_type = Some(RatType::Nr);
        known.update(SessionInformation { rat_type, ..SessionInformation::default() });
        assert_eq!((known.dnn.as_deref(), known.rat_type), (Some("internet"), rat_type));
    }
}
