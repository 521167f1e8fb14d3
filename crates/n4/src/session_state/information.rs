//! Information about a session that CP functions send and operators see. It affects no behavior.
//!
//! Subscriber identities are masked before they are stored, so that neither an operator's screen
//! nor a core dump reveals them.
//! Spec: TS 29.244 §7.5.2.1, §8.2.101, §8.2.117, §8.2.176, §8.2.186.

use adit_pfcp::ie::{ApnDnn, NetworkInstance, RatType, SNssai, UserId};
use adit_pfcp::message::{SessionEstablishmentRequest, SessionModificationRequest};
use adit_pfcp::{Cause, IeType};
use adit_types::SessionIndex;

use super::{ServiceCounts, ServiceName, SessionStates};
use crate::name;
use crate::refusal::Rejected;

/// Maximum of octets of a data network name. Spec: TS 23.003 §9.1.
const DNN_BYTES_MAX: usize = 100;

/// How many characters at the end of an identity are not masked.
const UNMASKED_CHARS: usize = 4;

/// The information that a CP function has sent about one session; parts that it did not send are
/// `None` or empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionInformation {
    /// Data network name.
    pub dnn: Option<Box<str>>,
    /// Network slice.
    pub s_nssai: Option<SNssai>,
    /// Radio access technology.
    pub rat_type: Option<RatType>,
    /// Identities of the user with their kinds; all but the last four characters are masked.
    pub user: Box<[(&'static str, Box<str>)]>,
}

impl SessionInformation {
    /// The kinds of identities of a user.
    pub(crate) const IDENTITIES: [&'static str; 7] =
        ["imsi", "imei", "msisdn", "nai", "supi", "gpsi", "pei"];

    /// Decodes the information in an establishment.
    ///
    /// # Errors
    /// Cause 68 if the DNN is too long.
    pub(crate) fn of_establishment(
        message: &SessionEstablishmentRequest<'_>,
    ) -> Result<Self, Rejected> {
        Ok(Self {
            dnn: message.apn_dnn.map(dnn).transpose()?,
            s_nssai: message.s_nssai,
            rat_type: message.rat_type,
            user: message.user_id.map(|user| identities(&user)).unwrap_or_default(),
        })
    }

    /// Decodes the information in a modification.
    pub(crate) fn of_modification(message: &SessionModificationRequest<'_>) -> Self {
        Self { s_nssai: message.s_nssai, rat_type: message.rat_type, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the data network and the slice.
    pub(super) fn service(&self) -> ServiceName {
        ServiceName {
            dnn: self.dnn.clone(),
            sst: self.s_nssai.map(|slice| slice.sst),
            sd: self.s_nssai.map(|slice| slice.sd),
        }
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

impl SessionStates {
    /// Returns the information that the CP function sent about a session; `None` if it sent none.
    pub(crate) fn information(&self, session: SessionIndex) -> Option<&SessionInformation> {
        let information = &self.live.get(session)?.information;
        (!information.is_empty()).then_some(information)
    }

    /// Replaces the parts that `news` contains.
    pub(crate) fn update_information(&mut self, session: SessionIndex, news: SessionInformation) {
        if !news.is_empty() {
            let services = &mut self.services;
            self.live.edit(session, |state| {
                services.subtract(&state.information.service());
                state.information.update(news);
                services.add(state.information.service());
            });
        }
    }

    /// Returns how many sessions there are for each data network and slice.
    pub(crate) const fn services(&self) -> &ServiceCounts {
        &self.services
    }
}

fn dnn(ie: ApnDnn<'_>) -> Result<Box<str>, Rejected> {
    match ie.0.len() > DNN_BYTES_MAX {
        true => Err(Rejected::with_ie(Cause::InvalidLength, IeType::APN_DNN)),
        false => Ok(name::network_instance(NetworkInstance(ie.0))),
    }
}

fn identities(user: &UserId<'_>) -> Box<[(&'static str, Box<str>)]> {
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let numbers = [user.imsi, user.imei, user.msisdn].map(|octets| octets.map(digits));
    let texts = [user.nai, user.supi, user.gpsi, user.pei].map(|octets| octets.map(text));
    let identities =
        SessionInformation::IDENTITIES.into_iter().zip(numbers.into_iter().chain(texts));
    identities.filter_map(|(kind, clear)| Some((kind, mask_identity(&clear?)))).collect()
}

/// Decodes telephony digits: two per octet, the first in the lower half, with a filler at the end.
/// Spec: TS 29.274 §8.3; TS 29.002 (TBCD-STRING).
fn digits(octets: &[u8]) -> String {
    let halves = octets.iter().flat_map(|octet| [octet & 0xf, octet >> 4]);
    halves
        .take_while(|half| *half != 0xf)
        .map(|half| char::from(b"0123456789*#abc?"[usize::from(half)]))
        .collect()
}

fn mask_identity(clear: &str) -> Box<str> {
    let hidden = match clear.chars().count() {
        len if len > UNMASKED_CHARS => len - UNMASKED_CHARS,
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
    fn information_replaces_only_the_parts_that_it_names() {
        let dnn = Some(Box::from("internet"));
        let mut known = SessionInformation { dnn, ..SessionInformation::default() };
        let rat_type = Some(RatType::Nr);
        known.update(SessionInformation { rat_type, ..SessionInformation::default() });
        assert_eq!((known.dnn.as_deref(), known.rat_type), (Some("internet"), rat_type));
    }
}
