#!/usr/bin/env bash
# Measures two builds of promkairos in turn on this machine, and prints how the later one differs.
# usage: bench/pairs.sh BEFORE AFTER [TURNS [PART ...]]
# BEFORE and AFTER are programs; TURNS is 9 without it, another program first in each. PART is one of loads, reads,
# cassandra. The records and the table are kept in BENCH_RESULTS, bench/results without it; BENCH_SCALE=N takes an N-th
# of the series; BENCH_PROGRAMS is a folder with load, which is then not built.
set -euo pipefail
[ $# -ge 2 ] || { sed -n 's/^# usage: /usage: /p' "$0" >&2; exit 2; }
before=$(realpath "$1") after=$(realpath "$2")
load=${BENCH_PROGRAMS:+$(realpath "$BENCH_PROGRAMS")/load}
cd "$(dirname "$0")/.."
rounds=${3:-9} parts=(loads reads cassandra)
if [ $# -gt 3 ]; then parts=("${@:4}"); fi

. bench/functions.sh
. bench/queries.sh
. bench/servers/promkairos.sh
. bench/servers/cassandra.sh
if [ -z "$load" ]; then
  cargo build --release --package load >&2
  load=$(realpath target/release/load)
fi
results=${BENCH_RESULTS:-bench/results}
mkdir -p "$results"
result=$(unused "$results/$(date -u +%F)-pairs-$(git describe --always --dirty)")
records=$result.jsonl
: > "$records"
at_end() {
  { echo "Before: $("$before" --version). After: $("$after" --version). $(nproc) cores of \
$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1). $rounds turns of ${parts[*]}."; echo
    "$load" pairs "$records"; } > "$result.md"
  cat "$result.md"
}

# use NAME: the program that start_promkairos starts. Both are fresh copies: how much of a file a process has in memory
# depends on how the file came into the page cache, by 2 MB.
use() {
  if [ ! -d "$work/programs/$1" ]; then
    mkdir -p "$work/programs/$1"
    cp "${!1}" "$work/programs/$1/promkairos"
  fi
  programs=$work/programs/$1
}

# sent NAME SERIES SCRAPES [OPTION ...]: a load on fresh data, counted back.
sent() {
  measure "$build" "$1"
  start_promkairos
  "$load" send "${subject[@]}" --address "$address" --pid "$pid" --series "$2" --first --scrapes "$3" "${@:4}" \
    --only ingest --only "ingest per server CPU second" --only "peak memory"
  "$load" stored --address "$address" --scrapes "$3" --expected $(($2 * $3)) > /dev/null
  stop_server
  rm -rf "$work/promkairos"
}

part_loads() {
  sent "200 k series, 2,000 a request" "$(scaled 200000)" 40
  sent "20 k series, 500 a request" "$(scaled 20000)" 200 --samples 500
  sent "200 k series, remote write 2.0" "$(scaled 200000)" 30 --protocol 2.0
}

# asked FIGURE PATH [ROUNDS]
asked() {
  "$load" query "${subject[@]}" --address "$address" --pid "$pid" --figure "$1" --path "$2" --rounds "${3:-10}" \
    --only "$1, again" --only "$1, server CPU"
}

# Four hours of 20 k series: read back from the log, moved to files, asked.
part_reads() {
  local series scrapes=960 end=$((1700000000 + 4 * 3600 - 15)) from
  series=$(scaled 20000)
  measure "$build" "20 k series x 4 h"
  start_promkairos
  "$load" send --address "$address" --pid "$pid" --series "$series" --scrapes $scrapes > /dev/null
  kill_server
  start_promkairos
  record "ready after kill -9" "$ready" s
  stop_server
  record "stop" "$stopping" s
  record_disk "$(bytes "$work/promkairos/embedded/parts")" $((series * scrapes))
  start_promkairos
  asked "sum by(rate) of 8,800 series over 1 h" "$(sum_rate_path "$fleet")&$(range 60 $end)" 20
  asked "sum by(rate) of 8,800 series over all hours" "$(sum_rate_path "$fleet")&$(range 240 $end)"
  asked "400 series raw over 1 h" "/api/v1/query_range?query=bench_subsystem_00000_operations_total&$(range 60 $end)" 50
  asked "values of __name__" "/api/v1/label/__name__/values?$(range 240 $end)" 200
  "$load" stored --address "$address" --scrapes $scrapes --expected $((series * scrapes)) > /dev/null
  stop_server
  rm -rf "$work/promkairos"
}

# Over one Cassandra that all turns share, each in a keyspace of its own.
part_cassandra() {
  local series scrapes=10 keyspace="pair_${build}_$round"
  series=$(scaled 20000)
  measure "$build" "Cassandra, 20 k series"
  over_cassandra "$keyspace" store
  "$load" send "${subject[@]}" --address "$address" --pid "$pid" --series "$series" --scrapes $scrapes --connections 4 \
    --only ingest --only "ingest per server CPU second"
  asked "sum by(rate)" "$(sum_rate_path "$everything")&$(range 3 1700000150)" 5
  stop_server
  over_cassandra "$keyspace" wal
  "$load" send --address "$address" --series "$series" --scrapes 15 --start 1700000150000 > /dev/null
  stop_server
  record flush "$(calculate "$series * 15 / $stopping")" samples/s
  over_cassandra "$keyspace" store
  "$load" count --address "$address" --expected $((series * (scrapes + 15))) > /dev/null
  stop_server
  rm -rf "$work/promkairos"
}

for part in "${parts[@]}"; do
  if [ "$part" = cassandra ]; then start_cassandra; fi
  # The first turn warms up, and is recorded nowhere.
  for round in $(seq $([ "$part" = cassandra ] && echo 0 || echo 1) "$rounds"); do
    order=(before after)
    if [ $((round % 2)) = 0 ]; then order=(after before); fi
    for build in "${order[@]}"; do
      use "$build"
      if [ "$round" = 0 ]; then "part_$part" > /dev/null; else "part_$part" >> "$records"; fi
    done
  done
  if [ "$part" = cassandra ]; then stop_cassandra; fi
done
