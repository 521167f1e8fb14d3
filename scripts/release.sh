#!/bin/sh
# Builds all that is published of a release: packages, image, chart, SBOM, changes, checksums.
# Usage: scripts/release.sh [VERSION]      VERSION is recorded in releases.toml; without it HEAD is built, under a version of its own
# It builds a copy of the recorded revision, so nothing of this tree gets into a release.
set -eu
umask 022
cd "$(dirname "$0")/.."
name=${1:-}
if [ -n "$name" ]; then
    revision=$(awk -F'"' -v name="$name" '/^version/ {is_it = $2 == name} /^revision/ && is_it {print $2}' releases.toml)
    [ -n "$revision" ] || { echo "releases.toml has no release $name" >&2; exit 1; }
    version=$name
else
    revision=$(git rev-parse HEAD)
    version=$(scripts/version.sh)
    name=Unreleased
fi
folder=$PWD/target/published/$version
source=$PWD/target/release-source
export CARGO_TARGET_DIR="$PWD/target/dist"
export ADIT_REVISION="$revision" ADIT_PACKAGE_VERSION="$version"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$revision")
export SOURCE_DATE_EPOCH

rm -rf "$source" "$folder"
mkdir -p "$source" "$folder"
git archive "$revision" | tar -xC "$source"
[ -e "$source/scripts/release.sh" ] || { echo "$version is older than these scripts" >&2; exit 1; }
make -C "$source" --no-print-directory deb image PACKAGES="$folder"
(cd "$source" && scripts/sbom.sh "$folder/image" "$folder")
tar -C "$folder/image" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf "$folder/adit_$version.oci.tar" .
rm -rf "$folder/image"
if [ -d "$source/deploy/helm" ]; then
    sed -i -e "s/^version:.*/version: $version/" -e "s/^appVersion:.*/appVersion: \"$(echo "$version" | tr '+~' '--')\"/" "$source"/deploy/helm/adit/Chart.yaml
    tar -C "$source/deploy/helm" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -c adit |
        gzip -9n > "$folder/adit-$version.tgz"
fi
awk -v name="$name" '/^## / {is_it = $2 == name} is_it' "$source/CHANGELOG.md" > "$folder/CHANGES.md"
(cd "$folder" && sha256sum -- * > SHA256SUMS)
ls "$folder"
