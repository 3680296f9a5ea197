# shellcheck shell=bash
# One Cassandra for a whole part, or several nodes, and a KairosDB over it. They are not the server that runs: pid
# and address stay those of promkairos.
shown_driver="bare driver"
shown_kairosdb=KairosDB

# start_cassandra: one node. KairosDB joins the index rows of several requests in one batch, which a Cassandra as it
# is installed refuses above 50 KiB; KairosDB goes on without them.
start_cassandra() {
  nodetool_port=$(free_port)
  CASSANDRA_HEAP=2g CASSANDRA_YAML="batch_size_fail_threshold: 5MiB" \
    CASSANDRA_OPTIONS="-Dcassandra.jmx.local.port=$nodetool_port" \
    tests/peers/cassandra.sh up "$peers/cassandra" "$work/cassandra-1" >&2
  know_nodes 1
  cluster=Cassandra
}

# start_nodes COUNT: so many nodes on 127.0.0.1, 127.0.0.2 and so on, each with 1 GB, one after the other.
# Both set cluster to what loads are named after.
start_nodes() {
  local count=$1 node
  nodetool_port=
  export CASSANDRA_HEAP=1g
  tests/peers/cassandra.sh up "$peers/cassandra" "$work/cassandra-1" >&2
  for node in $(seq 2 "$count"); do
    tests/peers/cassandra.sh join "$peers/cassandra" "$work/cassandra-$node" "$work/cassandra-1" "127.0.0.$node" >&2
  done
  know_nodes "$count"
  cluster="Cassandra, $count node$([ "$count" = 1 ] || echo s)"
}

# know_nodes COUNT: sets nodes to their number, which is the number of copies too, cassandra to the address of the
# first one, contact_points to all, cassandra_pid to the process of the first and cassandra_pids to flags with all.
know_nodes() {
  local node
  nodes=$1 contact_points= cassandra_pids=()
  for node in $(seq "$nodes"); do
    contact_points+=${contact_points:+,}$(cat "$work/cassandra-$node/address")
    cassandra_pids+=(--pid "$(cat "$work/cassandra-$node/pid")")
  done
  cassandra=$(cat "$work/cassandra-1/address")
  cassandra_pid=$(cat "$work/cassandra-1/pid")
}

stop_cassandra() {
  local node
  for node in $(seq "$nodes"); do
    tests/peers/cassandra.sh down "$work/cassandra-$node"
    rm -rf "$work/cassandra-$node"
  done
}

# disk_of_keyspace KEYSPACE: sets disk to the bytes of its tables on one node, once what is in memory is flushed.
disk_of_keyspace() {
  "$(find_java)" --add-exports java.base/jdk.internal.ref=ALL-UNNAMED --add-exports java.base/sun.nio.ch=ALL-UNNAMED \
    -Duser.home="$work" -cp "$work/cassandra-1/conf:$peers/cassandra/lib/*" org.apache.cassandra.tools.NodeTool \
    -h 127.0.0.1 -p "$nodetool_port" flush "$1" >&2
  disk=$(bytes "$work/cassandra-1/data/data/$1")
}

# over_cassandra KEYSPACE ACK [FLAG ...]: starts promkairos over it.
over_cassandra() {
  local keyspace=$1 ack=$2
  shift 2
  start_promkairos --store cassandra --cassandra-contact-points "$contact_points" --cassandra-keyspace "$keyspace" \
    --cassandra-replication "$nodes" --ack "$ack" "$@"
}

# start_kairosdb NAME KEYSPACE [SETTING ...]: sets kairosdb to the address of its REST and kairosdb_pid.
start_kairosdb() {
  local run=$work/kairosdb-$1 keyspace=$2
  shift 2
  printf '%s\n' "$@" > "$work/kairosdb.conf"
  tests/peers/kairosdb.sh up "$peers/kairosdb" "$run" "$cassandra" "$keyspace" "$work/kairosdb.conf" >&2
  kairosdb=$(cat "$run/address")
  kairosdb_pid=$(cat "$run/pid")
}

stop_kairosdb() {
  tests/peers/kairosdb.sh down "$work/kairosdb-$1"
  rm -rf "$work/kairosdb-$1"
}
