#!/bin/sh
# Runs a host of a data network in a virtual machine: 10.0.6.1, behind adit's net_vhost port, with the kernel's virtio-net
# driver and its default offloads. It runs until TEST of PROGRAM ends (crates/tests/tests/running/virtual_machine.rs), and keeps
# its link while adit restarts. scripts/vm.sh says what it needs.
# Usage: scripts/data-network-vm.sh PROGRAM TEST SOCKET [ROOT-OF-THE-KERNEL-PACKAGE]
# Status: that of the test; 77 if something is missing here.
set -eu
. "${0%/*}/vm.sh"

vm_begin "${4:-/}"
strip -o "$tree/test" "$1"
vm_libraries "$1"
vm_virtio
vm_init <<INIT
ip address add 10.0.6.1/24 dev eth0
ip link set eth0 up
ip route add 10.44.0.0/14 via 10.0.6.2
ADIT_TEST_PART=server RUST_BACKTRACE=0 /test --exact $2 --nocapture
echo "status of the test: \$?"
INIT
# shellcheck disable=SC2046 # words on purpose
vm_run -m 512 $(vm_shared 512) -nic none $(vm_link 1 "$3" ,reconnect=1)
