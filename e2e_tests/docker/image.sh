#!/bin/sh
# Makes the sandbox image for tests without any registry: from packages of this Debian, interpreter tarballs and a uv
# that is installed here. What it holds is what profiles/Dockerfile makes.
#
#   image.sh NAME                 imports the image under this name
#   PYTHON_TARBALLS='a.tar.zst b.tar.zst'   install_only tarballs; the first becomes /usr/local/bin/python3
#   UV=/path/to/uv                a real uv, no shim
#   DOCKER=docker                 the client to use
set -eu
name=${1:?usage: image.sh NAME}
: "${PYTHON_TARBALLS:?name the interpreter tarballs}" "${UV:?name the uv executable}"
docker=${DOCKER:-docker}
packages='base-files libc6 libc-bin libgcc-s1 libstdc++6 dash bash libtinfo6 coreutils libacl1 libattr1 libselinux1
          libpcre2-8-0 libgmp10 libssl3 grep sed findutils diffutils gzip tar hostname mawk procps libproc2-0
          ca-certificates tzdata netbase zlib1g libexpat1'

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root" "$work/packages"
chmod 755 "$work/packages"
(cd "$work/packages" && apt-get -qq -o APT::Sandbox::User=root download $packages)
for package in "$work"/packages/*.deb; do
    dpkg-deb -x "$package" "$root"
done
ln -sf dash "$root/bin/sh"

mkdir -p "$root/usr/local/bin"

# Interpreters, each in a folder of its own.
for tarball in $PYTHON_TARBALLS; do
    version=$(basename "$tarball" | sed 's/^cpython-\([0-9.]*\)[-+].*/\1/')
    home=$root/opt/python/$version
    mkdir -p "$home"
    tar -xf "$tarball" -C "$home" --strip-components=1
    "$home/bin/python3" -I -S -m compileall -q -j 2 -s "$root" "$home/lib" >/dev/null 2>&1 || true
    minor=${version%.*}
    ln -s "../../../opt/python/$version/bin/python$minor" "$root/usr/local/bin/python$minor"
    [ -e "$root/usr/local/bin/python3" ] || ln -s "python$minor" "$root/usr/local/bin/python3"
done
install -m 755 "$UV" "$root/usr/local/bin/uv"

# The sandbox's user and its folders.
cat > "$root/etc/passwd" <<'END'
root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh
END
printf 'root:x:0:\nnogroup:x:65534:\nsandbox:x:1000:\n' > "$root/etc/group"
printf 'hosts: files dns\npasswd: files\ngroup: files\n' > "$root/etc/nsswitch.conf"
install -d -m 1777 "$root/tmp" "$root/var/tmp"
install -d -m 755 "$root/root"
for folder in work home/sandbox environment packages; do
    install -d -o 1000 -g 1000 "$root/$folder"
done
# The package's own script would do this on a running system.
mkdir -p "$root/etc/ssl/certs"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" 2>/dev/null ||
    cat "$root"/usr/share/ca-certificates/*/*.crt > "$root/etc/ssl/certs/ca-certificates.crt"

tar -C "$root" --numeric-owner -c . |
    "$docker" import --change 'ENV PATH=/usr/local/bin:/usr/bin:/bin' --change 'LABEL mcp-python-exec-sandbox.image=1' - "$name"
