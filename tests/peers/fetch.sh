#!/usr/bin/env bash
# Gets everything the peers need, once. usage: fetch.sh packages | DIR
# packages: Debian packages of this system where they are missing (as root); what compiling needs is among them.
# DIR: into it Prometheus, promtool, vmalert and VictoriaMetrics from Debian unstable (unpacked, not installed), Cassandra,
# KairosDB, its Java client and Micrometer from Maven.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=functions.sh
. "$here/functions.sh"

missing=()
# The program of the Java client is compiled as it starts.
java=$(find_java)
{ [ -n "$java" ] && "$java" --list-modules | grep '^jdk\.compiler@' > /dev/null; } || missing+=(openjdk-17-jdk-headless)
command -v mvn >/dev/null || missing+=(maven)
command -v strace >/dev/null || missing+=(strace)
command -v curl >/dev/null || missing+=(curl)
command -v unzip >/dev/null || missing+=(unzip)
command -v systemd-analyze >/dev/null || missing+=(systemd)
command -v openssl >/dev/null || missing+=(openssl)
command -v cc >/dev/null || missing+=(gcc libc6-dev)
if [ ${#missing[@]} -gt 0 ]; then
  echo "installing ${missing[*]}"
  if [ "$(id -u)" != 0 ]; then
    echo "these Debian packages are missing and only root can install them: ${missing[*]}" >&2
    exit 1
  fi
  apt-get -q update >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}" >/dev/null
fi
if [ "$1" = packages ]; then exit 0; fi
mkdir -p "$1"
dir=$(cd "$1" && pwd)

# unpack_unstable DIR PACKAGE...: from Debian unstable, from the mirror that this system uses.
unpack_unstable() {
  local into=$1 mirror options
  shift
  rm -rf "$into"
  mirror=$({ cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null || true; } |
    sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' |
    awk '!/security/ && !seen++')
  mkdir -p "$into/apt/lists/partial" "$into/apt/cache/archives/partial"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" > "$into/apt/sid.list"
  options=(-o Dir::Etc::sourcelist="$into/apt/sid.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::Lists="$into/apt/lists" -o Dir::Cache="$into/apt/cache" -o APT::Sandbox::User=root)
  apt-get -q "${options[@]}" update >/dev/null
  (cd "$into/apt" && apt-get -q "${options[@]}" download "$@" >/dev/null)
  for deb in "$into"/apt/*.deb; do dpkg -x "$deb" "$into"; done
  rm -rf "$into/apt"
}

# unstable NAME PROGRAM PACKAGE...: into DIR/NAME, unless the program is there.
unstable() {
  local name=$1 program=$2
  shift 2
  if [ ! -x "$dir/$name/usr/bin/$program" ]; then
    unpack_unstable "$dir/$name.part" "$@"
    rm -rf "$dir/$name"
    mv "$dir/$name.part" "$dir/$name"
  fi
}
unstable prometheus prometheus prometheus
unstable promtool promtool promtool
unstable victoria-metrics victoria-metrics victoria-metrics
# Of its programs two are needed.
find "$dir/victoria-metrics/usr/bin" -type f ! -name vmalert ! -name victoria-metrics -delete
"$dir/prometheus/usr/bin/prometheus" --version 2>&1 | head -1
"$dir/promtool/usr/bin/promtool" --version 2>&1 | head -1

"$here/cassandra.sh" fetch "$dir/cassandra"
"$here/cassandra.sh" archive "$dir/cassandra"
"$here/kairosdb.sh" fetch "$dir/kairosdb"
"$here/kairosdb_client.sh" "$dir/kairosdb-clients" fetch
