#!/bin/sh
# Runs adit until it is ended, with ports on two vhost-user sockets that a tester serves (docs/vm.md). N4 is 127.77.0.2:8805;
# from a machine adit answers to 127.0.0.1. scripts/vm.sh says what a machine needs.
# Usage: scripts/upf-vm.sh host|kvm|tcg virtio|kernel|xdp PROGRAM N3-SOCKET N6-SOCKET [ROOT-OF-THE-KERNEL-PACKAGE]
#   host: no machine; kvm, tcg: a virtual machine that is accelerated, or not
#   virtio: DPDK's drivers; kernel: packet sockets on the kernel's virtio-net devices; xdp: AF_XDP on these
# CPUS="0 1": the CPUs that run the CPUs 0 and 1 of the machine, control and the worker.
# Status: 77 if something is missing here.
set -eu
. "${0%/*}/vm.sh"

where=$1 ports=$2 program=$3 n3=$4 n6=$5
poll=busy
case $where in
    host) node=127.77.0.2 access=net_virtio_user0,path=$n3 core=net_virtio_user1,path=$n6 ;;
    *) node=10.0.2.15 access=eth1 core=eth2 ;;
esac
case $where-$ports in
    host-virtio) ;;
    *-virtio) access=0000:00:13.0 core=0000:00:16.0 ;;
    *-kernel) access=kernel:packet,iface=$access core=kernel:packet,iface=$core ;;
    *-xdp) access=net_af_xdp0,iface=$access core=net_af_xdp1,iface=$core ;;
esac
# A worker without packets leaves its CPU to the emulation of the other one.
[ "$where" != tcg ] || poll=adaptive

configuration() {
    cat <<CONFIG
[node]
id = "$node"
[n4]
listen = "$node:8805"
peer_requests_per_s_max = 0
[sessions]
sessions_max = 2000
[datapath]
workers = [1]
main_core = 0
poll = "$poll"
[dpdk]
memory_mib = 256
[store]
kind = "none"
[admin]
socket = "/tmp/adit-vm.sock"
[[port]]
name = "access"
device = "$access"
[[port]]
name = "core"
device = "$core"
[[interface]]
name = "n3"
role = "n3"
port = "access"
addresses = ["172.30.3.2/24"]
[[interface]]
name = "n6"
role = "n6"
port = "core"
addresses = ["172.30.6.2/24"]
[[route]]
interface = "n6"
prefix = "0.0.0.0/0"
next_hop = "172.30.6.1"
CONFIG
}

if [ "$where" = host ]; then
    file=$(mktemp)
    trap 'rm -f "$file"' EXIT
    trap exit TERM
    configuration > "$file"
    "$program" run --config "$file"
    exit
fi

vm_begin "${6:-/}"
[ "$where" = tcg ] || vm_accelerate
configuration > "$tree/adit.toml"
strip -o "$tree/adit" "$program"
vm_virtio
vm_modules uio uio_pci_generic
vm_libraries "$program"
vm_drivers mempool_ring net_virtio net_af_xdp bus_pci bus_vdev
# The programs of libxdp.
mkdir -p "$tree$lib/bpf"
cp "$lib"/bpf/*.o "$tree$lib/bpf"
vm_init <<'INIT'
ip address add 10.0.2.15/24 dev eth0
for device in eth0 eth1 eth2; do ip link set $device up; done
ip route add default via 10.0.2.2
echo 160 > /proc/sys/vm/nr_hugepages
for device in $(sed -n 's/^device = "\(0000.*\)"/\1/p' /adit.toml); do
    echo "$device" > "/sys/bus/pci/devices/$device/driver/unbind"
    echo uio_pci_generic > "/sys/bus/pci/devices/$device/driver_override"
    echo "$device" > /sys/bus/pci/drivers_probe
done
NO_COLOR=1 /adit run --config /adit.toml
INIT
# shellcheck disable=SC2046 # words on purpose
vm_run $(vm_shared 1024) -m 1024 -smp 2 $(vm_n4) $(vm_link 3 "$n3") $(vm_link 6 "$n6")
