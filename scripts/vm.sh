# Functions for scripts that run a program in a virtual machine whose parts are all known. Sourced, not run. Needs
# qemu-system-x86, busybox-static, cpio, and the package linux-image-cloud-amd64, which may be unpacked anywhere (dpkg -x).
# A script ends with status 77 if something is missing here.

missing() { echo "missing: $1" >&2; exit 77; }

# Finds tools, and makes a folder.
vm_folder() {
    for tool in qemu-system-x86_64 "$@"; do
        command -v "$tool" >/dev/null || missing "$tool"
    done
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap exit INT TERM
    accelerator="tcg -cpu max"
}

# Finds the kernel of a package unpacked in $1, and makes the tree of the machine's files.
vm_begin() {
    root=$1
    vm_folder cpio busybox
    kernel=""
    for file in "$root"/boot/vmlinuz-*-cloud-amd64; do [ -e "$file" ] && kernel=$file; done
    [ -n "$kernel" ] || missing "a kernel of linux-image-cloud-amd64 in $root"
    release=${kernel##*/vmlinuz-}
    modules=$root/lib/modules/$release
    [ -d "$modules" ] || missing "$modules"
    tree=$work/tree
    # One name for each library: a second copy of a bus has no devices.
    mkdir -p "$tree/usr/lib" "$tree/usr/lib64"
    ln -s usr/lib usr/lib64 "$tree"
    mkdir -p "$tree/bin" "$tree/proc" "$tree/sys" "$tree/dev" "$tree/tmp" "$tree/var/run" "$tree/modules"
    cp "$(command -v busybox)" "$tree/bin/busybox"
}

# Lets the processor run the machine. On some hosts there is a device, and machines never get anywhere: this one has to panic,
# since it has no root.
vm_accelerate() {
    [ -w /dev/kvm ] || missing "KVM: no access to /dev/kvm"
    accelerator="kvm -cpu host"
    # shellcheck disable=SC2086 # words on purpose
    timeout 20 qemu-system-x86_64 -accel $accelerator -m 256 -display none -no-reboot -kernel "$kernel" -append "panic=-1" \
        </dev/null >/dev/null 2>&1 || missing "KVM that works: a machine that ends at once did not end in 20 s"
}

# Copies kernel modules.
vm_modules() {
    for name in "$@"; do
        file=$(find "$modules" -name "$name.ko*" | head -n 1)
        [ -n "$file" ] || continue
        cp "$file" "$tree/modules/"
        case $file in *.xz) unxz "$tree/modules/${file##*/}" ;; esac
    done
}

# Copies the modules of network devices of virtio.
vm_virtio() {
    vm_modules virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci failover net_failover virtio_net
}

# Prints arguments: a machine of $1 MiB that a process of the host shares, as vhost-user needs it.
vm_shared() {
    echo "-machine q35,memory-backend=memory -object memory-backend-memfd,id=memory,size=$1M,share=on"
}

# Prints arguments: network device $1 of the vhost-user server at socket $2, with further arguments of
# the socket. With MSI-X, QEMU 7.2 ends with a segmentation fault unless it is accelerated.
vm_link() {
    vectors=""
    case $accelerator in tcg*) vectors=vectors=0, ;; esac
    echo "-chardev socket,id=socket$1,path=$2${3-} -netdev vhost-user,id=link$1,chardev=socket$1" \
        "-device virtio-net-pci,netdev=link$1,addr=0x1$1,mac=52:54:00:00:0$1:02,${vectors}romfile="
}

# Arguments of QEMU for N4: 127.77.0.2:8805 of the host leads to the machine. $1: further properties of the device.
vm_n4() {
    echo "-netdev user,id=n4,hostfwd=udp:127.77.0.2:8805-:8805 -device virtio-net-pci,netdev=n4${1-},romfile="
}

# Copies the libraries of a program or of a library.
vm_libraries() {
    for file in $(ldd "$1" | awk '$(NF-1) ~ /^\// {print $(NF-1)}'); do
        mkdir -p "$tree${file%/*}"
        [ -e "$tree$file" ] || cp -L "$file" "$tree$file"
    done
}

# Copies drivers of DPDK. They are links: a second copy of a bus has no devices.
vm_drivers() {
    lib=/usr/lib/x86_64-linux-gnu
    plugins=$(find "$lib/dpdk" -maxdepth 1 -name 'pmds-*' | head -n 1)
    [ -n "$plugins" ] || missing "DPDK's drivers"
    mkdir -p "$tree$plugins"
    for driver in "$@"; do
        link=$(find "$plugins" -name "librte_$driver.so.*.*" | head -n 1)
        [ -n "$link" ] || missing "librte_$driver"
        vm_libraries "$link"
        name=${link##*/}
        # The name that other libraries load it by.
        soname=$(objdump -p "$link" | awk '/SONAME/ {print $2}')
        [ -e "$tree$lib/$soname" ] || cp -L "$link" "$tree$lib/$soname"
        ln -s "../../$soname" "$tree$plugins/$name"
    done
}

# Makes /init: the machine's own files and modules, then what standard input says.
vm_init() {
    cat > "$tree/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/net
[ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
# The kernel package has no list of dependencies before it is installed: each pass loads those whose dependencies are there.
for pass in 1 2 3 4; do
    for file in /modules/*.ko; do insmod "$file" 2>/dev/null; done
done
for file in /modules/*.ko; do
    name=$(basename "$file" .ko)
    [ -d "/sys/module/$name" ] || echo "module $name is not loaded"
done
ip link set lo up
INIT
    cat >> "$tree/init"
    echo 'poweroff -f' >> "$tree/init"
    chmod +x "$tree/init"
}

# Lets each CPU of the machine run on the one of its position in $CPUS.
vm_pin() {
    for cpu in $CPUS; do
        number=$((${number:--1} + 1))
        until grep -sl "CPU $number/" /proc/"$(cat "$work/pid" 2>/dev/null)"/task/*/comm > "$work/thread"; do sleep 0.1; done
        thread=$(sed 's,.*/task/,,; s,/.*,,' "$work/thread")
        taskset --pid --cpu-list "$cpu" "$thread" >/dev/null
    done
}

# Runs the machine with further arguments of QEMU. On a busy host timer interrupts come too late for the kernel's check of
# them. Returns the number in its line "status of the test: N".
vm_run() {
    (cd "$tree" && find . | cpio -o -H newc --quiet) | gzip -1 > "$work/initramfs"
    vm_start "$@" -kernel "$kernel" -initrd "$work/initramfs" \
        -append "console=ttyS0 quiet panic=-1 no_timer_check rdinit=/init"
    return "$(sed -n 's/^status of the test: //p' "$work/output" | grep . || echo 1)"
}

# Runs a machine with arguments of QEMU. It ends with this script, or after $VM_SECONDS.
vm_start() {
    [ -z "${CPUS-}" ] || vm_pin &
    # shellcheck disable=SC2086 # words on purpose
    setpriv --pdeathsig TERM timeout --foreground "${VM_SECONDS:-300}" \
        qemu-system-x86_64 -accel $accelerator -nographic -no-reboot -pidfile "$work/pid" -name debug-threads=on "$@" \
        </dev/null 2>&1 | tr -d '\r' | tee "$work/output"
}
