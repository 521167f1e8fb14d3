//! The address and Node ID of the SMF on N4.

use std::net::IpAddr;

use adit_lab_process::stop::environment;
use adit_pfcp::ie::{Fqdn, NodeId};
use anyhow::Result;

/// Address and Node ID of the SMF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmfIdentity {
    /// Address in the SMF's F-SEIDs.
    pub address: IpAddr,
    /// Node ID of the SMF, an address or a domain name; `None` if it is `address`.
    pub name: Option<String>,
}

impl SmfIdentity {
    /// Makes an identity after a check of its name.
    ///
    /// # Errors
    /// The name is neither an address nor a domain name.
    pub fn new(address: IpAddr, name: Option<&str>) -> Result<Self> {
        let is_wrong =
            |name: &&str| name.parse::<IpAddr>().is_err() && Fqdn::from_text(name).is_none();
        if let Some(name) = name.filter(is_wrong) {
            return Err(environment(format!(
                "--node-id {name}: neither an address nor a domain name"
            )));
        }
        Ok(Self { address, name: name.map(str::to_owned) })
    }

    /// Returns the Node ID.
    #[must_use]
    pub fn node_id(&self) -> NodeId<'_> {
        let Some(name) = &self.name else { return self.address.into() };
        match name.parse::<IpAddr>() {
            Ok(address) => address.into(),
            Err(_) => Fqdn::from_text(name).map_or_else(|| self.address.into(), NodeId::Fqdn),
        }
    }
}
