#!/bin/sh
# Writes what programs and image consist of, in CycloneDX: the crates by cargo-cyclonedx, the Debian packages by debsbom.
# Usage: scripts/sbom.sh IMAGE FOLDER      IMAGE is the layout of scripts/image.sh. Installs both tools if they are missing.
# cargo-cyclonedx writes a file beside each manifest: run it in a copy of the tree, as scripts/release.sh does.
set -eu
image=$(realpath "$1")
folder=$(realpath "$2")
cd "$(dirname "$0")/.."
tools=${CARGO_TARGET_DIR:-target}/sbom-tools

cargo cyclonedx --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-cyclonedx
[ -e "$tools/bin/debsbom" ] || { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet 'debsbom[cdx]'; }

cargo cyclonedx --quiet --format json --override-filename sbom.cdx
# Without the place of this copy.
sed "s#file://$PWD/#file:///adit/#g" crates/adit/sbom.cdx.json > "$folder/adit.crates.cdx.json"
sed "s#file://$PWD/#file:///adit/#g" crates/lab/sbom.cdx.json > "$folder/adit-lab.crates.cdx.json"
find crates -name sbom.cdx.json -delete

# The layer of libraries has dpkg's list.
for layer in "$image"/blobs/sha256/*; do
    if gzip -dc "$layer" 2>/dev/null | tar -t 2>/dev/null | grep -qx ./var/lib/dpkg/status; then
        architecture=$(gzip -dc "$layer" | tar -xO ./var/lib/dpkg/status | sed -n 's/^Architecture: //p' | grep -vx all | head -1)
        gzip -dc "$layer" | "$tools/bin/debsbom" generate -r - -t cdx --distro-arch "$architecture" \
            --cdx-serialnumber "$(basename "$layer" | sed -E 's/^(.{8})(.{4})(.{4})(.{4})(.{12}).*/\1-\2-\3-\4-\5/')" \
            --timestamp "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" -o "$folder/image_$architecture"
    fi
done
