# shellcheck shell=bash
# KairosDB's own API: a KairosDB, promkairos on its keyspace, with its read cache and without, and promkairos with its
# own files. All servers get the same JSON, with new times in each turn; a write is timed until its points are stored.
# A query averages the 400 series of a metric over minutes. A turn before the first one warms all up.
shown_own="promkairos, embedded"

part_kairosdb_api() {
  average_series=$(scaled 400)
  start_cassandra
  over_cassandra stored store
  start_kairosdb writes stored
  in_turns json_in_turn
  stop_server
  stop_kairosdb writes
  rm -rf "$work/promkairos"
  start_promkairos
  in_turns json_of_own
  round=1
  measure "$shown_own" "$(json_name)"
  "$load" count --address "$address" --match '__name__=~own_.+' \
    --expected $(($(scaled 20000) * json_scrapes * (rounds + 1))) > /dev/null
  record "counted back" 100 "% of what was sent"
  stop_server
  rm -rf "$work/promkairos"
  start_average
  "$load" send --address "$address" --series "$average_series" --scrapes 5760 --connections 4 > /dev/null
  stop_server
  start_kairosdb average average
  in_turns average_in_turn
  stop_kairosdb average
  rm -rf "$work/promkairos"
  stop_cassandra
  start_promkairos
  "$load" send --address "$address" --series "$average_series" --scrapes 5760 > /dev/null
  stop_server
  in_turns average_of_own
  rm -rf "$work/promkairos"
}

json_scrapes=20

json_name() { echo "KairosDB's API, $(short "$(scaled 20000)") series, JSON"; }

json_in_turn() { in_order "$(json_name)" json promkairos kairosdb; }

json_of_own() { json own; }

# json SERVER: writes of JSON, a point of each series in a turn of scrapes.
json() {
  local shown=shown_$1 at=$address prefix=$1 more=()
  measure "${!shown}" "$(json_name)"
  case $1 in
    kairosdb)
      at=$kairosdb
      more=(--pid "$kairosdb_pid" --pid "$cassandra_pid" --cassandra "$cassandra" --keyspace stored)
      ;;
    promkairos) more=(--pid "$pid" "${cassandra_pids[@]}") ;;
    own) more=(--pid "$pid") ;;
  esac
  "$load" kairosdb-send "${subject[@]}" --address "$at" --series "$(scaled 20000)" --prefix "$prefix" \
    --scrapes "$json_scrapes" --start $((1700000000000 + round * 1000000)) "${more[@]}"
}

# start_average [FLAG ...]
start_average() { over_cassandra average store "$@"; }

average_in_turn() {
  in_order "KairosDB's API, $average_series series" average kairosdb promkairos promkairos_cached
}

average_of_own() { average own; }

# average SERVER
average() {
  local shown=shown_$1 at=$kairosdb
  measure "${!shown}" "KairosDB's API, $average_series series"
  case $1 in
    promkairos) start_average --cassandra-read-cache-size 0 ;;
    promkairos_cached) start_average ;;
    own) start_promkairos ;;
  esac
  if [ "$1" != kairosdb ]; then at=$address; fi
  for hours in 1 24; do
    "$load" query "${subject[@]}" --address "$at" --rounds 7 --figure "avg of minutes, $hours h" \
      --path "/api/v1/datapoints/query?query=$(average_of $hours)" --only "avg of minutes, $hours h, again"
  done
  if [ "$1" != kairosdb ]; then stop_server; fi
}

# average_of HOURS: the query, encoded. The last scrape is at 1700086385 s.
average_of() {
  local start=$((1700086385000 - $1 * 3600000)) text
  text="{\"start_absolute\":$start,\"end_absolute\":1700086385000,\"metrics\":[{\"name\":\"bench_subsystem_00000_operations_total\",\
\"aggregators\":[{\"name\":\"avg\",\"sampling\":{\"value\":1,\"unit\":\"minutes\"}}]}]}"
  text=${text//\{/%7B} text=${text//\}/%7D} text=${text//\"/%22} text=${text//\[/%5B}
  printf %s "${text//\]/%5D}"
}
