#!/bin/sh
# Runs adit in a virtual machine with two NUMA nodes of two CPUs each. With its network devices on node 1, the threads of its
# plan and its memory have to be there; with one on each node, sessions have workers on the node that their packets arrive at.
# scripts/vm.sh says what it needs. SMF establishes sessions (crates/tests/tests/running/two_nodes.rs).
# Usage: scripts/two-nodes-vm.sh ADIT SMF [ROOT-OF-THE-KERNEL-PACKAGE]
# Status: 0 if all is where it should be; 77 if something is missing here.
set -eu
. "${0%/*}/vm.sh"

vm_begin "${3:-/}"
strip -o "$tree/adit" "$1"
strip -o "$tree/smf" "$2"
vm_virtio
vm_libraries "$1"
vm_libraries "$2"
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
device = "net_af_packet0,iface=far0"
[[port]]
name = "core"
device = "net_af_packet1,iface=far1"
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
[[route]]
interface = "n3"
prefix = "198.51.100.0/24"
next_hop = "10.0.3.1"
CONFIG
cat > "$tree/other-node.toml" <<'CONFIG'
[[port]]
name = "access-0"
device = "net_af_packet2,iface=near0"
[[interface]]
name = "n3-0"
role = "n3"
port = "access-0"
addresses = ["10.0.30.2/24"]
network_instance = "node-0"
[[route]]
interface = "n3-0"
prefix = "198.51.100.0/24"
next_hop = "10.0.30.1"
CONFIG
vm_init <<'INIT'
failures=0
fail() { echo "FAILED: $1"; failures=$((failures + 1)); }
free_pages() { cat /sys/devices/system/node/node$1/hugepages/hugepages-2048kB/free_hugepages; }
# Pages of a process on a node that no file has.
private_pages() { grep -v file= /proc/$2/numa_maps | tr ' ' '\n' | awk -F= -v of="N$1" '$1 == of {sum += $2} END {print sum + 0}'; }

for node in 0 1; do echo 80 > /sys/devices/system/node/node$node/hugepages/hugepages-2048kB/nr_hugepages; done
# Devices of node 1 are far0 and far1, the one of node 0 is near0.
far=0
for device in /sys/class/net/eth*; do
    case $(cat $device/device/../numa_node) in
        1) name=far$far far=$((far + 1)) ;;
        *) name=near0 ;;
    esac
    ip link set ${device##*/} name $name && ip link set $name up
done
[ $far = 2 ] || fail "$far of two devices are on node 1"
/adit host show

# Starts adit with the CPUs of a line of its configuration.
start() {
    sed "s/@cpus@/$1/" /adit.toml > /tmp/adit.toml
    /adit check /tmp/adit.toml
    /adit run --config /tmp/adit.toml > /tmp/log 2>&1 &
    process=$!
    for second in $(seq 60); do [ -S /tmp/admin.sock ] && workers 2>/dev/null && break; sleep 1; done
    grep -E "planned for this machine|memory of the node|WARN|ERROR" /tmp/log
    cat /tmp/workers
}
workers() { /adit show workers --socket /tmp/admin.sock > /tmp/workers; }
stop() {
    kill $process
    wait $process || fail "adit ended with an error"
    rm -f /tmp/workers
}

# Looks where its threads and its memory are.
check() {
    before=$(free_pages 1)
    start "$1"
    grep -q "$2" /tmp/workers || fail "no $2"
    used=$((before - $(free_pages 1)))
    [ $used -ge 32 ] || fail "$used hugepages of node 1 are used"
    here=$(private_pages 1 $process) there=$(private_pages 0 $process)
    echo "private pages on node 1: $here, on node 0: $there; hugepages of node 1: $used"
    [ $here -gt $((4 * there)) ] || fail "memory is on node 0"
    stop
}
# Node and sessions of each worker.
sessions_of_nodes() {
    /adit show workers --json --socket /tmp/admin.sock | tr -d ' \n' | tr '}' '\n' |
        sed -n 's/.*"node":\([0-9]*\).*"sessions":\([0-9]*\).*/\1:\2/p' | sort | tr '\n' ' '
}
establish() { ADIT_TEST_SESSIONS="$1" /smf two_nodes:: > /tmp/smf 2>&1 || { cat /tmp/smf; fail "sessions are not established"; }; }

check 'workers = "auto"' "worker  *3  *1 "
# Control on the other node.
check 'workers = [2]\nmain_core = 0' "worker  *2  *1 "
# A port and a worker on each node.
sed -i 's/^role = "n3"/&\nnetwork_instance = "node-1"/' /adit.toml
sed -i 's/,iface=[a-z0-9]*/&,qpairs=2/' /adit.toml /other-node.toml
cat /other-node.toml >> /adit.toml
start 'workers = [1, 3]\nmain_core = 2'
establish "1 6 node-1"
[ "$(sessions_of_nodes)" = "0:0 1:6 " ] || fail "sessions of a port on node 1 are elsewhere: $(sessions_of_nodes)"
establish "7 4 node-0"
[ "$(sessions_of_nodes)" = "0:4 1:6 " ] || fail "sessions of a port on node 0 are elsewhere: $(sessions_of_nodes)"
stop
/adit host plan --config /tmp/adit.toml --uma
echo "status of the test: $failures"
INIT
node() { echo "-object memory-backend-ram,id=m$1,size=640M -numa node,nodeid=$1,memdev=m$1,cpus=$2"; }
card() { echo "-netdev hubport,id=n$1,hubid=$1 -device pcie-root-port,id=p$1,bus=$2,chassis=$1,slot=$1 -device virtio-net-pci,bus=p$1,netdev=n$1,romfile="; }
hub() { echo "-device pxb-pcie,id=$1,bus=pcie.0,bus_nr=$2,numa_node=$3"; }
# shellcheck disable=SC2046 # words on purpose
vm_run -M q35 -m 1280 -smp 4 $(node 0 0-1) $(node 1 2-3) -nic none \
    $(hub far 64 1) $(card 1 far) $(card 2 far) $(hub near 128 0) $(card 3 near)
