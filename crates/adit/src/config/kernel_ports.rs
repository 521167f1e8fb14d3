//! Requirements of the kernel's ports on their interfaces.

use adit_kernel::KernelDevice;
use adit_types::{InterfaceRole, VlanId};

/// Adds a problem for each feature that an interface on a port of the kernel cannot have.
pub(super) fn check_interface(
    problem: &dyn Fn(&str, &str),
    device: &KernelDevice,
    role: InterfaceRole,
    vlan: VlanId,
) {
    if vlan != VlanId::UNTAGGED {
        problem("vlan", "is not for ports of the kernel: its devices handle tags");
    }
    match (device, role.is_gtpu()) {
        (KernelDevice::Udp, false) => problem(
            "port",
            "kernel:udp carries GTP-U; an n6 interface needs a port with kernel:tun,name=NAME",
        ),
        (KernelDevice::Tun { .. }, true) => problem(
            "port",
            "kernel:tun carries plain IP; an interface with GTP-U needs a port with kernel:udp",
        ),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, ConfigProblem, RouteSettings};

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");

    fn paths(problems: &[ConfigProblem]) -> Vec<&str> {
        problems.iter().map(|problem| problem.path.as_str()).collect()
    }

    /// The example on ports of the kernel.
    fn on_kernel() -> String {
        EXAMPLE
            .replace("kernel:packet,iface=n3", "kernel:udp")
            .replace("kernel:packet,iface=n6", "kernel:tun,name=adit0")
            .replace("next_hop = \"10.0.6.1\"", "")
            .replace("next_hop = \"2001:db8:6::1\"", "")
            .replace("next_hop_v4 = \"10.0.6.9\"", "")
    }

    #[test]
    fn ports_of_the_kernel_need_no_gateway_and_get_default_routes() {
        let config = Config::parse(&on_kernel()).unwrap();
        assert_eq!(config.ports[1].device.to_string(), "kernel:tun,name=adit0");
        assert!(config.interfaces.iter().all(|interface| interface.is_kernel));
        let routes = |config: &Config| -> Vec<(usize, String, String)> {
            let text = |route: &RouteSettings| {
                (route.interface, route.prefix.to_string(), route.next_hop.to_string())
            };
            config.routes.iter().map(text).collect()
        };
        let route = |at, prefix: &str, hop: &str| (at, prefix.to_owned(), hop.to_owned());
        let default = route(0, "0.0.0.0/0", "0.0.0.0");
        let n6 = [route(1, "0.0.0.0/0", "0.0.0.0"), route(1, "::/0", "::")];
        assert_eq!(routes(&config), [&n6[..], std::slice::from_ref(&default)].concat());
        // Without routes in the file, the result is the same.
        let text = on_kernel();
        let at = text.find("\n[[route]]").unwrap();
        let end = text.find("\n# Addresses for UEs").unwrap();
        let config = Config::parse(&(text[..at].to_owned() + &text[end..])).unwrap();
        assert_eq!(routes(&config), [&[default], &n6[..]].concat());
    }

    #[test]
    fn what_ports_of_the_kernel_cannot_have_is_refused_all_at_once() {
        let text = on_kernel()
            .replace("# vlan = 6", "vlan = 6")
            .replace(
                "prefix = \"0.0.0.0/0\"\n",
                "prefix = \"0.0.0.0/0\"\nnext_hop = \"10.0.6.1\"\n",
            )
            .replace("id = \"firewall\"", "id = \"firewall\"\nnext_hop_v4 = \"10.0.6.9\"");
        let problems = Config::parse(&text).unwrap_err();
        let expected =
            ["interface[1].vlan", "route[0].next_hop", "forwarding_policy[0].next_hop_v4"];
        assert_eq!(paths(&problems), expected, "{problems:?}");
        let exchanged = on_kernel()
            .replace("kernel:udp", "kernel:x")
            .replace("kernel:tun,name=adit0", "kernel:udp")
            .replace("kernel:x", "kernel:tun,name=adit0");
        let problems = Config::parse(&exchanged).unwrap_err();
        assert_eq!(paths(&problems), ["interface[0].port", "interface[1].port"]);
        for device in ["kernel:tun", "kernel:tap,name=x", "kernel:tun,name=sixteen-letters-"] {
            let problems = Config::parse(&on_kernel().replace("kernel:udp", device)).unwrap_err();
            assert_eq!(paths(&problems)[0], "port[0].device", "{device}");
        }
        let twice = on_kernel().replace("kernel:udp", "kernel:tun,name=adit0");
        let problems = Config::parse(&twice).unwrap_err();
        assert!(paths(&problems).contains(&"port[1].device"), "{problems:?}");
    }

    #[test]
    fn port_of_the_kernel_has_at_most_one_queue_per_receiving_thread() {
        let pipeline = "model = \"pipeline\"\nworkers = [1, 2]\nreceivers = [3]\n#";
        let text = on_kernel().replacen("model = \"run-to-completion\"\n", "", 1);
        let text = text.replacen("workers = [1]", pipeline, 1);
        let with_queues = |queues: u16| {
            let line = format!("device = \"kernel:udp\"\nrx_queues = {queues}");
            Config::parse(&text.replace("device = \"kernel:udp\"", &line))
        };
        assert_eq!(with_queues(1).unwrap().ports[0].rx_queues, Some(1));
        assert_eq!(paths(&with_queues(2).unwrap_err()), ["port[0].rx_queues"]);
    }
}
