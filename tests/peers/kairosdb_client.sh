#!/usr/bin/env bash
# Java programs that use KairosDB, from Maven artefacts: its client, and Micrometer.
# usage: kairosdb_client.sh JARS fetch | reads URL METRIC START END | writes URL TELNET_PORT PREFIX TIME
# `reads` prints what the client reads from a server: see client/Reads.java. `writes` is client/Writes.java.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=functions.sh
. "$here/functions.sh"
version=${KAIROSDB_CLIENT_VERSION:-3.1.1} micrometer=${MICROMETER_VERSION:-1.16.0}

program() {
  exec "$(find_java)" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$jars/lib/*" "$here/client/$1.java" "${@:2}"
}

jars=${1:-}
case ${2:-} in
  fetch)
    maven_jars "$jars" client <<XML
<dependency><groupId>org.kairosdb</groupId><artifactId>client</artifactId><version>$version</version></dependency>
<dependency><groupId>io.micrometer</groupId><artifactId>micrometer-registry-kairos</artifactId>
<version>$micrometer</version></dependency>
XML
    echo "kairosdb client: $(cd "$jars/lib" && ls -d client-*.jar micrometer-registry-*.jar | tr '\n' ' ')"
    ;;
  reads) program Reads "${@:3}" ;;
  writes) program Writes "${@:3}" ;;
  *)
    sed -n 's/^# usage: /usage: /p' "$0" >&2
    exit 2
    ;;
esac
