#!/usr/bin/env bash
# Measures promkairos and its peers one after the other on this machine, and prints one table.
# usage: bench/run.sh [quick|full] [PART ...]
# quick takes less than 5 minutes, full less than 90, building and fetching apart. PART is one of loads, beside, sizes,
# kill, cassandra_writes, cassandra_reads, three_nodes, kairosdb_api: only these; the last two run only when they are
# named. The peers are fetched by tests/peers/; everything stays on the loopback.
# The table, its records and the plots are kept in BENCH_RESULTS, bench/results without it; their name tells the
# parts where those are not all of the mode, and none is written over. BENCH_SCALE=N takes an N-th of the series,
# BENCH_ROUNDS=3 three turns instead of one in a full run, of which the table has the medians, and BENCH_FIRST=N says
# which server begins. BENCH_PROGRAMS: a folder with promkairos and load, which are then not built: to try a part out.
set -euo pipefail
given=${BENCH_PROGRAMS:+$(realpath "$BENCH_PROGRAMS")}
cd "$(dirname "$0")/.."

mode=${1:-quick}
case $mode in
  quick) parts=(loads sizes kill cassandra_writes) rounds=1 query_minutes=5 ;;
  full) parts=(loads beside sizes kill cassandra_writes cassandra_reads) rounds=${BENCH_ROUNDS:-1} query_minutes=15 ;;
  *) sed -n 's/^# usage: /usage: /p' "$0" >&2; exit 2 ;;
esac
all=${parts[*]} named=
if [ $# -gt 1 ]; then parts=("${@:2}"); fi
if [ "${parts[*]}" != "$all" ]; then named=$(printf -- '-%s' "${parts[@]//_/-}"); fi

. bench/functions.sh
. bench/queries.sh
for file in bench/servers/*.sh bench/parts/*.sh; do . "$file"; done
for part in "${parts[@]}"; do
  declare -F "part_$part" > /dev/null || { echo "there is no part $part" >&2; exit 2; }
done

programs=${given:-$programs}
# Which commit it is stands in the records; in the program it would compile everything anew at each one.
[ -n "$given" ] || BUILD_COMMIT= cargo build --release --workspace >&2
commit=$([ -n "$given" ] && echo unknown || git describe --always --dirty)
tests/peers/fetch.sh "$peers" >&2
load=$(realpath "$programs/load")
results=${BENCH_RESULTS:-bench/results}
mkdir -p "$results"
result=$(unused "$results/$(date -u +%F)-$mode-$commit$named")
records=$result.jsonl
SECONDS=0

# Where and what is measured.
cpu=$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)
memory=$(awk '/^MemTotal/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo)
prometheus=$("$peers/prometheus/usr/bin/prometheus" --version 2>&1 |
  sed -n '1s/^prometheus, version \([^ ]*\).*/\1/p')
victoria_metrics=$(zcat "$peers/victoria-metrics/usr/share/doc/victoria-metrics/changelog.Debian.gz" |
  sed -n '1s/.*(\(.*\)).*/\1/p')
cassandra_jar=$(basename "$peers"/cassandra/lib/cassandra-all-*.jar .jar)
kairosdb_jar=$(basename "$peers"/kairosdb/lib/kairosdb-[0-9]*.jar .jar)
printf '{"date":"%s","commit":"%s","mode":"%s","parts":"%s","scale":%s,"cores":%s,"cpu":"%s","memory":"%s",' \
  "$(date -u +%FT%TZ)" "$commit" "$mode" "${parts[*]}" "$scale" "$(nproc)" "$cpu" "$memory" \
  > "$records"
printf '"kernel":"%s","prometheus":"%s","victoria_metrics":"%s","cassandra":"%s","kairosdb":"%s"}\n' "$(uname -sr)" \
  "$prometheus" "$victoria_metrics" "${cassandra_jar#cassandra-all-}" "${kairosdb_jar#kairosdb-}" >> "$records"

# Also of a run that breaks off in a part, whose output goes into the records: the table says what is missing.
exec 3>&1
at_end() {
  "$load" table "$records" > "$result.md"
  echo "$SECONDS s; records in $records" >&2
  cat "$result.md" >&3
}

for part in "${parts[@]}"; do
  from=$SECONDS
  "part_$part" >> "$records"
  printf '{"part":"%s","seconds":%s}\n' "$part" $((SECONDS - from)) >> "$records"
done

if [ "$mode" = full ] && [[ " ${parts[*]} " = *" sizes "* ]]; then
  "$load" plot "$records" --by series --svg "$result-series.svg"
  "$load" plot "$records" --by hours --svg "$result-hours.svg"
fi
