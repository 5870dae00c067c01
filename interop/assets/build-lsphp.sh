#!/bin/sh
# Builds lsphp, and php-fpm of the same source to compare it with, into the folder
# $1. Debian has the source of PHP and no binary with the litespeed SAPI. As little
# as the suite and the applications need is configured, to build in minutes.
set -eu
out=$1
work=$out.work
rm -rf "$work"
mkdir -p "$work/lists/partial" "$out"
cd "$work"

missing=
for need in gcc:gcc make:make pkg-config:pkg-config xz:xz-utils; do
  command -v "${need%%:*}" >/dev/null || missing="$missing ${need#*:}"
done
command -v g++ >/dev/null || missing="$missing g++"
for need in /usr/include/stdio.h:libc6-dev /usr/include/libxml2:libxml2-dev /usr/include/oniguruma.h:libonig-dev \
  /usr/include/unicode/ucol.h:libicu-dev /usr/include/sqlite3.h:libsqlite3-dev; do
  [ -e "${need%%:*}" ] || missing="$missing ${need#*:}"
done
if [ -n "$missing" ]; then
  apt-get update -q
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
fi

# The archive that packages come from has their source too: an entry of its own
# says so, and the machine's lists stay as they are.
. /etc/os-release
apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
  awk -v release="$VERSION_CODENAME" '$2 == release && $3 == "main" { print "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]", $0; exit }' >src.list
[ -s src.list ] || { echo "apt-get update first: no list of $VERSION_CODENAME main" >&2; exit 1; }
apt="-o Dir::Etc::sourcelist=$work/src.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=$work/lists -o APT::Sandbox::User=root"
# shellcheck disable=SC2086
apt-get $apt update -q
# shellcheck disable=SC2086
apt-get $apt source --download-only php8.2
tar -xf php8.2_*.orig.tar.xz --strip-components=1

CFLAGS='-O1 -g0' ./configure --disable-all --disable-cli --disable-cgi --disable-phpdbg --without-pear \
  --enable-litespeed --enable-fpm --enable-session --enable-ctype --enable-filter --enable-tokenizer \
  --with-libxml --enable-xml --enable-simplexml --enable-dom --enable-xmlreader --enable-xmlwriter \
  --enable-mbstring --enable-intl --enable-fileinfo --with-iconv --enable-pdo --with-sqlite3 --with-pdo-sqlite \
  --enable-mysqlnd --with-mysqli=mysqlnd --enable-posix --disable-opcache-jit >configure.log
make -s -j"$(nproc)" sapi/litespeed/php sapi/fpm/php-fpm >make.log 2>&1 || { tail -20 make.log >&2; exit 1; }
strip -o "$out/php-fpm" sapi/fpm/php-fpm
strip -o "$out/lsphp.new" sapi/litespeed/php
mv "$out/lsphp.new" "$out/lsphp" # last: who finds it finds all
cd "$out"
rm -rf "$work"
