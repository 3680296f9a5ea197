# shellcheck shell=bash
# Sourced by run.sh and soak.sh: the folder of the run, starting and stopping a server, and records. A server keeps
# its data in $work/NAME; `pid`, `address` and `ready` are those of the one that runs.
. tests/peers/functions.sh
peers=${PROMKAIROS_PEERS:-.peers}
scale=${BENCH_SCALE:-1}
work=$(mktemp -d)
# Which server is the first one of the first load: by chance, so that none always is.
first_in_order=${BENCH_FIRST:-$((RANDOM % 12))}
# The number of each load, in the order in which they came first.
declare -A number_of_load=()
# Where promkairos and load are.
programs=target/release
pid=

finish() {
  local status=$? run
  trap - EXIT
  [ -z "$pid" ] || kill_server
  # What a run makes of its records, also of one that broke off.
  if declare -F at_end > /dev/null; then at_end || true; fi
  for run in "$work"/kairosdb*; do
    [ ! -d "$run" ] || tests/peers/kairosdb.sh down "$run"
  done
  for run in "$work"/cassandra*; do
    [ ! -d "$run" ] || tests/peers/cassandra.sh down "$run"
  done
  rm -rf "$work"
  exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# serve NAME READY PROGRAM FLAG ...: starts a server and waits until the path READY answers; sets pid, and
# ready to the seconds that took. Where address is empty the program chooses it and says so in its log.
serve() {
  local log=$work/$1.log path=$2 from
  shift 2
  from=$(now)
  : > "$log"
  "$@" >> "$log" 2>&1 &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    [ -n "$address" ] || address=$(sed -n 's|.*listening on http://||p' "$log")
    if [ -n "$address" ] && curl -sf -o /dev/null "http://$address$path"; then
      ready=$(since "$from")
      return
    fi
    sleep 0.02
  done
  tail -20 "$log" >&2
  pid=
  return 1
}

# Ends the server as a service manager does, and waits for it; sets stopping to the seconds that took.
stop_server() {
  local from
  from=$(now)
  kill "$pid"
  wait "$pid" || true
  pid=
  stopping=$(since "$from")
}

# Ends the server without a warning.
kill_server() {
  kill -9 "$pid"
  wait "$pid" 2>/dev/null || true
  pid=
}

now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { print b - a }'; }
# calculate EXPRESSION: of numbers.
calculate() { awk "BEGIN { printf \"%.9g\", $1 }"; }
# bytes [--exclude=NAME] DIR: the size of everything in it.
bytes() { du -sb "$@" | cut -f1; }
# scaled N: series at the size at which a part is tried out.
scaled() { echo $(($1 / scale)); }
# short N: 200000 as 200 k.
short() {
  if [ $(($1 % 1000000)) = 0 ]; then echo "$(($1 / 1000000)) M"
  elif [ $(($1 % 1000)) = 0 ]; then echo "$(($1 / 1000)) k"
  else echo "$1"; fi
}

# measure SERVER LOAD: whom and what the records that follow are about; sets subject for the generator.
measure() {
  measured_server=$1 measured_load=$2
  subject=(--server "$1" --load "$2" --round "$round")
  echo "$SECONDS s: $1, $2" >&2
}

# in_order LOAD COMMAND SERVER ...: COMMAND SERVER for each of them, another one first in each turn and for each load;
# the order is a line of the record.
in_order() {
  local load_name=$1 command=$2 servers=("${@:3}") order=() names="" at shown
  number_of_load[$load_name]=${number_of_load[$load_name]:-${#number_of_load[@]}}
  for at in "${!servers[@]}"; do
    at=$(((at + first_in_order + number_of_load[$load_name] + round) % ${#servers[@]}))
    order+=("${servers[$at]}") shown=shown_${servers[$at]}
    names+="${names:+,}\"${!shown}\""
  done
  printf '{"load":"%s","round":%s,"order":[%s]}\n' "$load_name" "$round" "$names"
  for at in "${order[@]}"; do "$command" "$at"; done
}

# in_turns COMMAND [ARGUMENT ...]: once for each round, after a turn that warms up and is recorded nowhere.
in_turns() {
  local turn
  for turn in $(seq 0 "$rounds"); do
    round=$turn
    if [ "$turn" = 0 ]; then "$@" > /dev/null; else "$@"; fi
  done
}

# record FIGURE VALUE UNIT: prints one.
record() {
  printf '{"server":"%s","load":"%s","round":%s,"figure":"%s","value":%s,"unit":"%s"}\n' \
    "$measured_server" "$measured_load" "$round" "$1" "$2" "$3"
}

# The highest resident memory of a process so far, in bytes; nothing where it has ended.
peak_memory() { awk '/^VmHWM:/ { printf "%d", $2 * 1024 }' "/proc/$1/status" 2> /dev/null || true; }

# Ends the server as stop_server does; sets peak to its highest resident memory, which is looked at ten times a second.
stop_and_watch() {
  local watched=$pid watcher
  peak_memory "$watched" > "$work/peak"
  while [ -n "$(peak_memory "$watched" | tee "$work/peak.part")" ]; do
    mv "$work/peak.part" "$work/peak"
    sleep 0.1
  done &
  watcher=$!
  stop_server
  wait $watcher
  peak=$(cat "$work/peak")
}

# record_disk BYTES SAMPLES: what the samples take without the log.
record_disk() {
  record disk "$1" B
  record "disk a sample" "$(calculate "$1 / $2")" B/sample
}

# value_of FIGURE: the value of the last record of it that this run has made.
value_of() { sed -n "s|.*\"figure\":\"$1\",\"value\":\([^,]*\),.*|\1|p" "$records" | tail -1; }

# unused NAME: NAME, or with a number behind it where a result has that name: none is written over.
unused() {
  local name=$1 number=1
  while compgen -G "$name.*" > /dev/null; do
    number=$((number + 1)) name=$1-$number
  done
  echo "$name"
}
