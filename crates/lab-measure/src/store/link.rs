//! The namespaces and devices between client and server, and their addresses.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use adit_types::MacAddr;
use anyhow::Result;

use super::case::{StoreNetworkKind, StoreTransport, UserPortDriver};
use adit_lab_process::netns::{NetNamespace, remove_stale};
use adit_lab_process::stop::environment;

/// Prefixes of the namespaces' names; the process identifier follows.
const CLIENT_PREFIX: &str = "adit-store-client-";
const SERVER_PREFIX: &str = "adit-store-server-";
/// Names of the veth devices.
const CLIENT_DEVICE: &str = "client";
const SERVER_DEVICE: &str = "server";
/// TCP ports of the store, and of adit-lab's own server, which may run at the same time.
pub(super) const STORE_PORT: u16 = 6379;
const OWN_PORT: u16 = 6380;
/// Addresses on the veth link: the kernels', then those in user space.
const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const USER_CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 3);
const USER_SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 4);
/// Link-layer addresses in user space. The kernels drop frames to them early.
const USER_CLIENT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 2, 3]);
const USER_SERVER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 2, 4]);
/// Length of the prefix of the link.
pub(super) const PREFIX_LEN: u8 = 24;

/// A network that exists until this value is dropped.
#[derive(Debug)]
pub(super) struct StoreNetwork {
    pub kind: StoreNetworkKind,
    driver: UserPortDriver,
    /// Namespace of the client; `None` on one host, where both sides share `server`.
    client: Option<NetNamespace>,
    server: NetNamespace,
    /// True if the devices compute checksums and cut segments.
    offloads: bool,
    /// Number of memif sockets named so far. Each turn takes a new name, since the driver leaves a
    /// socket open after its port has closed.
    memifs: Cell<u32>,
}

/// A side of the network in user space.
#[derive(Debug, Clone)]
pub(super) struct UserSide {
    /// DPDK's string of the port.
    pub device: String,
    pub mac: MacAddr,
    pub address: IpAddr,
}

impl StoreNetwork {
    /// Creates the network. `offloads` leaves segmentation and checksums to the veth devices.
    ///
    /// # Errors
    /// The process may create no namespaces, or a program is missing.
    pub(super) fn create(
        kind: StoreNetworkKind,
        driver: UserPortDriver,
        offloads: bool,
    ) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err(environment("run as root: sudo adit-lab store, or name a --server"));
        }
        remove_stale(&[CLIENT_PREFIX, SERVER_PREFIX], Path::new("/nonexistent"), "")?;
        let pid = std::process::id();
        let server = NetNamespace::create(format!("{SERVER_PREFIX}{pid}"))?;
        if kind == StoreNetworkKind::Loopback {
            let (client, memifs) = (None, Cell::new(0));
            return Ok(Self { kind, driver, client, server, offloads, memifs });
        }
        let client = NetNamespace::create(format!("{CLIENT_PREFIX}{pid}"))?;
        // IPv6 would send packets of its own.
        let quiet = [("ipv6/conf/all/disable_ipv6", "1"), ("ipv6/conf/default/disable_ipv6", "1")];
        client.sysctl(&quiet)?;
        server.sysctl(&quiet)?;
        let client = Some(client);
        let network = Self { kind, driver, client, server, offloads, memifs: Cell::new(0) };
        network.connect()?;
        Ok(network)
    }

    /// Joins the namespaces of a veth link.
    fn connect(&self) -> Result<()> {
        let Self { client: Some(client), server, .. } = self else { return Ok(()) };
        let other = server.name();
        let lines =
            format!("link add {CLIENT_DEVICE} type veth peer name {SERVER_DEVICE} netns {other}\n");
        client.ip_batch(&[], &lines)?;
        for (namespace, device, address) in
            [(client, CLIENT_DEVICE, CLIENT), (server, SERVER_DEVICE, SERVER)]
        {
            let lines =
                format!("address add {address}/{PREFIX_LEN} dev {device}\nlink set {device} up\n");
            namespace.ip_batch(&[], &lines)?;
            if !self.offloads {
                let off = ["tx", "off", "tso", "off", "gso", "off", "gro", "off"];
                namespace.set_features(device, &off)?;
            }
        }
        Ok(())
    }

    /// Makes a new link after a turn with AF_XDP sockets: the driver cannot use a device twice in
    /// one process.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn renew(&self) -> Result<()> {
        let Some(client) = &self.client else { return Ok(()) };
        if self.driver == UserPortDriver::AfXdp {
            client.ip_batch(&[], &format!("link delete {CLIENT_DEVICE}\n"))?;
            self.connect()?;
        }
        Ok(())
    }

    /// Returns the namespace of the clients.
    pub(super) fn client(&self) -> &NetNamespace {
        self.client.as_ref().unwrap_or(&self.server)
    }

    /// Returns the namespace of the server.
    pub(super) fn server(&self) -> &NetNamespace {
        &self.server
    }

    /// Returns the address at which the kernel's side of the server listens.
    pub(super) fn server_address(&self) -> IpAddr {
        if self.client.is_some() { SERVER.into() } else { Ipv4Addr::LOCALHOST.into() }
    }

    /// Returns the address at which clients of a transport find the server.
    pub(super) fn peer(&self, transport: StoreTransport) -> SocketAddr {
        if transport.is_pair() {
            self.own_peer(transport)
        } else {
            (self.server_address(), STORE_PORT).into()
        }
    }

    /// Returns the address at which clients of a transport find adit-lab's own server.
    pub(super) fn own_peer(&self, transport: StoreTransport) -> SocketAddr {
        let address = if transport.is_user() { USER_SERVER.into() } else { self.server_address() };
        (address, OWN_PORT).into()
    }

    /// Returns the client's side in user space.
    pub(super) fn user_client(&self) -> UserSide {
        let device = self.device(CLIENT_DEVICE, 0, "client");
        UserSide { device, mac: USER_CLIENT_MAC, address: USER_CLIENT.into() }
    }

    /// Returns the server's side in user space, on a new memif. Open it before the client's.
    pub(super) fn user_server(&self) -> UserSide {
        self.memifs.set(self.memifs.get() + 1);
        let device = self.device(SERVER_DEVICE, 1, "server");
        UserSide { device, mac: USER_SERVER_MAC, address: USER_SERVER.into() }
    }

    fn device(&self, interface: &str, number: u8, role: &str) -> String {
        match (self.kind, self.driver) {
            (StoreNetworkKind::Loopback, _) => {
                let socket = crate::testbed::memif_socket(&format!("store-{}", self.memifs.get()));
                format!("net_memif{number},role={role},socket={socket},socket-abstract=yes")
            }
            (_, UserPortDriver::AfPacket) => format!("net_af_packet{number},iface={interface}"),
            (_, UserPortDriver::AfXdp) => {
                format!("net_af_xdp{number},iface={interface},start_queue=0")
            }
        }
    }
}
