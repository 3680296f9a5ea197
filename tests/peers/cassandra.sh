#!/usr/bin/env bash
# A Cassandra from its Maven artefacts, on free ports of 127.0.0.1.
# usage: cassandra.sh fetch JARS | archive JARS | up JARS RUN | up-secure JARS RUN | up-durable JARS RUN
# usage: cassandra.sh join JARS RUN FIRST HOST | await-up RUN HOST TIMES | again JARS RUN | down RUN
# RUN keeps configuration, data, `log`, `pid` and, once it answers, `address`. A secure one asks for user
# and password (cassandra, cassandra) and for a certificate: see RUN/tls; it refuses mutations above 256 KiB, and
# to all but that user cells above 1 KiB and a SELECT of more than three partitions. A durable one has a write in its
# log before it answers. Any other syncs its commit log every 10 s; given CASSANDRA_SYNC_PERIOD, it writes the log only
# that often. CASSANDRA_OPTIONS go to its Java, CASSANDRA_YAML stands at the end of its settings, and PEER_LIFE=short
# is for tests (see functions.sh). `again` starts one that was ended with its address and data. `join` starts a further
# node of the cluster whose first one is in FIRST and has no samples yet, on the same ports of another address of the
# loopback, as 127.0.0.2; it is up when the first one has seen that. `await-up` waits until the node in RUN has seen
# HOST come up so many times. `archive` makes JARS/classes.jsa, once, with which a short life begins sooner.
set -euo pipefail
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
version=${CASSANDRA_VERSION:-5.0.5}

fetch() {
  maven_jars "$1" cassandra <<XML
<dependency><groupId>org.apache.cassandra</groupId><artifactId>cassandra-all</artifactId><version>$version</version></dependency>
XML
  echo "cassandra: $(basename "$1"/lib/cassandra-all-*.jar .jar)"
}

# archive JARS: starts one and ends it, and Java leaves the classes that it loaded as it maps them at the next start.
# Nothing but time depends on that. Where it did not work the file is empty, and nobody tries again.
archive() {
  local jars=$1 run=$1/archive pid
  if [ -e "$jars/classes.jsa" ] || [ ! -w "$jars" ]; then return 0; fi
  rm -rf "$run"
  mkdir "$run"
  if PEER_LIFE=short CASSANDRA_HEAP=512m start "$jars" "$run" archive; then
    # It writes the file while it ends by itself.
    pid=$(cat "$run/pid")
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 300); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.2
    done
  fi
  stop "$run"
  [ -e "$run/classes.jsa" ] || : > "$run/classes.jsa"
  mv "$run/classes.jsa" "$jars/classes.jsa"
  rm -rf "$run"
}

# configure RUN HOST PORT STORAGE_PORT SEED KIND
configure() {
  local run=$1 host=$2 port=$3 storage=$4 seed=$5 kind=$6 sync memory=
  # A slab of 1 MiB for each of the thousand tables of tests would fill the heap.
  [ "${PEER_LIFE:-}" != short ] || memory='memtable_allocation_type: unslabbed_heap_buffers'
  sync=$'commitlog_sync: periodic\ncommitlog_sync_period: '${CASSANDRA_SYNC_PERIOD:-10000ms}
  # What is compressed stays in memory until the sync; else a marker ten times a second makes it known after a kill.
  [ -z "${CASSANDRA_SYNC_PERIOD:-}" ] || sync+=$'\ncommitlog_compression: [{class_name: LZ4Compressor}]'
  [ "$kind" != durable ] || sync='commitlog_sync: batch'
  mkdir -p "$run/conf"
  java_logging "$run/conf"
  cat > "$run/conf/cassandra.yaml" <<YAML
cluster_name: promkairos-tests
num_tokens: 8
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
$sync
$memory
auto_snapshot: false
# By default a 256th of the heap, which the statements of some hundred keyspaces of tests fill: new ones are dropped at once.
prepared_statements_cache_size: 64MiB
listen_address: $host
rpc_address: $host
native_transport_port: $port
storage_port: $storage
seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{seeds: "$seed"}]}]
data_file_directories: ["$run/data/data"]
commitlog_directory: "$run/data/commitlog"
saved_caches_directory: "$run/data/saved_caches"
hints_directory: "$run/data/hints"
cdc_raw_directory: "$run/data/cdc"
${CASSANDRA_YAML:-}
YAML
}

# certificate TLS NAME [signer=NAME] EXTENSION...: TLS/NAME.pem and .key, signed by itself or the signer.
certificate() {
  local tls=$1 name=$2 extension arguments=()
  shift 2
  for extension in "$@"; do
    case $extension in
      signer=*) arguments+=(-CA "$tls/${extension#*=}.pem" -CAkey "$tls/${extension#*=}.key") ;;
      *) arguments+=(-addext "$extension") ;;
    esac
  done
  openssl req -x509 -config <(printf '[req]\ndistinguished_name=dn\n[dn]\n') -days 30 -subj "/CN=$name" \
    -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$tls/$name.key" -out "$tls/$name.pem" \
    "${arguments[@]}" 2>/dev/null
}

# Login and TLS both ways: `ca` signs `node` and `client`, `other-ca` signs nothing.
secure() {
  local run=$1 tls=$1/tls
  mkdir -p "$tls"
  certificate "$tls" ca basicConstraints=critical,CA:TRUE
  certificate "$tls" other-ca basicConstraints=critical,CA:TRUE
  certificate "$tls" node signer=ca subjectAltName=IP:127.0.0.1
  certificate "$tls" client signer=ca extendedKeyUsage=clientAuth
  cat "$tls/node.key" "$tls/node.pem" > "$tls/node-store.pem"
  cat >> "$run/conf/cassandra.yaml" <<YAML
authenticator: PasswordAuthenticator
authorizer: CassandraAuthorizer
permissions_validity: 100ms
permissions_update_interval: 100ms
max_mutation_size: 256KiB
column_value_size_fail_threshold: 1KiB
partition_keys_in_select_fail_threshold: 3
page_size_fail_threshold: 2000
client_encryption_options:
  enabled: true
  optional: false
  require_client_auth: true
  ssl_context_factory: {class_name: org.apache.cassandra.security.PEMBasedSslContextFactory}
  keystore: "$tls/node-store.pem"
  truststore: "$tls/ca.pem"
YAML
}

# Whether it listens, and where it is secure knows its first user.
is_up() {
  local run=$1 kind=$2 address=$3
  grep -q "Starting listening for CQL clients" "$run/log" || return 1
  [ "$kind" != secure ] || grep -q "Created default superuser role" "$run/log" || return 1
  (exec 3<>"/dev/tcp/${address%:*}/${address##*:}") 2>/dev/null
}

# What Cassandra's own start script opens to it on Java 17.
java_options() {
  local package
  for package in java.base/jdk.internal.misc java.base/jdk.internal.ref java.base/sun.nio.ch \
    java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry java.rmi/sun.rmi.server \
    java.sql/java.sql java.base/java.lang.ref java.base/java.lang.reflect jdk.unsupported/sun.misc; do
    echo --add-exports "$package=ALL-UNNAMED"
  done
  for package in java.base/java.lang.module java.base/jdk.internal.loader java.base/jdk.internal.ref \
    java.base/jdk.internal.reflect java.base/jdk.internal.math java.base/jdk.internal.module \
    java.base/jdk.internal.util.jar jdk.management/com.sun.management.internal java.base/sun.nio.ch \
    java.base/java.io java.base/java.lang java.base/java.lang.reflect java.base/java.util \
    java.base/java.util.concurrent java.base/java.util.concurrent.atomic java.base/java.nio \
    java.rmi/sun.rmi.transport.tcp; do
    echo --add-opens "$package=ALL-UNNAMED"
  done
}

# One attempt with new ports.
start() {
  local jars=$1 run=$2 kind=$3 port storage
  port=$(free_port)
  storage=$(free_port)
  configure "$run" 127.0.0.1 "$port" "$storage" "127.0.0.1:$storage" "$kind"
  [ "$kind" != secure ] || secure "$run"
  launch "$jars" "$run" "$kind" "127.0.0.1:$port"
}

# One attempt to have a further node. It takes no data from the others, as there is none.
join_cluster() {
  local jars=$1 run=$2 first=$3 host=$4 address storage
  address=$(cat "$first/address")
  storage=$(sed -n 's/^storage_port: //p' "$first/conf/cassandra.yaml")
  configure "$run" "$host" "${address##*:}" "$storage" "${address%:*}:$storage" plain
  echo 'auto_bootstrap: false' >> "$run/conf/cassandra.yaml"
  launch "$jars" "$run" plain "$host:${address##*:}" && await_up "$first" "$host" 1
}

# await_up RUN HOST TIMES: waits until a node has seen so many times that another is up.
await_up() {
  local run=$1 host=$2 times=$3
  for _ in $(seq 240); do
    [ "$(grep -cE "InetAddress .*/$host:[0-9]+ is now UP" "$run/log")" -lt "$times" ] || return 0
    sleep 0.5
  done
  echo "the node in $run has not seen $host come up $times times" >&2
  return 1
}

# class_path JARS: all of them, in an order that stays. The archive is of use for the same class path only, and for
# one without folders.
class_path() {
  local all
  all=$(printf ':%s' "$1"/lib/*.jar)
  echo "${all#:}"
}

# One attempt. Fails when the process ends (a port was taken meanwhile) or stays silent for two minutes.
launch() {
  local jars=$1 run=$2 kind=$3 address=$4 heap=${CASSANDRA_HEAP:-1g} mapped=()
  # What is archived was verified.
  if [ "$kind" = archive ]; then
    mapped=(-XX:+BytecodeVerificationRemote -XX:ArchiveClassesAtExit="$run/classes.jsa")
  elif [ "${PEER_LIFE:-}" = short ] && [ -s "$jars/classes.jsa" ]; then
    mapped=(-XX:SharedArchiveFile="$jars/classes.jsa")
  fi
  : > "$run/log"
  # shellcheck disable=SC2046 # words are wanted
  setsid nohup "$(find_java)" -Xms"$heap" -Xmx"$heap" $(java_life) "${mapped[@]}" $(java_options) \
    -Dcassandra.config="file://$run/conf/cassandra.yaml" -Dlogback.configurationFile="$run/conf/logback.xml" \
    -Dcassandra.storagedir="$run/data" -Dcassandra-foreground=yes -Dcassandra.ring_delay_ms=100 \
    -Dcassandra.skip_wait_for_gossip_to_settle=0 -Dcassandra.superuser_setup_delay_ms=0 -Djdk.attach.allowAttachSelf=true \
    -Djava.io.tmpdir="$run" ${CASSANDRA_OPTIONS:-} -cp "$(class_path "$jars")" \
    org.apache.cassandra.service.CassandraDaemon > "$run/log" 2>&1 < /dev/null &
  echo $! > "$run/pid"
  for _ in $(seq 600); do
    if is_up "$run" "$kind" "$address"; then
      echo "$address" > "$run/address"
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
  archive) archive "$(cd "$2" && pwd -P)" ;;
  up | up-secure | up-durable)
    kind=${1#up}
    kind=${kind#-}
    mkdir -p "$3"
    jars=$(cd "$2" && pwd -P) run=$(cd "$3" && pwd)
    rm -f "$run/address"
    for _ in 1 2 3; do
      start "$jars" "$run" "$kind" && exit 0
      stop "$run"
      rm -rf "$run/data"
    done
    echo "cassandra did not start:" >&2
    tail -20 "$run/log" >&2
    exit 1
    ;;
  join)
    mkdir -p "$3"
    jars=$(cd "$2" && pwd -P) run=$(cd "$3" && pwd)
    join_cluster "$jars" "$run" "$4" "$5" && exit 0
    echo "cassandra did not join:" >&2
    tail -20 "$run/log" >&2
    exit 1
    ;;
  await-up) await_up "$2" "$3" "$4" ;;
  again)
    jars=$(cd "$2" && pwd -P) run=$(cd "$3" && pwd) address=$(cat "$3/address")
    for _ in 1 2 3; do
      launch "$jars" "$run" plain "$address" && exit 0
      stop "$run"
    done
    echo "cassandra did not start again:" >&2
    tail -20 "$run/log" >&2
    exit 1
    ;;
  down) stop "$2" ;;
  *)
    sed -n 's/^# usage: /usage: /p' "$0" >&2
    exit 2
    ;;
esac
