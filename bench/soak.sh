#!/usr/bin/env bash
# Hours of ingest with churn, queries and restarts: does promkairos stay as it was, and has it everything?
# usage: bench/soak.sh [seconds]
# 7200 seconds without an argument, at least 240. Every 24th of the time the server is restarted while it is sent
# to, by SIGTERM and by SIGKILL in turn, and what was cut off is sent again. Memory, descriptors and threads of
# the server are looked at 120 times (every minute of two hours), with the files and bytes of its folder. At the
# end all samples are counted back. It fails when they are not all there, when something panicked, or when the
# median of memory, descriptors or threads is more than 10 % higher in the last quarter than in the second. The
# result is kept in BENCH_RESULTS, bench/results without it.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-7200}
if [[ ! $seconds =~ ^[0-9]+$ ]] || [ "$seconds" -lt 240 ]; then
  sed -n 's/^# usage: /usage: /p' "$0" >&2
  exit 2
fi

. bench/functions.sh
. bench/queries.sh
. bench/servers/promkairos.sh

cargo build --release --workspace >&2
load=$PWD/target/release/load
results=${BENCH_RESULTS:-bench/results}
name=$results/$(date -u +%F)-soak
records=$name.jsonl
mkdir -p "$results"

# A scrape of all series is 15 s of the samples' time, and takes a part of a second.
series=20000 rate=50000 first=1700000000 interval=15
period=$((seconds / 24)) every=$((seconds / 120))
# What is sent between two restarts: half of it twice, at least.
scrapes=$((rate * period / 2 / series))
flags=(--flush-interval "${period}s")

# begin: starts the server, and tells those who watch.
begin() {
  start_promkairos "${flags[@]}"
  echo "$pid" > "$work/running"
}

# end stop_server|kill_server
end() {
  rm "$work/running"
  "$1"
  cat "$work/promkairos.log" >> "$work/log"
}

# send SCRAPES_BEFORE: the same samples each time for the same number.
send() {
  "$load" send --address "$address" --series "$series" --churn 10 --rate "$rate" --scrapes "$scrapes" --after "$1" \
    --start $(((first + $1 * interval) * 1000)) --at-once 1000000
}

# Looks at the server once, or fails when it is not there.
look() {
  local pid status memory threads descriptors files
  pid=$(cat "$work/running" 2>/dev/null) && status=$(cat "/proc/$pid/status" 2>/dev/null) || return
  memory=$(awk '/^VmRSS:/ { print $2 * 1024 }' <<< "$status")
  threads=$(awk '/^Threads:/ { print $2 }' <<< "$status")
  descriptors=$(find "/proc/$pid/fd" -mindepth 1 2>/dev/null | wc -l)
  files=$(find "$work/promkairos" -type f -printf '%s\n' 2>/dev/null |
    awk '{ n++; b += $1 } END { printf "\"files\":%d,\"bytes\":%.0f", n, b }')
  [ -n "$memory" ] && [ "$descriptors" -gt 0 ] || return
  printf '{"second":%s,"memory":%.0f,"descriptors":%s,"threads":%s,%s}\n' \
    "$SECONDS" "$memory" "$descriptors" "$threads" "$files"
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

# median FIGURE QUARTER: of what was looked at, the quarters counted from 0.
median() {
  sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$records" |
    awk -v q="$2" '{ v[NR] = $1 } END { for (i = int(NR * q / 4) + 1; i <= int(NR * (q + 1) / 4); i++) print v[i] }' |
    sort -n | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'
}

SECONDS=0
cpu=$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)
printf '{"date":"%s","commit":"%s","seconds":%s,"cores":%s,"cpu":"%s","kernel":"%s","series":%s,"rate":%s}\n' \
  "$(date -u +%FT%TZ)" "$(git describe --always --dirty)" "$seconds" "$(nproc)" "$cpu" "$(uname -sr)" "$series" "$rate" \
  > "$records"
: > "$work/log"
begin
echo "$address" > "$work/address"
watch &
ask &

round=0
while [ "$SECONDS" -lt "$seconds" ]; do
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

samples=$((round * scrapes * series))
counted=$("$load" stored --address "$address" --scrapes $((round * scrapes)) --expected "$samples" |
  sed -n 's/.*"counted back","value":\([^,]*\),.*/\1/p')
end stop_server
panics=$(grep -c panicked "$work/log" || true)

failed=
{
  echo "# Soak of $seconds s, $(date -u +%F), commit $(git describe --always --dirty)"
  echo
  echo "$cpu, $(nproc) cores; $series series of which 10 % an hour give way to new ones, about $rate samples a second,"
  echo "queries beside them, $round restarts under load (SIGTERM and SIGKILL in turn)."
  echo
  echo "| median | second quarter | last quarter | change |"
  echo "|---|---:|---:|---:|"
  for figure in memory descriptors threads files bytes; do
    second=$(median "$figure" 1) last=$(median "$figure" 3)
    change=$(calculate "($last / $second - 1) * 100")
    printf '| %s | %s | %s | %.1f %% |\n' "$figure" "$second" "$last" "$change"
  done
  echo
  echo "$samples samples were sent, $counted % of them counted back; $(cat "$work/answered" || echo 0) queries answered; $panics panics."
} > "$name.md"
for figure in memory descriptors threads; do
  grows=$(calculate "($(median "$figure" 3) > 1.1 * $(median "$figure" 1))")
  if [ "$grows" != 0 ]; then failed="$failed $figure"; fi
done
[ "$counted" = 100.0 ] || failed="$failed samples"
[ "$panics" = 0 ] || failed="$failed panics"
if [ -n "$failed" ]; then echo "**Not as it should be:$failed.**"; else echo "All of it as it should be."; fi >> "$name.md"
cat "$name.md"
[ -z "$failed" ]
