#!/usr/bin/env bash
# The Java client of KairosDB from its Maven artefacts.
# usage: kairosdb_client.sh fetch JARS | reads JARS URL METRIC START END
# `reads` prints what the client reads from a server: see client/Reads.java.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=functions.sh
. "$here/functions.sh"
version=${KAIROSDB_CLIENT_VERSION:-3.1.1}

case ${1:-} in
  fetch)
    maven_jars "$2" client <<XML
<dependency><groupId>org.kairosdb</groupId><artifactId>client</artifactId><version>$version</version></dependency>
XML
    echo "kairosdb client: $(basename "$2"/lib/client-*.jar .jar)"
    ;;
  reads) exec "$(find_java)" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$2/lib/*" "$here/client/Reads.java" "${@:3}" ;;
  *)
    sed -n 's/^# usage: /usage: /p' "$0" >&2
    exit 2
    ;;
esac
