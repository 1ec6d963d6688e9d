#!/bin/sh
# Installs what warmroot is built and tested with on Debian 12, and builds what Debian does not package: static
# archives of libmount and of an HTTP-only libcurl, from Debian's own source packages. Called by tests/run.sh and
# tests/demo.sh; every part is skipped when it is there already. Usage: sh tests/deps.sh (from the repository).
set -eu
cd "$(dirname "$0")/.."
. tests/lib.sh

packages="build-essential g++ cmake ninja-build ccache pkg-config git ca-certificates
 libcurl4-openssl-dev libssl-dev libtinyxml2-dev libmount-dev libblkid-dev uuid-dev libcli11-dev libspdlog-dev
 libexpected-dev nlohmann-json3-dev libtomlplusplus-dev libcpp-httplib-dev libsqlite3-dev liburing-dev
 libgtest-dev libgmock-dev libbenchmark-dev libfuse3-dev fuse3 zlib1g-dev
 qemu-system-x86 qemu-utils grub-pc-bin mmdebstrap fio awscli openssh-client rsync e2fsprogs xfsprogs btrfs-progs dosfstools util-linux fdisk cpio zstd curl openssl python3 dpkg-dev
 systemd systemd-container dbus clang-16 libclang-rt-16-dev lld-16"

missing=""
for package in $packages; do
  installed "$package" || missing="$missing $package"
done
if [ -n "$missing" ]; then
  [ "$(id -u)" = 0 ] || die "these Debian packages are missing and only root can install them:$missing"
  step "apt: installing$missing"
  export DEBIAN_FRONTEND=noninteractive
  run_logged apt-update apt-get update
  # shellcheck disable=SC2086 # word splitting is the list
  run_logged apt-install apt-get install -y --no-install-recommends $missing
fi

# A private apt configuration whose only difference is that every entry also names its sources.
apt_with_sources() {
  private=build/apt
  mkdir -p "$private/sources.list.d" "$private/lists/partial" "$private/cache/archives/partial"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list; do
    [ -f "$file" ] || continue
    case $file in
      *.sources) sed 's/^Types:.*/Types: deb-src/' "$file" >"$private/sources.list.d/$(basename "$file")" ;;
      *) sed -n 's/^deb\([[:space:]]\)/deb-src\1/p' "$file" >"$private/sources.list.d/$(basename "$file" .list).list" ;;
    esac
  done
  apt-get -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$PWD/$private/sources.list.d" \
    -o "Dir::State::lists=$PWD/$private/lists" -o "Dir::Cache=$PWD/$private/cache" -o APT::Sandbox::User=root "$@"
}

# fetch_source PACKAGE: prints the unpacked directory below build/src.
fetch_source() {
  mkdir -p build/src
  (cd build/src && set -- "$1" && ls -d "$1"-*/ >/dev/null 2>&1) && { ls -d "build/src/$1"-*/; return; }
  [ -n "$(ls build/apt/lists/*Sources* 2>/dev/null)" ] || apt_with_sources update >>build/logs/apt-source.log 2>&1
  here=$PWD
  apt_with_sources source --download-only "$1" >>build/logs/apt-source.log 2>&1 ||
    die "apt-get source $1 failed; see build/logs/apt-source.log"
  mv "$1"_* build/src/
  (cd build/src && dpkg-source --no-check -x "$1"_*.dsc >>"$here/build/logs/apt-source.log" 2>&1)
  ls -d "build/src/$1"-*/
}

prefix=$PWD/build/deps

# Debian's sshd for the tests, unpacked: installed, it would listen on this machine's port 22.
if [ ! -e "$prefix/sshd/usr/sbin/sshd" ]; then
  step "unpacking Debian's openssh-server"
  mkdir -p build/src/sshd "$prefix"
  (cd build/src/sshd && { run_logged sshd-download apt-get download openssh-server libwrap0 ||
    { run_logged apt-update apt-get update && run_logged sshd-download apt-get download openssh-server libwrap0; }; } &&
    for file in *.deb; do dpkg-deb -x "$file" "$prefix/sshd"; done)
fi
# Nothing is thrown through C: tables to unwind it by would be the larger part of what these weigh beside their code.
flags="-Os -ffunction-sections -fdata-sections -g0 -fno-asynchronous-unwind-tables -fno-unwind-tables"
if [ "$(cat "$prefix/flags" 2>/dev/null)" != "$flags" ]; then
  rm -rf "$prefix/lib/libmount.a" "$prefix/lib/libcurl.a" build/src/util-linux-*/ build/src/curl-*/
  echo "$flags" >"$prefix/flags"
fi

if [ ! -e "$prefix/lib/libmount.a" ]; then
  step "building a static libmount from Debian's util-linux source"
  source=$(fetch_source util-linux)
  (cd "$source" &&
    run_logged libmount-configure ./configure --disable-all-programs --enable-libmount --enable-libblkid \
      --enable-static --disable-shared --without-selinux --without-systemd --without-udev --without-cryptsetup \
      --disable-nls --disable-asciidoc --disable-gtk-doc --prefix="$prefix" --libdir="$prefix/lib" CFLAGS="$flags" &&
    run_logged libmount-make make -j"$(nproc)" ACLOCAL=: AUTOCONF=: AUTOMAKE=: AUTOHEADER=: libmount.la libblkid.la &&
    mkdir -p "$prefix/lib" "$prefix/include/libmount" "$prefix/include/blkid" &&
    cp .libs/libmount.a .libs/libblkid.a "$prefix/lib/" &&
    cp libmount/src/libmount.h "$prefix/include/libmount/" && cp libblkid/src/blkid.h "$prefix/include/blkid/")
fi

if [ ! -e "$prefix/lib/libcurl.a" ]; then
  step "building a static, HTTP-only libcurl from Debian's curl source"
  source=$(fetch_source curl)
  (cd "$source" && { [ -x configure ] || run_logged libcurl-autoreconf autoreconf -fi; } &&
    run_logged libcurl-configure ./configure --disable-shared --enable-static --without-ssl --without-zlib \
      --without-brotli --without-zstd --without-libpsl --without-libidn2 --without-nghttp2 --without-librtmp \
      --without-libssh2 --disable-ftp --disable-file --disable-ldap --disable-ldaps --disable-rtsp --disable-dict \
      --disable-telnet --disable-tftp --disable-pop3 --disable-imap --disable-smb --disable-smtp --disable-gopher \
      --disable-mqtt --disable-manual --disable-proxy --disable-cookies --disable-crypto-auth --disable-netrc \
      --disable-alt-svc --disable-hsts --disable-doh --disable-mime --disable-dateparse --disable-progress-meter \
      --disable-threaded-resolver --disable-unix-sockets --disable-tls-srp --disable-ntlm --disable-get-easy-options \
      --disable-versioned-symbols --disable-verbose --disable-headers-api --disable-aws \
      --prefix="$prefix" --libdir="$prefix/lib" CFLAGS="$flags" &&
    run_logged libcurl-make make -j"$(nproc)" -C lib &&
    run_logged libcurl-install make -C lib install && run_logged libcurl-headers make -C include install)
fi
