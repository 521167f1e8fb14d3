# Functions for scripts that run a program in a virtual machine whose parts are all known. Sourced, not run. Needs
# qemu-system-x86, busybox-static, cpio, and the package linux-image-cloud-amd64, which may be unpacked anywhere (dpkg -x).
# A script ends with status 77 if something is missing here.

missing() { echo "missing: $1" >&2; exit 77; }

# Finds the tools, and the kernel of a package unpacked in $1. Makes the tree of the machine's files.
vm_begin() {
    root=$1
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

# Runs the machine with further arguments of QEMU. On a busy host timer interrupts come too late for the kernel's check of
# them. Returns the number in its line "status of the test: N".
vm_run() {
    (cd "$tree" && find . | cpio -o -H newc --quiet) | gzip -1 > "$work/initramfs"
    timeout "${VM_SECONDS:-300}" qemu-system-x86_64 -accel tcg -cpu max -nographic -no-reboot "$@" \
        -kernel "$kernel" -initrd "$work/initramfs" \
        -append "console=ttyS0 quiet panic=-1 no_timer_check rdinit=/init" </dev/null 2>&1 | tr -d '\r' | tee "$work/output"
    return "$(sed -n 's/^status of the test: //p' "$work/output" | grep . || echo 1)"
}
