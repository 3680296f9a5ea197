#!/usr/bin/env bash
# Measures promkairos against its load generator, and against the bare Cassandra driver in the same
# run. usage: bench/run.sh [RESULT_FILE]
# Cassandra is fetched by tests/peers/ and started here. Everything stays on 127.0.0.1.
set -euo pipefail
cd "$(dirname "$0")/.."
result=${1:-/dev/stdout}
peers=${PROMKAIROS_PEERS:-.peers}

cargo build --release --workspace
load=$PWD/target/release/load
work=$(mktemp -d)
pid=
finish() {
  status=$?
  trap - EXIT
  [ -z "$pid" ] || stop
  [ ! -d "$work/cassandra" ] || tests/peers/cassandra.sh down "$work/cassandra"
  rm -rf "$work"
  exit $status
}
trap finish EXIT

# start LOG [FLAG ...]: starts promkairos, waits until it is ready, prints the seconds that took.
start() {
  local log=$1 from; shift
  from=$(date +%s.%N)
  target/release/promkairos --listen 127.0.0.1:0 --data-dir "$work/data" "$@" > "$log" 2>&1 &
  pid=$!
  for _ in $(seq 6000); do
    kill -0 "$pid" || { cat "$log" >&2; return 1; }
    address=$(sed -n 's|.*listening on http://||p' "$log")
    if [ -n "$address" ] && curl -sf -o /dev/null "http://$address/-/ready"; then
      ready=$(awk -v a="$from" -v b="$(date +%s.%N)" "BEGIN { print b - a }")
      return
    fi
    sleep 0.02
  done
  return 1
}

stop() { kill "$pid"; wait "$pid" || true; pid=; }

# note NAME: reads JSON and appends it to the result under this name.
note() { printf '"%s": %s,\n' "$1" "$(cat)"; }

{
  echo '{'
  printf '"date": "%s", "commit": "%s", "cores": %s, "cpu": "%s",\n' "$(date -u +%F)" \
    "$(git rev-parse --short HEAD)" "$(nproc)" "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"

  start "$work/log"
  "$load" send --address "$address" --series 200000 --scrapes 100 --pid "$pid" | note ingest_200k
  "$load" count --address "$address" --pid "$pid" | note count_200k
  stop; rm -rf "$work/data"

  # The log holds 10 M samples when the process is killed.
  start "$work/log"
  "$load" send --address "$address" --series 200000 --scrapes 50 --pid "$pid" | note ingest_before_kill
  kill -9 "$pid"; wait "$pid" || true
  start "$work/log"
  printf '"ready_seconds_after_kill_10M": %s,\n' "$ready"
  "$load" count --address "$address" --pid "$pid" | note count_after_kill
  stop; rm -rf "$work/data"

  start "$work/log"
  "$load" send --address "$address" --series 1000000 --scrapes 20 --pid "$pid" | note ingest_1M
  "$load" count --address "$address" --pid "$pid" | note count_1M
  stop
  printf '"disk_bytes_1M_after_drain": %s,\n' "$(du -sb "$work/data/embedded" | cut -f1)"
  rm -rf "$work/data"

  tests/peers/fetch.sh "$peers" >&2
  tests/peers/cassandra.sh up "$peers/cassandra" "$work/cassandra" >&2
  cassandra=$(cat "$work/cassandra/address")
  start "$work/log" --store cassandra --cassandra-contact-points "$cassandra" --cassandra-keyspace bench
  # Twice in turn; the first pair warms the server up and its figures are only kept for comparison.
  for round in warm_up measured; do
    "$load" cql --address "$cassandra" --series 20000 --rounds 40 | note "driver_$round"
    "$load" send --address "$address" --series 20000 --scrapes 40 --connections 4 --pid "$pid" \
      --start "$((1700000000000 + $([ $round = measured ] && echo 1 || echo 0) * 1000000))" |
      note "cassandra_$round"
  done
  "$load" count --address "$address" | note count_cassandra
  stop
  echo '"end": true'
  echo '}'
} > "$result"
