#!/bin/sh
# Runs the test of flow rules that DPDK's net_tap carries out (crates/dpdk/tests/tap_flow.rs) in a virtual machine: few
# kernels have the packet classifiers that the driver needs. scripts/vm.sh says what it needs.
# Usage: scripts/tap-flow-vm.sh TEST-PROGRAM [ROOT-OF-THE-KERNEL-PACKAGE]
# Status: that of the test; 77 if something is missing here.
set -eu
. "${0%/*}/vm.sh"

vm_begin "${2:-/}"
cp "$1" "$tree/test"
vm_modules tun sch_ingress sch_multiq cls_flower act_skbedit act_gact act_mirred
vm_libraries "$1"
vm_drivers mempool_ring net_tap net_af_packet bus_vdev
vm_init <<'INIT'
ADIT_TEST_TAP_FLOWS=1 RUST_BACKTRACE=0 /test --exact tap_gives_frames_to_the_queues_that_rules_name --nocapture
echo "status of the test: $?"
INIT
vm_run -m 1024 -nic none
