#!/usr/bin/env bash
# Measures promkairos, KairosDB and the bare driver in turn on one Cassandra and one keyspace.
# usage: bench/kairosdb.sh [RESULT_FILE]
# Cassandra and KairosDB are fetched by tests/peers/ and started here. Everything stays on 127.0.0.1.
set -euo pipefail
cd "$(dirname "$0")/.."
result=${1:-/dev/stdout}
# shellcheck source=functions.sh
. bench/functions.sh

tests/peers/fetch.sh "$peers" >&2
tests/peers/kairosdb.sh fetch "$peers/kairosdb" >&2
# KairosDB joins the index rows of several requests in one batch, which a Cassandra as it is installed refuses
# above 50 KiB; KairosDB goes on without them.
CASSANDRA_YAML="batch_size_fail_threshold: 5MiB" tests/peers/cassandra.sh up "$peers/cassandra" "$work/cassandra" >&2
cassandra=$(cat "$work/cassandra/address")
keyspace=bench
wide=(--series 10000 --per-metric 10000 --prefix wide)
fleet=(--series 8800)
# Of the wide metric: the instance of series 3758, and the pods of the first 400 series.
one=10.6.15.8:9100
selected="wide_00000_operations_total%7Binstance%3D%22$one%22%7D" hour="start=1700000000&end=1700003600"
sum="sum%20by%20(cluster)%20(rate(%7B__name__%3D~%22bench_subsystem_.%2B%22%7D%5B1m%5D))"
pods=$(seq -f application-server-00000000-%05.0f 0 399 | paste -sd,)

cat > "$work/plain.conf" <<CONF
datastore.cassandra.read_cluster_consistency_level: "ONE"
CONF
cat > "$work/indexed.conf" <<CONF
datastore.cassandra.write_cluster.tag_indexed_row_key_lookup_metrics: ["wide_00000_operations_total"]
CONF

{
  echo '{'
  machine
  start "$work/log" --store cassandra --cassandra-contact-points "$cassandra" \
    --cassandra-keyspace "$keyspace" --tag-indexed-row-key-lookup-metrics wide_00000_operations_total
  tests/peers/kairosdb.sh up "$peers/kairosdb" "$work/kairosdb-plain" "$cassandra" "$keyspace" "$work/plain.conf" >&2
  tests/peers/kairosdb.sh up "$peers/kairosdb" "$work/kairosdb-indexed" "$cassandra" "$keyspace" "$work/indexed.conf" >&2
  plain=$(cat "$work/kairosdb-plain/address") indexed=$(cat "$work/kairosdb-indexed/address")

  # Writing, one sample a series in a request. The first round warms all of them up.
  for round in warm_up measured; do
    time=$((1700000000000 + $([ $round = measured ] && echo 1 || echo 0) * 1000000))
    "$load" cql --address "$cassandra" --series 20000 --rounds 40 | note "write_driver_$round"
    "$load" send --address "$address" --series 20000 --prefix ours --scrapes 40 --connections 4 --pid "$pid" \
      --start "$time" | note "write_promkairos_$round"
    "$load" kairosdb-send --address "$plain" --series 20000 --prefix theirs --scrapes 40 --start "$time" \
      --pid "$(cat "$work/kairosdb-plain/pid")" > "$work/sent" &
    sender=$!
    "$load" rows --address "$cassandra" --keyspace "$keyspace" --series 20000 --prefix theirs --modulo 100 \
      --remainder 99 --scrapes 40 --start "$time" --wait | note "write_kairosdb_${round}_stored"
    wait "$sender"; note "write_kairosdb_${round}_accepted" < "$work/sent"
  done
  "$load" send --address "$address" --series 200000 --prefix new_ours --scrapes 1 --connections 4 --pid "$pid" |
    note new_series_promkairos
  "$load" kairosdb-send --address "$plain" --series 200000 --prefix new_theirs --scrapes 1 > "$work/sent" &
  sender=$!
  "$load" rows --address "$cassandra" --keyspace "$keyspace" --series 200000 --prefix new_theirs --modulo 1000 \
    --remainder 999 --scrapes 1 --wait | note new_series_kairosdb_stored
  wait "$sender"; note new_series_kairosdb_accepted < "$work/sent"

  # Reading an hour of 15 s.
  "$load" send --address "$address" "${wide[@]}" --scrapes 240 --connections 4 > /dev/null
  "$load" send --address "$address" "${fleet[@]}" --scrapes 240 --connections 4 > /dev/null
  metrics=(); for metric in $(seq -f %05.0f 0 21); do metrics+=(--metric "bench_subsystem_${metric}_operations_total"); done
  # In short turns: Cassandra gets slower and faster while all this runs.
  for round in warm_up first second third; do
    "$load" count --address "$address" --rounds 9 --match __name__=wide_00000_operations_total \
      --match "instance=$one" | note "read_1_promkairos_$round"
    "$load" query --address "$address" --rounds 9 --path "/api/v1/series?match%5B%5D=$selected&$hour" |
      note "select_1_promkairos_$round"
    "$load" kairosdb-query --address "$indexed" --rounds 9 --metric wide_00000_operations_total \
      --tag "instance=$one" | note "read_1_kairosdb_indexed_$round"
    "$load" kairosdb-query --address "$plain" --rounds 9 --metric wide_00000_operations_total \
      --tag "instance=$one" | note "read_1_kairosdb_plain_$round"

    "$load" rows --address "$cassandra" --keyspace "$keyspace" --series 400 --per-metric 10000 --prefix wide \
      --rounds 7 | note "read_400_driver_$round"
    "$load" count --address "$address" --rounds 7 --match __name__=wide_00000_operations_total \
      --match "pod=~application-server-00000000-00[0-3].+" | note "read_400_promkairos_$round"
    "$load" kairosdb-query --address "$plain" --rounds 7 --metric wide_00000_operations_total \
      --tag "pod=$pods" | note "read_400_kairosdb_$round"

    "$load" rows --address "$cassandra" --keyspace "$keyspace" "${fleet[@]}" --rounds 3 | note "read_8800_driver_$round"
    "$load" count --address "$address" --rounds 3 --match "__name__=~bench_subsystem_.+" |
      note "read_8800_promkairos_$round"
    "$load" query --address "$address" --rounds 3 --path "/api/v1/query_range?query=$sum&$hour&step=15" |
      note "sum_rate_8800_promkairos_$round"
    "$load" kairosdb-query --address "$plain" --rounds 3 "${metrics[@]}" | note "read_8800_kairosdb_$round"
  done

  # What KairosDB's queries take of a metric that promkairos has written too, the same series and points, and of
  # one that it has not. Small requests: KairosDB loses the index rows of many new series at once.
  alone=(--series 400 --per-metric 400 --prefix alone --scrapes 240)
  shared=(--series 400 --per-metric 400 --prefix shared --scrapes 240)
  "$load" kairosdb-send --address "$plain" "${alone[@]}" --samples 50 --connections 1 > /dev/null
  "$load" kairosdb-send --address "$plain" "${shared[@]}" --samples 50 --connections 1 > /dev/null
  "$load" send --address "$address" "${shared[@]}" > /dev/null
  for round in warm_up first second third; do
    for metric in alone shared; do
      "$load" kairosdb-query --address "$plain" --rounds 15 --metric "${metric}_00000_operations_total" |
        note "kairosdb_asks_${metric}_$round"
    done
  done
  stop
  echo '"end": true'
  echo '}'
} > "$result"
