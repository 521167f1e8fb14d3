# What scripts that run mmdebstrap need to know of this machine. Sourced, not run.

# The sources of packages, and the name of the release.
for sources in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/ubuntu.sources /etc/apt/sources.list; do
    [ ! -e "$sources" ] || break
done
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
