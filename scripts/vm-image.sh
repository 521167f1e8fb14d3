#!/bin/sh
# Makes the disk of a virtual machine with adit of its Debian package, which cloud-init configures (docs/vm.md): a qcow2 file that
# a BIOS boots. The machine needs no network to start.
# Usage: scripts/vm-image.sh DISK PACKAGE        as root; needs mmdebstrap, e2fsprogs, fdisk, qemu-utils
# ADIT_VM_MIB: size of the disk, which the machine grows to that of its host's volume.
set -eu
umask 022

[ $# -eq 2 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
disk=$1
. "${0%/*}/debian.sh"
work=$(mktemp -d)
# Not into what is mounted there if mmdebstrap fails.
trap 'rm -rf --one-file-system "$work"' EXIT
mib=${ADIT_VM_MIB:-2048}
architecture=$(dpkg --print-architecture)

# Without recommended packages: cloud-init writes what systemd-networkd and -resolved read.
cp "$2" "$work/adit.deb"
depends=$(dpkg-deb -f "$2" Depends | tr ',' '\n' | sed 's/[|(].*//; s/ //g' | paste -sd,)
mmdebstrap --quiet --variant=minbase --include="systemd-sysv,systemd-resolved,dbus,udev,kmod,linux-image-cloud-$architecture,\
grub-pc-bin,cloud-init,cloud-guest-utils,openssh-server,sudo,iproute2,iputils-ping,ethtool,pciutils,driverctl,ca-certificates,$depends" \
    --customize-hook="copy-in $work/adit.deb /tmp" \
    --customize-hook='chroot "$1" dpkg --install /tmp/adit.deb && rm "$1/tmp/adit.deb"' \
    "$suite" "$work/root" "$sources"
root=$work/root
chroot "$root" systemctl --quiet enable systemd-networkd systemd-resolved ssh
ln -sf ../run/systemd/resolve/stub-resolv.conf "$root/etc/resolv.conf"
echo 'LABEL=adit / ext4 rw,discard,errors=remount-ro 0 1' > "$root/etc/fstab"
# Each machine has its own.
rm -rf "$root"/etc/ssh/ssh_host_* "$root/etc/hostname" "$root"/var/lib/apt/lists/* "$root"/var/log/*.log
: > "$root/etc/machine-id"

# The links lead to the newest kernel.
cat > "$root/boot/grub.cfg" <<'GRUB'
set timeout=0
linux /vmlinuz root=LABEL=adit ro console=tty0 console=ttyS0,115200 net.ifnames=0
initrd /initrd.img
boot
GRUB
chroot "$root" grub-mkimage --format=i386-pc --output=/boot/core.img --prefix='(hd0,msdos1)/boot' \
    biosdisk part_msdos ext2 linux normal

# The boot sector finds the rest of the loader in the sectors behind it, before the file system.
truncate -s "${mib}M" "$work/disk"
echo '2048,,L,*' | sfdisk --quiet "$work/disk"
dd if="$root/usr/lib/grub/i386-pc/boot.img" of="$work/disk" bs=440 count=1 conv=notrunc status=none
dd if="$root/boot/core.img" of="$work/disk" bs=512 seek=1 conv=notrunc status=none
mke2fs -q -t ext4 -L adit -d "$root" -E offset=1048576 "$work/disk" "$((mib - 1))M"
qemu-img convert -c -O qcow2 -o compression_type=zstd "$work/disk" "$disk"
echo "$disk"
