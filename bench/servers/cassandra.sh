# shellcheck shell=bash
# One Cassandra for a whole part, and a KairosDB over it. They are not the server that runs: pid and
# address stay those of promkairos.

# start_cassandra: sets cassandra to its address and cassandra_pid. KairosDB joins the index rows of several
# requests in one batch, which a Cassandra as it is installed refuses above 50 KiB; KairosDB goes on without them.
start_cassandra() {
  CASSANDRA_HEAP=2g CASSANDRA_YAML="batch_size_fail_threshold: 5MiB" \
    tests/peers/cassandra.sh up "$peers/cassandra" "$work/cassandra" >&2
  cassandra=$(cat "$work/cassandra/address")
  cassandra_pid=$(cat "$work/cassandra/pid")
}

stop_cassandra() {
  tests/peers/cassandra.sh down "$work/cassandra"
  rm -rf "$work/cassandra"
}

# over_cassandra KEYSPACE ACK [FLAG ...]: starts promkairos over it.
over_cassandra() {
  local keyspace=$1 ack=$2
  shift 2
  start_promkairos --store cassandra --cassandra-contact-points "$cassandra" --cassandra-keyspace "$keyspace" \
    --ack "$ack" "$@"
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
