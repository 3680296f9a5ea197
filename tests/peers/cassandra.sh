#!/usr/bin/env bash
# A one-node Cassandra from its Maven artefacts, on free ports of 127.0.0.1.
# usage: cassandra.sh fetch JARS | up JARS RUN | up-secure JARS RUN | up-durable JARS RUN | again JARS RUN | down RUN
# RUN keeps configuration, data, `log`, `pid` and, once it answers, `address`. A secure one asks for user
# and password (cassandra, cassandra) and for a certificate: see RUN/tls. A durable one has a write on disk
# before it answers. CASSANDRA_OPTIONS go to its Java, CASSANDRA_YAML stands at the end of its settings. `again`
# starts one that was ended with its address and data.
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

configure() {
  local run=$1 port=$2 storage=$3 kind=$4 sync
  sync=$'commitlog_sync: periodic\ncommitlog_sync_period: 10000ms'
  [ "$kind" != durable ] || sync='commitlog_sync: batch'
  mkdir -p "$run/conf"
  java_logging "$run/conf"
  cat > "$run/conf/cassandra.yaml" <<YAML
cluster_name: promkairos-tests
num_tokens: 8
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
$sync
auto_snapshot: false
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
native_transport_port: $port
storage_port: $storage
seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{seeds: "127.0.0.1:$storage"}]}]
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
  local run=$1 kind=$2 port=$3
  grep -q "Starting listening for CQL clients" "$run/log" || return 1
  [ "$kind" != secure ] || grep -q "Created default superuser role" "$run/log" || return 1
  (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null
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
  local jars=$1 run=$2 kind=$3 port
  port=$(free_port)
  configure "$run" "$port" "$(free_port)" "$kind"
  [ "$kind" != secure ] || secure "$run"
  launch "$jars" "$run" "$kind" "$port"
}

# One attempt. Fails when the process ends (a port was taken meanwhile) or stays silent for two minutes.
launch() {
  local jars=$1 run=$2 kind=$3 port=$4 heap=${CASSANDRA_HEAP:-1g}
  : > "$run/log"
  # shellcheck disable=SC2046 # words are wanted
  setsid nohup "$(find_java)" -Xms"$heap" -Xmx"$heap" -XX:+UseG1GC $(java_options) \
    -Dcassandra.config="file://$run/conf/cassandra.yaml" -Dlogback.configurationFile="$run/conf/logback.xml" \
    -Dcassandra.storagedir="$run/data" -Dcassandra-foreground=yes -Dcassandra.ring_delay_ms=100 \
    -Dcassandra.skip_wait_for_gossip_to_settle=0 -Dcassandra.superuser_setup_delay_ms=0 -Djdk.attach.allowAttachSelf=true \
    ${CASSANDRA_OPTIONS:-} -cp "$run/conf:$jars/lib/*" org.apache.cassandra.service.CassandraDaemon > "$run/log" 2>&1 < /dev/null &
  echo $! > "$run/pid"
  for _ in $(seq 240); do
    if is_up "$run" "$kind" "$port"; then
      echo "127.0.0.1:$port" > "$run/address"
      return 0
    fi
    kill -0 "$(cat "$run/pid")" 2>/dev/null || return 1
    sleep 0.5
  done
  return 1
}

case ${1:-} in
  fetch)
    mkdir -p "$2"
    fetch "$(cd "$2" && pwd)"
    ;;
  up | up-secure | up-durable)
    kind=${1#up}
    kind=${kind#-}
    mkdir -p "$3"
    jars=$(cd "$2" && pwd) run=$(cd "$3" && pwd)
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
  again)
    jars=$(cd "$2" && pwd) run=$(cd "$3" && pwd) address=$(cat "$3/address")
    for _ in 1 2 3; do
      launch "$jars" "$run" plain "${address##*:}" && exit 0
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
