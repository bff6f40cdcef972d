#!/bin/sh
# Refreshes seccomp/syscalls/*.tbl from the kernel headers of a Debian suite.
#
#   scripts/refresh-syscalls.sh [SUITE]      default: experimental, which has the newest release candidate
#   scripts/refresh-syscalls.sh FILE.deb     a linux-libc-dev package that is already here
#
# The package holds the headers of every architecture. Package lists of its own are used; the machine's apt
# configuration stays as it is. After a refresh the build names each system call that has no decision yet.
set -eu
cd "$(dirname "$0")/.."
suite=${1:-experimental}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fetch() {
    mirror=${DEBIAN_MIRROR:?set it to the mirror that apt uses}
    key=/usr/share/keyrings/debian-archive-keyring.gpg
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
    printf 'deb [signed-by=%s] %s %s main\n' "$key" "$mirror" "$suite" >"$work/sources.list"
    own="-o Dir::Etc::SourceList=$work/sources.list -o Dir::Etc::SourceParts=/dev/null"
    own="$own -o Dir::State::Lists=$work/lists -o Dir::Cache=$work/cache -o APT::Sandbox::User=root"
    # shellcheck disable=SC2086 # a list of options without spaces
    apt-get -qq $own update
    # shellcheck disable=SC2086
    (cd "$work" && apt-get -qq $own download "linux-libc-dev/$suite")
}

case $suite in
    *.deb) cp "$suite" "$work/linux-libc-dev_given.deb" ;;
    *) fetch ;;
esac
package=$(echo "$work"/linux-libc-dev_*.deb)
version=$(dpkg-deb -f "$package" Version)
dpkg-deb -x "$package" "$work/headers"

for arch in x86_64 aarch64; do
    header=$work/headers/usr/include/$arch-linux-gnu/asm/unistd_64.h
    [ -e "$header" ] || header=$work/headers/usr/lib/linux/uapi/${arch%_64}/asm/unistd_64.h
    {
        echo "# System calls of $arch: number and name. Written by scripts/refresh-syscalls.sh"
        echo "# from Debian's linux-libc-dev $version."
        sed -n 's/^#define __NR_\([a-z0-9_]*\) \([0-9]*\)$/\2 \1/p' "$header" | sort -n
    } >"$work/table"
    rows=$(grep -vc '^#' "$work/table")
    [ "$rows" -ge 300 ] || { echo "refresh-syscalls: only $rows rows found for $arch in $package" >&2; exit 1; }
    mv "$work/table" "seccomp/syscalls/$arch.tbl"
    echo "seccomp/syscalls/$arch.tbl: $rows system calls, $version"
done
