# shellcheck shell=bash
# Reading an hour of 15 s from one Cassandra: promkairos, the bare driver's SELECTs, KairosDB with and without its
# tag index, in short turns, for Cassandra gets slower and faster while all this runs, and another one first each time.
# A turn before the first one warms all of them up. promkairos is started anew in each turn: its first query knows
# nothing. Without its read cache it reads as much as the others; with it, only the first time.
shown_kairosdb_indexed="KairosDB, tag index"
shown_promkairos_cached="promkairos, read cache"
shown_alone="written by KairosDB alone"
shown_shared="written by both"

part_cassandra_reads() {
  wide_series=$(scaled 10000) fleet_series=$(scaled 8800)
  wide=(--series "$wide_series" --per-metric "$wide_series" --prefix wide)
  indexed_metric=wide_00000_operations_total
  start_cassandra
  start_reader
  "$load" send --address "$address" "${wide[@]}" --scrapes 240 --connections 4 > /dev/null
  "$load" send --address "$address" --series "$fleet_series" --scrapes 240 --connections 4 > /dev/null
  stop_server
  start_kairosdb indexed read "datastore.cassandra.write_cluster.tag_indexed_row_key_lookup_metrics: [\"$indexed_metric\"]"
  indexed=$kairosdb
  start_kairosdb plain read
  in_turns read_in_turn
  start_reader
  shared_metric
  stop_server
  stop_kairosdb plain
  stop_kairosdb indexed
  rm -rf "$work/promkairos"
  stop_cassandra
  in_turns read_embedded
}

# start_reader [FLAG ...]
start_reader() { over_cassandra read store --tag-indexed-row-key-lookup-metrics "$indexed_metric" "$@"; }

read_in_turn() {
  start_uncached
  in_order "Cassandra, 1 of $wide_series series, 1 h" read_one promkairos kairosdb kairosdb_indexed
  in_order "Cassandra, 400 of $wide_series series, 1 h" read_400 promkairos driver kairosdb
  in_order "Cassandra, $(short "$fleet_series") series, 1 h" read_fleet promkairos promkairos_cached driver kairosdb
  stop_server
}

start_uncached() { start_reader --cassandra-read-cache-size 0; }

# The same fleet from the files of the embedded store.
read_embedded() {
  start_promkairos
  "$load" send --address "$address" --series "$fleet_series" --scrapes 240 > /dev/null
  stop_server
  start_promkairos
  measure "promkairos, embedded" "Cassandra, $(short "$fleet_series") series, 1 h"
  ask_for_fleet
  stop_server
  rm -rf "$work/promkairos"
}

# read_one SERVER: the series of one instance among those of a metric.
read_one() {
  local shown=shown_$1 instance=10.6.15.8:9100 at=$kairosdb
  if [ "$wide_series" -lt 3759 ]; then instance=10.0.0.0:9100; fi
  measure "${!shown}" "Cassandra, 1 of $wide_series series, 1 h"
  if [ "$1" = promkairos ]; then
    "$load" count "${subject[@]}" --address "$address" --rounds 9 --match "__name__=$indexed_metric" \
      --match "instance=$instance"
    return
  fi
  if [ "$1" = kairosdb_indexed ]; then at=$indexed; fi
  "$load" kairosdb-query "${subject[@]}" --address "$at" --rounds 9 --metric "$indexed_metric" \
    --tag "instance=$instance"
}

# read_400 SERVER
read_400() {
  local shown=shown_$1 pods
  measure "${!shown}" "Cassandra, 400 of $wide_series series, 1 h"
  case $1 in
    promkairos)
      "$load" count "${subject[@]}" --address "$address" --rounds 7 --match "__name__=$indexed_metric" \
        --match "pod=~application-server-00000000-00[0-3].+"
      ;;
    driver)
      "$load" rows "${subject[@]}" --cassandra "$cassandra" --keyspace read --series 400 --per-metric "$wide_series" \
        --prefix wide --rounds 7
      ;;
    kairosdb)
      pods=$(seq -f application-server-00000000-%05.0f 0 399 | paste -sd,)
      "$load" kairosdb-query "${subject[@]}" --address "$kairosdb" --rounds 7 --metric "$indexed_metric" \
        --tag "pod=$pods"
      ;;
  esac
}

# Asks the server that runs.
ask_for_fleet() {
  "$load" query "${subject[@]}" --address "$address" --pid "$pid" --rounds 3 --figure "sum by(rate)" \
    --path "$(sum_rate_path "$everything")&$(range 60 1700003585)"
  "$load" count "${subject[@]}" --address "$address" --rounds 3
}

# read_fleet SERVER
read_fleet() {
  local shown=shown_$1 metrics=() metric figure
  measure "${!shown}" "Cassandra, $(short "$fleet_series") series, 1 h"
  case $1 in
    promkairos) ask_for_fleet ;;
    promkairos_cached)
      stop_server
      start_reader
      ask_for_fleet
      stop_server
      start_uncached
      ;;
    driver)
      # It only reads what the sum has to read.
      for figure in "sum by(rate)" read; do
        "$load" rows "${subject[@]}" --cassandra "$cassandra" --keyspace read --series "$fleet_series" --rounds 3 \
          --figure "$figure" --only "$figure, first" --only "$figure, again"
      done
      ;;
    kairosdb)
      for metric in $(seq -f %05.0f 0 $(((fleet_series - 1) / 400))); do
        metrics+=(--metric "bench_subsystem_${metric}_operations_total")
      done
      "$load" kairosdb-query "${subject[@]}" --address "$kairosdb" --rounds 3 "${metrics[@]}"
      ;;
  esac
}

# What KairosDB's queries take of a metric that promkairos has written too, the same series and points, and of
# one that it has not. Small requests: KairosDB loses the index rows of many new series at once.
shared_metric() {
  local metric shape=(--series 400 --per-metric 400 --scrapes 240)
  for metric in alone shared; do
    "$load" kairosdb-send --address "$kairosdb" "${shape[@]}" --prefix $metric --samples 50 --connections 1 \
      --cassandra "$cassandra" --keyspace read > /dev/null
  done
  "$load" send --address "$address" "${shape[@]}" --prefix shared > /dev/null
  for round in $(seq "$rounds"); do
    in_order "Cassandra, KairosDB asks for 400 series, 1 h" ask_for_shared alone shared
  done
}

# ask_for_shared METRIC: of shared_metric.
ask_for_shared() {
  local shown=shown_$1
  measure KairosDB "Cassandra, KairosDB asks for 400 series, 1 h"
  "$load" kairosdb-query "${subject[@]}" --address "$kairosdb" --rounds 15 --metric "${1}_00000_operations_total" \
    --figure "${!shown}"
}
