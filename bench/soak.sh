#!/usr/bin/env bash
# Hours of ingest with churn, queries and restarts: does promkairos stay as it was, and has it everything?
# usage: bench/soak.sh [seconds]
# 7200 seconds without an argument, at least 240. In the first half the server is restarted every 24th of the time
# while it is sent to, by SIGTERM and by SIGKILL in turn, and what was cut off is sent again. The second half is one
# life, so that what grows slowly shows. 120 times (every minute of two hours) somebody looks at memory, descriptors
# and threads of the server, and at the files of its folder, but no more once all samples are counted back at the end.
# It fails when they are not all there, when something panicked, or when something of that life has grown:
# bench/README.md says what counts as that. The result is kept in BENCH_RESULTS, bench/results without it.
# BENCH_PROGRAMS: a folder with promkairos and load, which are then not built.
set -euo pipefail
given=${BENCH_PROGRAMS:+$(realpath "$BENCH_PROGRAMS")}
cd "$(dirname "$0")/.."

seconds=${1:-7200}
if [[ ! $seconds =~ ^[0-9]+$ ]] || [ "$seconds" -lt 240 ]; then
  sed -n 's/^# usage: /usage: /p' "$0" >&2
  exit 2
fi

. bench/functions.sh
. bench/queries.sh
. bench/servers/promkairos.sh

programs=${given:-$programs}
# Which commit it is stands in the record, as in bench/run.sh.
[ -n "$given" ] || BUILD_COMMIT= cargo build --release --workspace >&2
load=$(realpath "$programs/load")
version="promkairos $(git describe --always --dirty)"
results=${BENCH_RESULTS:-bench/results}
mkdir -p "$results"
name=$(unused "$results/$(date -u +%F)-soak")
records=$name.jsonl

# A scrape of all series is 15 s of the samples' time, and takes a part of a second.
series=20000 rate=50000 first=1700000000 interval=15
period=$((seconds / 24)) every=$((seconds / 120))
# What is sent between two restarts: half of it twice, at least. A life without one has a flush in each period.
scrapes=$((rate * period / 2 / series))
flags=(--flush-interval "${period}s")

# begin: starts the server, and tells those who watch.
begin() {
  start_promkairos "${flags[@]}"
  echo "$pid" > "$work/running"
}

# end stop_server|kill_server
end() {
  rm -f "$work/running"
  "$1"
  cat "$work/promkairos.log" >> "$work/log"
}

# send SCRAPES_BEFORE: the same samples each time for the same number.
send() {
  "$load" send --address "$address" --series "$series" --churn 10 --rate "$rate" --scrapes "$scrapes" --after "$1" \
    --start $(((first + $1 * interval) * 1000)) --at-once 1000000
}

# Looks at the server once, or fails when it is not there. Parts are the files of samples that the store lists; all
# others are log, manifest, and what somebody forgot to remove.
look() {
  local pid status memory threads descriptors parts files
  pid=$(cat "$work/running" 2>/dev/null) && status=$(cat "/proc/$pid/status" 2>/dev/null) || return
  memory=$(awk '/^VmRSS:/ { print $2 * 1024 }' <<< "$status")
  threads=$(awk '/^Threads:/ { print $2 }' <<< "$status")
  descriptors=$(find "/proc/$pid/fd" -mindepth 1 2>/dev/null | wc -l)
  parts=$(curl -sf --max-time 10 "http://$(cat "$work/address")/metrics" | sed -n 's/^promkairos_store_parts \([0-9]*\)$/\1/p') || return
  files=$(find "$work/promkairos" -type f -printf '%s\n' 2>/dev/null |
    awk -v parts="$parts" '{ n++; b += $1 } END { printf "\"files\":%d,\"bytes\":%.0f", n < parts ? 0 : n - parts, b }')
  [ -n "$memory" ] && [ "$descriptors" -gt 0 ] && [ -n "$parts" ] || return
  printf '{"second":%s,"memory":%.0f,"descriptors":%s,"threads":%s,"parts":%s,%s}\n' \
    "$SECONDS" "$memory" "$descriptors" "$threads" "$parts" "$files"
}

# Both end with the folder of the run.
watch() {
  local next=$every
  while [ -d "$work" ]; do
    if [ "$SECONDS" -ge "$next" ] && look >> "$records"; then next=$((next + every)); fi
    sleep 1
  done
}
ask() {
  local at answered=0 path
  while [ -d "$work" ]; do
    if [ -e "$work/running" ] && at=$(cat "$work/sent" 2>/dev/null); then
      for path in "$(sum_rate_path "$fleet")&$(range 15 "$at")" "/api/v1/query?query=count($everything)&time=$at" \
        "/api/v1/label/pod/values?start=$((at - 3600))&end=$at&limit=1000"; do
        # One that meets a restart is not answered.
        if curl -sf -o /dev/null "http://$(cat "$work/address")$path"; then answered=$((answered + 1)); fi
      done
      echo "$answered" > "$work/answered"
    fi
    sleep 1
  done
} 2>/dev/null

# looks FIGURE FROM TO: what was seen of it from one second to another, sorted.
looks() {
  sed -n "s/^{\"second\":\([0-9]*\),.*\"$1\":\([0-9]*\).*/\1 \2/p" "$records" |
    awk -v from="$2" -v to="$3" '$1 >= from && $1 < to { print $2 }' | sort -n
}
median() { awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'; }
# of_life FIGURE QUARTER: of the life without a restart, the quarters counted from 0.
of_life() {
  local length=$((ended - life))
  looks "$1" $((life + length * $2 / 4)) $((life + length * ($2 + 1) / 4))
}

SECONDS=0
cpu=$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)
printf '{"date":"%s","commit":"%s","seconds":%s,"cores":%s,"cpu":"%s","kernel":"%s","series":%s,"rate":%s}\n' \
  "$(date -u +%FT%TZ)" "$version" "$seconds" "$(nproc)" "$cpu" "$(uname -sr)" "$series" "$rate" \
  > "$records"
: > "$work/log"
begin
echo "$address" > "$work/address"
watch &
ask &

round=0
while [ "$SECONDS" -lt $((seconds / 2)) ]; do
  before=$((round * scrapes))
  send "$before" > /dev/null 2>&1 &
  sending=$!
  sleep "$((period / 8 + RANDOM % (period / 4 + 1)))"
  if [ $((round % 2)) = 0 ]; then end stop_server; else end kill_server; fi
  # It has lost its server.
  wait "$sending" || true
  begin
  echo "$address" > "$work/address"
  send "$before" > "$work/send.jsonl"
  echo $((first + (before + scrapes) * interval)) > "$work/sent"
  round=$((round + 1))
  echo "$SECONDS s: $round restarts, $(sed -n 's/.*"ingest","value":\([0-9]*\).*/\1/p' "$work/send.jsonl") samples/s" >&2
done

restarts=$round
life=$SECONDS
while [ "$SECONDS" -lt "$seconds" ]; do
  before=$((round * scrapes))
  send "$before" > "$work/send.jsonl"
  echo $((first + (before + scrapes) * interval)) > "$work/sent"
  round=$((round + 1))
done
ended=$SECONDS
# Nobody looks or asks any more: what counting takes does not count.
rm "$work/running"
echo "$ended s: $((ended - life)) s without a restart" >&2

samples=$((round * scrapes * series))
counted=$("$load" stored --address "$address" --scrapes $((round * scrapes)) --expected "$samples" |
  sed -n 's/.*"counted back","value":\([^,]*\),.*/\1/p')
end stop_server
panics=$(grep -c panicked "$work/log" || true)

failed=
# judge FIGURE BEFORE AFTER SLACK: it has not grown while it is at most 10 % more, or at most SLACK more.
judge() {
  local grows
  grows=$(calculate "($3 > 1.1 * $2 && $3 > $2 + $4)")
  if [ "$grows" != 0 ]; then failed="$failed $1"; fi
}
# A part for each day of samples, and one for every second flush of that life, as a merged part rests for an hour.
days=$((round * scrapes * interval / 86400 + 2))
most_parts=$((days + (ended - life) / period / 2 + 2))
fewest_parts=$(of_life parts 3 | head -1)
if [ "${fewest_parts:-$((most_parts + 1))}" -gt "$most_parts" ]; then failed="$failed parts"; fi
{
  echo "# Soak of $seconds s, $(date -u +%F), $version"
  echo
  echo "$cpu, $(nproc) cores; $series series of which 10 % an hour give way to new ones, about $rate samples a second,"
  echo "queries beside them; $restarts restarts under load (SIGTERM and SIGKILL in turn) in $life s, then $((ended - life)) s"
  echo "without one, of which the table has the quarters."
  echo
  echo "| median | while restarted | second quarter | last quarter | change |"
  echo "|---|---:|---:|---:|---:|"
} > "$name.md"
for figure in memory descriptors threads files parts bytes; do
  early=$(looks "$figure" 0 "$life" | median) second=$(of_life "$figure" 1 | median) last=$(of_life "$figure" 3 | median)
  if [ -z "$early" ] || [ -z "$second" ] || [ -z "$last" ]; then
    failed="$failed $figure"
    continue
  fi
  case $figure in
    memory) judge "$figure" "$second" "$last" 0 ;;
    descriptors) judge "$figure" "$second" "$last" 2 ;;
    threads) judge "$figure" "$second" "$last" 8 ;;
    files)
      judge "$figure" "$second" "$last" 2
      judge "$figure" "$early" "$last" 2
      ;;
  esac
  printf '| %s | %s | %s | %s | %.1f %% |\n' "$figure" "$early" "$second" "$last" \
    "$(calculate "($last - $second) / ($second ? $second : 1) * 100")" >> "$name.md"
done
[ "$counted" = 100.0 ] || failed="$failed samples"
[ "$panics" = 0 ] || failed="$failed panics"
{
  echo
  echo "At the fewest $fewest_parts parts in the last quarter, where there may be $most_parts. $samples samples were sent,"
  echo "$counted % of them counted back; $(cat "$work/answered" || echo 0) queries answered; $panics panics."
  if [ -n "$failed" ]; then echo "**Not as it should be:$failed.**"; else echo "All of it as it should be."; fi
} >> "$name.md"
cat "$name.md"
[ -z "$failed" ]
