#!/bin/sh
# Builds for aarch64 on another processor, with libraries and headers of this machine's own sources of packages.
# Usage: scripts/aarch64.sh COMMAND…      runs it with what cargo, clang, pkg-config and scripts/deb.sh need
#        scripts/aarch64.sh test          every room compiles; adit and adit-lab run under qemu and have packages
# apt fetches the packages into the build folder, and installs nothing.
set -eu
umask 022

[ $# -ge 1 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu
build=$(realpath -m "${CARGO_TARGET_DIR:-target}")
folder=$build/aarch64-sysroot
root=$folder/root
libraries=$root/usr/lib/aarch64-linux-gnu

# Ends with the reason. Only a test that no job asks for is skipped.
stop() {
    [ "$command" = test ] && [ -z "${CI:-}" ] && echo "skipped: aarch64: $1" && exit 0
    echo "aarch64: $1" >&2
    exit 1
}
command=$1

for tool in clang aarch64-linux-gnu-ld qemu-aarch64; do
    command -v "$tool" >/dev/null || stop "$tool is missing: apt-get install clang binutils-aarch64-linux-gnu qemu-user"
done
[ -d "$(rustc --print target-libdir --target $target)" ] || stop "the target is missing: rustup target add $target"

# apt for arm64, with lists and caches of its own.
arm_apt() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State=$folder/state" \
        -o "Dir::State::status=$folder/state/status" -o "Dir::Cache=$folder/cache" -o APT::Sandbox::User=root "$@"
}

# Unpacks the packages, and writes what dpkg-shlibdeps reads of a machine's packages.
unpack() {
    info=$1/var/lib/dpkg/info
    mkdir -p "$info" "$1/var/lib/dpkg/updates"
    for package in "$folder"/cache/archives/*.deb; do
        name=$info/$(dpkg-deb -f "$package" Package):arm64
        dpkg-deb -X "$package" "$1" | sed "s,^\.,$root," > "$name.list"
        dpkg-deb -I "$package" shlibs > "$name.shlibs" 2>/dev/null || rm "$name.shlibs"
        dpkg-deb -I "$package" symbols > "$name.symbols" 2>/dev/null || rm "$name.symbols"
        dpkg-deb -f "$package" | sed '1a Status: install ok installed'
        echo
    done > "$1/var/lib/dpkg/status"
    echo 1 > "$info/format"
    echo arm64 > "$1/var/lib/dpkg/arch"
}

if [ ! -d "$root" ]; then
    echo "fetching arm64 packages" >&2
    rm -rf "$folder"
    mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial"
    : > "$folder/state/status"
    arm_apt update || stop "apt cannot fetch lists of packages for arm64"
    arm_apt install --yes --download-only --no-install-recommends libc6-dev "libgcc-$(gcc -dumpversion | cut -d. -f1)-dev" \
        linux-libc-dev libdpdk-dev libbsd-dev libelf-dev zlib1g-dev libhwloc-dev || stop "apt cannot fetch packages for arm64"
    # An interrupted run leaves no partial one.
    unpack "$folder/unpacking"
    mv "$folder/unpacking" "$root"
    rm -rf "$folder/cache"
fi

for_target="--target=$target --sysroot=$root"
# No flag of rustc names the folder: cargo's names of symbols would depend on it.
printf '#!/bin/sh\nexec clang %s "$@"\n' "$for_target" > "$folder/linker"
chmod 755 "$folder/linker"
export PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_SYSROOT_DIR="$root" PKG_CONFIG_LIBDIR="$libraries/pkgconfig:$root/usr/share/pkgconfig"
export BINDGEN_EXTRA_CLANG_ARGS="$for_target"
export CC_aarch64_unknown_linux_gnu=clang AR_aarch64_unknown_linux_gnu=ar
export CFLAGS_aarch64_unknown_linux_gnu="$for_target ${CFLAGS:-}"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER="$folder/linker"
# For scripts/deb.sh.
export DEB_HOST_ARCH=arm64 ADIT_TARGET=$target ADIT_RUNNER="qemu-aarch64 -L $root" STRIP=aarch64-linux-gnu-strip
export SHLIBDEPS="--admindir=$root/var/lib/dpkg -l$libraries -l$root/lib/aarch64-linux-gnu"

[ "$command" = test ] || exec "$@"

cargo check --quiet --workspace --all-targets --target $target
# A short build: the programs are neither measured nor debugged.
CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 cargo build --quiet --target $target --package adit --package adit-lab
for program in adit adit-lab; do
    $ADIT_RUNNER "$build/$target/debug/$program" --version
done
$ADIT_RUNNER "$build/$target/debug/adit" check adit.example.toml > "$folder/checked" || stop "adit check fails under qemu"
ADIT_PACKAGE_VERSION=0 DPKG_DEB_COMPRESSOR_LEVEL=0 scripts/deb.sh "$build/$target/debug" "$folder/packages" >/dev/null
dpkg-deb -f "$folder/packages/adit_0_arm64.deb" Depends | grep -q librte-eal || stop "the package lacks its dependencies"
echo "every room compiles for $target; adit runs there and has a package"
