#!/bin/sh
# Starts the disk of scripts/vm-image.sh in a virtual machine without acceleration, with N3 and N6 on two vhost-user sockets and
# N4 at 127.77.0.2:8805, as scripts/upf-vm.sh does. cloud-init reads the files of a folder, such as deploy/vm. The disk stays as
# it is.
# Usage: scripts/image-vm.sh DISK FOLDER N3-SOCKET N6-SOCKET
# Status: 77 if something is missing here.
set -eu
. "${0%/*}/vm.sh"

vm_folder
# shellcheck disable=SC2046 # words on purpose
vm_start $(vm_shared 1024) -m 1024 -smp 2 -drive "file=$1,if=virtio,snapshot=on" \
    -drive "driver=vvfat,dir=$2,label=cidata,if=virtio,readonly=on" \
    $(vm_n4 ,mac=52:54:00:00:04:02) $(vm_link 3 "$3") $(vm_link 6 "$4")
