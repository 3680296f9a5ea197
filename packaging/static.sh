#!/usr/bin/env bash
# A static binary, and is it one? usage: packaging/static.sh [gnu|musl] [PROFILE]
# gnu (without an argument) links glibc's own archives: host names that are neither in /etc/hosts nor in DNS are looked
# up by the libraries of the machine all the same. musl needs `rustup target add x86_64-unknown-linux-musl` and Debian's
# musl-tools. The profile is `release` without an argument; `dev` tries the script out in less time. It fails when the
# binary is not static, or does not answer --version in an empty root, where there is no library to be found. Needs `file`.
set -euo pipefail
cd "$(dirname "$0")/.."

libc=${1:-gnu} profile=${2:-release}
case $libc in
  gnu | musl) ;;
  *)
    sed -n 's/^.* usage: /usage: /p' "$0" | head -1 >&2
    exit 2
    ;;
esac
target=$(uname -m)-unknown-linux-$libc
# With a target named, proc macros and build scripts are linked as ever.
RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" \
  cargo build --locked --bin promkairos --target "$target" --profile "$profile"
folder=$profile
if [ "$profile" = dev ]; then folder=debug; fi
binary=${CARGO_TARGET_DIR:-target}/$target/$folder/promkairos

failed() {
  echo "$binary: $1" >&2
  exit 1
}
kind=$(file -b "$binary")
case $kind in
  *"statically linked"* | *"static-pie linked"*) ;;
  *) failed "$kind" ;;
esac
if readelf -lW "$binary" | grep ' INTERP ' > /dev/null; then failed "it asks for a loader"; fi
if readelf -dW "$binary" | grep '(NEEDED)' > /dev/null; then failed "it needs libraries: $(readelf -dW "$binary" | grep '(NEEDED)')"; fi
# ldd fails for a static binary without PIE; for none does it name a library.
if ldd "$binary" 2>&1 | grep '=>' > /dev/null; then failed "it needs libraries: $(ldd "$binary")"; fi

version=$("$binary" --version)
# In a root of its own, where the user may make one.
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
install -m 755 "$binary" "$root/promkairos"
if alone=$(chroot "$root" /promkairos --version 2>&1); then
  [ "$alone" = "$version" ] || failed "in an empty root it says $alone"
elif [ "$(id -u)" = 0 ]; then
  failed "in an empty root: $alone"
else
  echo "not tried in an empty root, which root alone can make" >&2
fi
echo "$binary: $version, static"
