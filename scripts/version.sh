#!/bin/sh
# Prints the version of a package of this tree that is no release: that of the workspace, the time of the commit, the commit.
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
commit=$(TZ=UTC git log -1 --abbrev=8 --date=format-local:%Y%m%d%H%M%S --format=%cd.%h 2>/dev/null) || commit=unknown
echo "$version+git$commit"
