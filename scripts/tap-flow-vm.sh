#!/bin/sh
# Runs the test of flow rules that DPDK's net_tap carries out (crates/dpdk/tests/tap_flow.rs) in a virtual machine: few
# kernels have the packet classifiers that the driver needs. Needs qemu-system-x86, busybox-static, cpio, and the package
# linux-image-cloud-amd64, which may be unpacked anywhere (dpkg -x).
# Usage: scripts/tap-flow-vm.sh TEST-PROGRAM [ROOT-OF-THE-KERNEL-PACKAGE]
# Status: that of the test; 77 if something is missing here.
set -eu

program=$1
root=${2:-/}
missing() { echo "missing: $1" >&2; exit 77; }

for tool in qemu-system-x86_64 cpio busybox; do
    command -v "$tool" >/dev/null || missing "$tool"
done
kernel=""
for file in "$root"/boot/vmlinuz-*-cloud-amd64; do [ -e "$file" ] && kernel=$file; done
[ -n "$kernel" ] || missing "a kernel of linux-image-cloud-amd64 in $root"
release=${kernel##*/vmlinuz-}
modules=$root/lib/modules/$release
[ -d "$modules" ] || missing "$modules"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir -p "$tree/bin" "$tree/proc" "$tree/sys" "$tree/dev" "$tree/tmp" "$tree/var/run" "$tree/modules"
cp "$(command -v busybox)" "$tree/bin/busybox"
cp "$program" "$tree/test"

# The kernel package has no list of dependencies before it is installed, so modules are loaded in this order.
names="tun sch_ingress sch_multiq cls_flower act_skbedit act_gact act_mirred"
for name in $names; do
    file=$(find "$modules" -name "$name.ko*" | head -n 1)
    [ -n "$file" ] || continue
    cp "$file" "$tree/modules/"
    case $file in *.xz) unxz "$tree/modules/${file##*/}" ;; esac
done

# The libraries of the program and of the drivers. Drivers are links: a second copy of a bus has no devices.
lib=/usr/lib/x86_64-linux-gnu
plugins=$(find "$lib/dpdk" -maxdepth 1 -name 'pmds-*' | head -n 1)
[ -n "$plugins" ] || missing "DPDK's drivers"
mkdir -p "$tree$plugins"
copy() {
    for file in $(ldd "$1" | awk '$(NF-1) ~ /^\// {print $(NF-1)}'); do
        mkdir -p "$tree${file%/*}"
        [ -e "$tree$file" ] || cp -L "$file" "$tree$file"
    done
}
copy "$program"
for driver in mempool_ring net_tap net_af_packet bus_vdev; do
    link=$(find "$plugins" -name "librte_$driver.so.*.*" | head -n 1)
    [ -n "$link" ] || missing "librte_$driver"
    copy "$link"
    name=${link##*/}
    # The name that other libraries load it by.
    soname=$(objdump -p "$link" | awk '/SONAME/ {print $2}')
    [ -e "$tree$lib/$soname" ] || cp -L "$link" "$tree$lib/$soname"
    ln -s "../../$soname" "$tree$plugins/$name"
done

cat > "$tree/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/net
[ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
# Each pass loads those whose dependencies are there.
for pass in 1 2 3 4; do
    for file in /modules/*.ko; do insmod "$file" 2>/dev/null; done
done
for file in /modules/*.ko; do
    name=$(basename "$file" .ko)
    [ -d "/sys/module/$name" ] || echo "module $name is not loaded"
done
ip link set lo up
ADIT_TEST_TAP_FLOWS=1 RUST_BACKTRACE=0 /test --exact tap_gives_frames_to_the_queues_that_rules_name --nocapture
echo "status of the test: $?"
poweroff -f
INIT
chmod +x "$tree/init"
(cd "$tree" && find . | cpio -o -H newc --quiet) | gzip -1 > "$work/initramfs"

timeout "${VM_SECONDS:-300}" qemu-system-x86_64 -accel tcg -cpu max -m 1024 -nographic -no-reboot \
    -nic none -kernel "$kernel" -initrd "$work/initramfs" \
    -append "console=ttyS0 quiet panic=-1 rdinit=/init" </dev/null 2>&1 | tr -d '\r' | tee "$work/output"
status=$(sed -n 's/^status of the test: //p' "$work/output")
exit "${status:-1}"
