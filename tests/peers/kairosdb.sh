#!/usr/bin/env bash
# A KairosDB from its Maven artefacts over a Cassandra that runs, on free ports of 127.0.0.1.
# usage: kairosdb.sh fetch JARS | up JARS RUN CASSANDRA_ADDRESS KEYSPACE [SETTINGS] | down RUN
# JARS has the file that KairosDB comes with too, kairosdb.conf.
# RUN keeps configuration, `log`, `pid` and, once it answers, `address` (REST) and `telnet`.
# SETTINGS is a file with lines for the `kairosdb { ... }` block of its configuration. PEER_LIFE=short is for tests (see
# functions.sh).
set -euo pipefail
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
version=${KAIROSDB_VERSION:-1.3.0-1}

# Its own pom forgets the last three, and guice must come in the version that it asks for itself.
fetch() {
  maven_jars "$1" kairosdb <<XML
<dependency><groupId>org.kairosdb</groupId><artifactId>kairosdb</artifactId><version>$version</version></dependency>
<dependency><groupId>com.sun.jersey.contribs</groupId><artifactId>jersey-guice</artifactId><version>1.19.4</version><exclusions>
  <exclusion><groupId>com.google.inject</groupId><artifactId>*</artifactId></exclusion>
  <exclusion><groupId>com.google.inject.extensions</groupId><artifactId>*</artifactId></exclusion>
</exclusions></dependency>
<dependency><groupId>com.sun.xml.bind</groupId><artifactId>jaxb-core</artifactId><version>2.3.0</version></dependency>
<dependency><groupId>javax.activation</groupId><artifactId>activation</artifactId><version>1.1.1</version></dependency>
XML
  unzip -qo "$1/lib/kairosdb-$version.jar" kairosdb.conf -d "$1"
  echo "kairosdb: $(basename "$1"/lib/kairosdb-*.jar .jar)"
}

# The defaults come from the jar; a file of the same name beside the -p argument overrides them.
configure() {
  local run=$1 rest=$2 telnet=$3 cassandra=$4 keyspace=$5 settings=$6
  mkdir -p "$run/conf" "$run/classes"
  java_logging "$run/classes"
  {
    cat <<CONF
kairosdb: {
  telnetserver.port: $telnet
  telnetserver.address: "127.0.0.1"
  jetty.port: $rest
  jetty.address: "127.0.0.1"
  service.datastore: "org.kairosdb.datastore.cassandra.CassandraModule"
  service.reporter: "<disabled>"
  queue_processor.queue_path: "$run/queue"
  datastore.cassandra.write_cluster.cql_host_list: ["$cassandra"]
  datastore.cassandra.write_cluster.keyspace: "$keyspace"
  # A query asks for each row by itself, all at once: with 500, the default, one over some decades fails
  # while Cassandra is slow.
  datastore.cassandra.write_cluster.max_queue_size: 100000
CONF
    cat "$settings"
    echo "}"
  } > "$run/conf/kairosdb.conf"
}

start() {
  local jars=$1 run=$2 rest telnet heap=${KAIROSDB_HEAP:-1g}
  rest=$(free_port) telnet=$(free_port)
  configure "$run" "$rest" "$telnet" "$3" "$4" "$5"
  # shellcheck disable=SC2046 # words are wanted
  (cd "$run" && exec setsid nohup "$(find_java)" -Xmx"$heap" $(java_life) \
    --add-opens java.base/java.lang=ALL-UNNAMED --add-opens java.base/java.util=ALL-UNNAMED \
    --add-opens java.base/sun.nio.ch=ALL-UNNAMED --add-opens java.base/java.nio=ALL-UNNAMED \
    -Djava.io.tmpdir="$run" -cp "$run/classes:$jars/lib/*" org.kairosdb.core.Main -c run \
    -p "$run/conf/kairosdb.conf" > "$run/log" 2>&1 < /dev/null) &
  echo $! > "$run/pid"
  for _ in $(seq 600); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$rest") 2>/dev/null && curl -sf -o /dev/null "http://127.0.0.1:$rest/api/v1/version"
    then
      echo "127.0.0.1:$rest" > "$run/address"
      echo "127.0.0.1:$telnet" > "$run/telnet"
      return 0
    fi
    kill -0 "$(cat "$run/pid")" 2>/dev/null || return 1
    sleep 0.2
  done
  return 1
}

case ${1:-} in
  fetch)
    mkdir -p "$2"
    fetch "$(cd "$2" && pwd)"
    ;;
  up)
    mkdir -p "$3"
    jars=$(cd "$2" && pwd) run=$(cd "$3" && pwd)
    rm -f "$run/address" "$run/telnet"
    for _ in 1 2 3; do
      start "$jars" "$run" "$4" "$5" "$(realpath "${6:-/dev/null}")" && exit 0
      stop "$run"
    done
    echo "kairosdb did not start:" >&2
    grep -vE '^\s+at ' "$run/log" | tail -20 >&2
    exit 1
    ;;
  down) stop "$2" ;;
  *)
    sed -n 's/^# usage: /usage: /p' "$0" >&2
    exit 2
    ;;
esac
