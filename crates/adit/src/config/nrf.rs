//! `[nrf]`: the registration of this UPF at an NRF.

use adit_nrf::{NfInstanceUuid, NrfServer};
use adit_session::SliceIdentity;
use adit_types::Nanos;

use super::comparison::{BY_KEY, NOW, OnReload};
use super::declare::section;
use super::fields::{NETWORK_INSTANCE, network_instance};
use super::keys::{IntoKey as _, SameTable};
use super::kinds::{Flag, integer, seconds, text};
use super::peer_names::is_fqdn;
use super::peer_tls::{TlsFiles, TlsKeys};
use super::provisioning::SLICE;
use super::section::ConfigDocument;

/// For keys with which the NRF's client starts, which a reload does not change.
const FIXED: OnReload = OnReload::Fixed("the client of the NRF begins with it at the start");

/// The expected form of an NRF's URI, for messages and documents.
const URI_FORM: &str = "a URI such as \"http://10.0.4.10:7777\" or \"https://nrf.5gc.example\"";

/// The expected form of a UUID, for messages and documents.
const UUID: &str = "a UUID such as \"4947a69a-f61b-4bc1-b9da-47c9c5d14b64\"";

/// The expected form of a serving area's name, for messages and documents.
const AREA_FORM: &str = "a name such as \"area-1\"";

section! {
    /// Registration at an NRF, from which SMFs learn of this UPF (docs/nrf.md): its N4 address,
    /// slices, data networks, pools of UE addresses, N3, N6 and N9 addresses and load. Off unless
    /// this section is here.
    NrfSection(NOW) {
        /// NRFs, the preferred one first: a further one gets the registration when those before it
        /// fail.
        servers: Vec<NrfServer>, text(URI_FORM).list(""), FIXED => ["[\"http://10.0.4.10:7777\"]"];
        /// nfInstanceId. Two adits of a pair need the same one; the default is derived from
        /// node.id.
        instance: Option<NfInstanceUuid> = "nf_instance_id", text(UUID)
            .optional("follows from node.id"), FIXED
            => ["# \"4947a69a-f61b-4bc1-b9da-47c9c5d14b64\""];
        /// FQDN of the N4 interface.
        fqdn: Option<String>, text("an FQDN such as \"upf1.5gc.example\"").check(fqdn)
            .optional("node.id if it is one") => ["# \"upf1.5gc.example\""];
        /// The slices that it serves: SST, or SST and SD.
        s_nssais: Vec<SliceIdentity>, text(SLICE).list("\"1\"") => ["[\"1\", \"1-00a1b2\"]"];
        /// The data networks that it serves.
        dnns: Vec<String>, text(NETWORK_INSTANCE).check(network_instance)
            .list("the network instances of its n6 interfaces; \"*\" if one serves any")
            => ["# [\"internet\"]"];
        /// SMF areas that it serves.
        serving_areas: Vec<String>, text(AREA_FORM).check(network_instance).list("all")
            => ["# [\"area-1\"]"];
        /// SMFs prefer UPFs with a lower value.
        priority: Option<u16>, integer(0..=u16::MAX).optional("none") => ["# 1"];
        /// Its weight among UPFs of the same priority.
        capacity: Option<u16>, integer(0..=u16::MAX).optional("none") => ["# 100"];
        /// Time between heartbeats that adit proposes. The NRF decides.
        heartbeat: Option<Nanos> = "heartbeat_s", seconds(1..=3600)
            .optional("that of the NRF, or 10 s"), FIXED => ["# 10"];
        /// Requests carry access tokens that the NRF grants (OAuth2 client credentials).
        uses_tokens: bool = "oauth2", Flag.or(false), FIXED;
        tls: TlsKeys, SameTable, BY_KEY;
    }
}

/// How the NRF is reached, and what is registered there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NrfSettings {
    pub section: NrfSection,
    /// Present if the URI of a server has https.
    pub tls: Option<TlsFiles>,
}

impl NrfSection {
    /// Checks the section, and returns its settings.
    pub(super) fn settings(&self, document: &ConfigDocument<'_>) -> NrfSettings {
        let mut section = self.clone();
        if section.s_nssais.is_empty() {
            section.s_nssais.push(SliceIdentity { sst: 1, sd: None });
        }
        let tls = self.tls.files(document, "nrf");
        let has_https = self.servers.iter().any(NrfServer::is_tls);
        if has_https && tls.is_none() {
            document.problem("nrf.tls_ca", "is missing: a server with https is reached over TLS");
        }
        if !has_https && tls.is_some() && !self.servers.is_empty() {
            document.problem("nrf.tls_ca", "is for servers with https");
        }
        if self.servers.is_empty() {
            document.problem("nrf.servers", "takes the URI of at least one NRF");
        }
        NrfSettings { section, tls }
    }
}

/// Checks that a text is an FQDN. The error is the message to the user.
fn fqdn(name: &str) -> Result<(), String> {
    let what = || "takes an FQDN such as \"upf1.5gc.example\"".to_owned();
    (is_fqdn(name) && name.contains('.')).then_some(()).ok_or_else(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");

    fn parsed(nrf: &str) -> Result<Option<NrfSettings>, Vec<String>> {
        let parsed = Config::parse(&format!("{EXAMPLE}\n{nrf}\n")).map(|config| config.nrf);
        parsed.map_err(|problems| problems.iter().map(|problem| problem.path.clone()).collect())
    }

    #[test]
    fn client_is_off_unless_the_section_is_there() {
        assert_eq!(parsed("").unwrap(), None);
        let nrf = parsed("[nrf]\nservers = [\"http://10.0.4.10:7777/\"]").unwrap().unwrap();
        assert_eq!(nrf.section.servers[0].to_string(), "http://10.0.4.10:7777");
        assert_eq!(nrf.section.s_nssais, [SliceIdentity { sst: 1, sd: None }]);
        assert_eq!(nrf.tls, None);
    }

    #[test]
    fn mistakes_are_named() {
        for (section, paths) in [
            ("[nrf]", vec!["nrf.servers"]),
            ("[nrf]\nservers = []", vec!["nrf.servers"]),
            ("[nrf]\nservers = [\"10.0.4.10:7777\"]", vec!["nrf.servers"]),
            ("[nrf]\nservers = [\"https://nrf\"]", vec!["nrf.tls_ca"]),
            ("[nrf]\nservers = [\"http://nrf\"]\ntls_ca = \"/a\"", vec!["nrf.tls_ca"]),
            ("[nrf]\nservers = [\"http://nrf\"]\ns_nssais = [\"256\"]", vec!["nrf.s_nssais"]),
            ("[nrf]\nservers = [\"http://nrf\"]\nfqdn = \"upf\"", vec!["nrf.fqdn"]),
            (
                "[nrf]\nservers = [\"http://nrf\"]\nnf_instance_id = \"1\"",
                vec!["nrf.nf_instance_id"],
            ),
        ] {
            assert_eq!(parsed(section).unwrap_err(), paths, "{section}");
        }
    }
}
