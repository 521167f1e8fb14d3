#!/bin/sh
# Makes an OCI image of adit from its Debian package, without a daemon: an OCI layout with an image for each package.
# Usage: scripts/image.sh FOLDER PACKAGE…        as root; FOLDER must not exist
# The root has the program and the libraries and drivers that the package depends on: no shell, no package manager.
set -eu
umask 022

[ $# -ge 2 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
layout=$1
shift
versions=$(for package in "$@"; do dpkg-deb -f "$package" Version; done | sort -u)
[ "$(echo "$versions" | wc -l)" -eq 1 ] || { echo "packages of several versions:" $versions >&2; exit 1; }
mkdir "$layout"
layout=$(realpath "$layout")
work=$(mktemp -d)
# Not into what is mounted there if mmdebstrap fails.
trap 'rm -rf --one-file-system "$work"' EXIT
mkdir -p "$layout/blobs/sha256"
: "${SOURCE_DATE_EPOCH:=$(git -C "$(dirname "$0")" log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
# Kubernetes takes no name for a user that must not be root.
user=65532
# Those that some port needs. The container's set decides which of them adit gets (docs/install.md).
capabilities=cap_net_admin,cap_net_raw,cap_ipc_lock,cap_sys_nice

# Moves a file into the layout. Prints its descriptor: blob MEDIA-TYPE FILE [MEMBERS]
blob() {
    digest=$(sha256sum "$2" | cut -d' ' -f1)
    printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%s%s}' "$1" "$digest" "$(stat -c %s "$2")" "${3-}"
    mv "$2" "$layout/blobs/sha256/$digest"
}

# Writes the layer of the folder $1, and its digests into $1.diff and $1.descriptor.
layer() {
    tar -C "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --numeric-owner --format=posix --xattrs \
        --xattrs-include=security.capability --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime -cf "$1.tar" .
    sha256sum "$1.tar" | cut -d' ' -f1 > "$1.diff"
    gzip -9n "$1.tar"
    blob layer.v1.tar+gzip "$1.tar.gz" > "$1.descriptor"
}

. "${0%/*}/debian.sh"

# Scanners find there what is in the image, although no dpkg installed it.
note='for package in "$1"/var/cache/apt/archives/*.deb; do
        dpkg-deb -f "$package" | sed "1a Status: install ok installed"
        echo
    done > "$1/var/lib/dpkg/status"'

# The libraries of package $1 for architecture $2.
libraries() {
    depends=$(dpkg-deb -f "$1" Depends | tr ',' '\n' | sed 's/[|(].*//; s/ //g' | grep -vxE 'adduser' | paste -sd,)
    mmdebstrap --quiet --variant=extract --architectures="$2" --include="base-files,netbase,$depends" \
        --extract-hook="$note" "$suite" "$work/libraries" "$sources"
    rm -rf "$work/libraries/var/cache" "$work/libraries/var/lib/apt" "$work/libraries/var/log" "$work/libraries/dev" \
        "$work/libraries/usr/share/man" "$work/libraries/usr/share/locale" "$work/libraries/usr/share/lintian" "$work/libraries/tmp" \
        "$work/libraries/etc/hostname" "$work/libraries/etc/resolv.conf"
    find "$work/libraries/usr/share/doc" -mindepth 2 ! -name copyright ! -type d -delete
    printf 'root:x:0:0::/:/\nadit:x:%s:%s::/var/lib/adit:/\n' "$user" "$user" > "$work/libraries/etc/passwd"
    printf 'root:x:0:\nadit:x:%s:\n' "$user" > "$work/libraries/etc/group"
    install -d -m 1777 "$work/libraries/tmp"
    install -d "$work/libraries/dev"
}

# The program of package $1.
program() {
    dpkg-deb -x "$1" "$work/program"
    papers=$work/program/usr/share/doc/adit
    mkdir "$work/papers"
    mv "$papers/examples/adit.example.toml" "$papers/copyright" "$papers/third-party-licenses.gz" "$work/papers"
    rm -rf "$work/program/usr/share" "$work/program/lib"
    install -D -m 644 -t "$papers" "$work/papers"/*
    rm -r "$work/papers"
    install -d -m 755 "$work/program/etc/adit"
    install -d -m 700 -o "$user" -g "$user" "$work/program/var/lib/adit" "$work/program/run/adit"
    setcap "$capabilities=p" "$work/program/usr/bin/adit"
}

# Prints the descriptor of the image of package $1.
image() {
    architecture=$(dpkg-deb -f "$1" Architecture)
    version=$(dpkg-deb -f "$1" Version)
    libraries "$1" "$architecture"
    program "$1"
    layer "$work/libraries"
    layer "$work/program"
    cat > "$work/config" <<JSON
{"created":"$created","architecture":"$architecture","os":"linux","config":{"User":"$user:$user","WorkingDir":"/var/lib/adit",
"Entrypoint":["/usr/bin/adit"],"Cmd":["run","--config","/etc/adit/adit.toml","--log","json"],"StopSignal":"SIGTERM",
"Env":["PATH=/usr/bin","RUNTIME_DIRECTORY=/run/adit"],"ExposedPorts":{"8805/udp":{},"2152/udp":{}},"Volumes":{"/var/lib/adit":{}},
"Labels":{"org.opencontainers.image.title":"adit","org.opencontainers.image.description":"5G User Plane Function",
"org.opencontainers.image.version":"$version","org.opencontainers.image.revision":"${ADIT_REVISION:-unknown}",
"org.opencontainers.image.licenses":"Apache-2.0","org.opencontainers.image.created":"$created"}},
"rootfs":{"type":"layers","diff_ids":["sha256:$(cat "$work/libraries.diff")","sha256:$(cat "$work/program.diff")"]},
"history":[{"created":"$created","comment":"libraries and drivers"},{"created":"$created","comment":"adit $version"}]}
JSON
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s,%s]}' \
        "$(blob config.v1+json "$work/config")" "$(cat "$work/libraries.descriptor")" "$(cat "$work/program.descriptor")" > "$work/manifest"
    blob manifest.v1+json "$work/manifest" ",\"platform\":{\"os\":\"linux\",\"architecture\":\"$architecture\"}"
    rm -rf "$work/libraries" "$work/program"
}

# The images, then the index that has one of them for each architecture, then that of the layout.
list() {
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}' "$1"
}
images=""
for package in "$@"; do
    images="$images${images:+,}$(image "$package")"
done
list "$images" > "$work/index"
tag=$(echo "$versions" | tr '+~' '--')
list "$(blob index.v1+json "$work/index" ",\"annotations\":{\"org.opencontainers.image.ref.name\":\"$tag\"}")" > "$layout/index.json"
echo '{"imageLayoutVersion":"1.0.0"}' > "$layout/oci-layout"
echo "$layout:$tag"
