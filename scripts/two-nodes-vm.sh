#!/bin/sh
# Runs adit in a virtual machine with two NUMA nodes of two CPUs each, and its network devices on node 1: the threads of its
# plan and its memory have to be there. scripts/vm.sh says what it needs.
# Usage: scripts/two-nodes-vm.sh ADIT [ROOT-OF-THE-KERNEL-PACKAGE]
# Status: 0 if all is where it should be; 77 if something is missing here.
set -eu
. "${0%/*}/vm.sh"

vm_begin "${2:-/}"
strip -o "$tree/adit" "$1"
vm_modules virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci failover net_failover virtio_net
vm_libraries "$1"
vm_drivers mempool_ring net_af_packet bus_vdev
cat > "$tree/adit.toml" <<'CONFIG'
[node]
id = "127.0.0.2"
[n4]
listen = "127.0.0.2:8805"
[datapath]
@cpus@
[dpdk]
hugepages = "require"
memory_mib = 64
mempool_mbufs = 4096
[store]
kind = "none"
[admin]
socket = "/tmp/admin.sock"
[[port]]
name = "access"
device = "net_af_packet0,iface=eth0"
[[port]]
name = "core"
device = "net_af_packet1,iface=eth1"
[[interface]]
name = "n3"
role = "n3"
port = "access"
addresses = ["10.0.3.2/24"]
[[interface]]
name = "n6"
role = "n6"
port = "core"
addresses = ["10.0.6.2/24"]
[[route]]
interface = "n6"
prefix = "0.0.0.0/0"
next_hop = "10.0.6.1"
CONFIG
vm_init <<'INIT'
failures=0
fail() { echo "FAILED: $1"; failures=$((failures + 1)); }
free_pages() { cat /sys/devices/system/node/node$1/hugepages/hugepages-2048kB/free_hugepages; }
# Pages of a process on a node that no file has.
private_pages() { grep -v file= /proc/$2/numa_maps | tr ' ' '\n' | awk -F= -v of="N$1" '$1 == of {sum += $2} END {print sum + 0}'; }

for node in 0 1; do echo 80 > /sys/devices/system/node/node$node/hugepages/hugepages-2048kB/nr_hugepages; done
ip link set eth0 up; ip link set eth1 up
/adit host show
[ "$(cat /sys/class/net/eth0/device/../numa_node)" = 1 ] || fail "eth0 is not on node 1"

# Starts adit with the CPUs of a line of its configuration, and looks where its memory is.
check() {
    sed "s/@cpus@/$1/" /adit.toml > /tmp/adit.toml
    /adit check /tmp/adit.toml
    before=$(free_pages 1)
    /adit run --config /tmp/adit.toml > /tmp/log 2>&1 &
    process=$!
    for second in $(seq 60); do [ -S /tmp/admin.sock ] && /adit show workers --socket /tmp/admin.sock > /tmp/workers 2>/dev/null && break; sleep 1; done
    grep -E "planned for this machine|memory of the node|WARN|ERROR" /tmp/log
    cat /tmp/workers
    grep -q "$2" /tmp/workers || fail "no $2"
    used=$((before - $(free_pages 1)))
    [ $used -ge 32 ] || fail "$used hugepages of node 1 are used"
    here=$(private_pages 1 $process) there=$(private_pages 0 $process)
    echo "private pages on node 1: $here, on node 0: $there; hugepages of node 1: $used"
    [ $here -gt $((4 * there)) ] || fail "memory is on node 0"
    kill $process
    wait $process || fail "adit ended with an error"
    rm -f /tmp/workers
}

check 'workers = "auto"' "worker  *3  *1 "
# Control on the other node.
check 'workers = [2]\nmain_core = 0' "worker  *2  *1 "
/adit host plan --config /tmp/adit.toml --uma
echo "status of the test: $failures"
INIT
node() { echo "-object memory-backend-ram,id=m$1,size=640M -numa node,nodeid=$1,memdev=m$1,cpus=$2"; }
card() { echo "-netdev hubport,id=n$1,hubid=$1 -device pcie-root-port,id=p$1,bus=far,chassis=$1,slot=$1 -device virtio-net-pci,bus=p$1,netdev=n$1,romfile="; }
# shellcheck disable=SC2046 # words on purpose
vm_run -M q35 -m 1280 -smp 4 $(node 0 0-1) $(node 1 2-3) -nic none \
    -device pxb-pcie,id=far,bus=pcie.0,bus_nr=64,numa_node=1 $(card 1) $(card 2)
