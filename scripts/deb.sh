#!/bin/sh
# Makes the Debian packages adit and adit-lab from built programs. The same programs and revision give the same octets.
# Usage: scripts/deb.sh PROGRAMS FOLDER        PROGRAMS has adit and adit-lab, such as target/release
# ADIT_PACKAGE_VERSION: another version than that of the workspace and its revision.
# For another architecture run it by scripts/aarch64.sh.
set -eu
umask 022

[ $# -eq 2 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
programs=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
cd "$(dirname "$0")/.."

: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}"
export SOURCE_DATE_EPOCH
version=${ADIT_PACKAGE_VERSION:-$(scripts/version.sh)}
architecture=${DEB_HOST_ARCH:-$(dpkg --print-architecture)}
target=${ADIT_TARGET:-$(rustc -vV | sed -n 's/^host: //p')}
runner=${ADIT_RUNNER:-}
maintainer=$(sed -n 's/^Maintainer: //p' deploy/debian/adit.control)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# DPDK loads its drivers from a folder: no program names them, so no tool finds these dependencies.
drivers="bus-vdev bus-pci mempool-ring event-sw event-dsw net-af-packet net-af-xdp net-memif net-null net-ring net-tap net-vhost net-virtio"
cards="bus-auxiliary net-bnxt net-e1000 net-ena net-i40e net-iavf net-ice net-ixgbe net-mlx5 net-vmxnet3"

# Packages of these drivers, for the DPDK that the programs are linked to: librte-net-tap23, librte-net-mlx5-23.
packages_of() {
    for driver in $1; do
        case $driver in
            *[0-9]) echo "librte-$driver-$abi" ;;
            *) echo "librte-$driver$abi" ;;
        esac
    done | paste -sd, | sed 's/,/, /g'
}

# Packages of the libraries that a program is linked to.
libraries_of() {
    mkdir -p "$work/source/debian"
    echo "Source: adit" > "$work/source/debian/control"
    (cd "$work/source" && dpkg-shlibdeps ${SHLIBDEPS:-} --ignore-missing-info -O "$1" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
}

# Puts files into the tree of a package: put MODE FOLDER FILE…
put() {
    mode=$1 to=$2
    shift 2
    install -d -m 755 "$root$to"
    install -m "$mode" "$@" "$root$to/"
}

# Program, manual pages and papers of package $1.
begin() {
    name=$1
    root=$work/$name
    put 755 /usr/bin "$programs/$name"
    "${STRIP:-strip}" --strip-unneeded --remove-section=.comment "$root/usr/bin/$name"
    install -d -m 755 "$root/usr/share/man/man1"
    $runner "$programs/$name" man --folder "$root/usr/share/man/man1"
    gzip -9n "$root"/usr/share/man/man1/*
    chmod 644 "$root"/usr/share/man/man1/*
    put 644 "/usr/share/doc/$name" deploy/debian/copyright
    python3 scripts/licenses.py "$name" "$target" > "$work/third-party-licenses"
    gzip -9nc "$work/third-party-licenses" > "$root/usr/share/doc/$name/third-party-licenses.gz"
    printf '%s (%s) unstable; urgency=medium\n\n  * CHANGELOG.md of adit has the changes.\n\n -- %s  %s\n' "$name" "$version" \
        "$maintainer" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n > "$root/usr/share/doc/$name/changelog.gz"
}

# Writes the package of the tree.
finish() {
    install -d -m 755 "$root/DEBIAN"
    libraries=$(libraries_of "$root/usr/bin/$name")
    abi=$(echo "$libraries" | sed -n 's/.*librte-eal\([0-9]*\).*/\1/p')
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: %s\n' "$name" "$version" "$architecture"
        echo "Installed-Size: $(du -sk --apparent-size "$root" | cut -f1)"
        sed -e "s/@libraries@/$libraries/" -e "s/@drivers@/$(packages_of "$drivers")/" -e "s/@cards@/$(packages_of "$cards")/" \
            "deploy/debian/$name.control"
    } > "$root/DEBIAN/control"
    for script in postinst prerm postrm; do
        [ ! -e "deploy/debian/$name.$script" ] || install -m 755 "deploy/debian/$name.$script" "$root/DEBIAN/$script"
    done
    (cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum) > "$root/DEBIAN/md5sums"
    dpkg-deb --root-owner-group --build "$root" "$folder/${name}_${version}_$architecture.deb" >/dev/null
    echo "$folder/${name}_${version}_$architecture.deb"
}

begin adit
put 644 /lib/systemd/system deploy/systemd/adit.service
put 644 /usr/share/adit/systemd deploy/systemd/adit.service.d/*.conf
put 644 /usr/share/adit/host deploy/host/*
put 644 /usr/share/adit/grafana deploy/grafana/*
put 644 /usr/share/adit/prometheus deploy/prometheus/*
# As in the source tree: the documents refer to each other.
put 644 /usr/share/doc/adit README.md CHANGELOG.md ARCHITECTURE.md SPECIFICATION.md CONTRIBUTING.md
put 644 /usr/share/doc/adit/docs docs/*.md docs/*.webp
for part in benchmarks decisions internals spec; do
    put 644 "/usr/share/doc/adit/docs/$part" "docs/$part"/*.md
done
put 644 /usr/share/doc/adit/examples adit.example.toml
put 644 /usr/share/adit docs/adit.schema.json
install -d -m 755 "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" \
    "$root/usr/share/fish/vendor_completions.d"
$runner "$programs/adit" completions bash > "$root/usr/share/bash-completion/completions/adit"
$runner "$programs/adit" completions zsh > "$root/usr/share/zsh/vendor-completions/_adit"
$runner "$programs/adit" completions fish > "$root/usr/share/fish/vendor_completions.d/adit.fish"
finish

begin adit-lab
install -d -m 755 "$root/usr/share/adit-lab"
cp -r experiments "$root/usr/share/adit-lab/"
chmod -R u=rwX,go=rX "$root/usr/share/adit-lab"
put 644 /usr/share/doc/adit-lab docs/adit-lab.md
finish
