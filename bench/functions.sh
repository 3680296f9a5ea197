# Shared by the scripts of this folder: builds, starts and stops promkairos, notes figures. To be sourced
# after `cd` to the project; sets load, work, peers; `finish` is run at the end.
peers=${PROMKAIROS_PEERS:-.peers}
cargo build --release --workspace >&2
load=$PWD/target/release/load
work=$(mktemp -d)
pid=

finish() {
  status=$?
  trap - EXIT
  [ -z "$pid" ] || stop
  for kairosdb in "$work"/kairosdb*; do
    [ ! -d "$kairosdb" ] || tests/peers/kairosdb.sh down "$kairosdb"
  done
  [ ! -d "$work/cassandra" ] || tests/peers/cassandra.sh down "$work/cassandra"
  rm -rf "$work"
  exit $status
}
trap finish EXIT

# start LOG [FLAG ...]: starts promkairos, waits until it is ready; sets address, and ready to the
# seconds that took.
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

# machine: where and what is measured.
machine() {
  printf '"date": "%s", "commit": "%s", "cores": %s, "cpu": "%s",\n' "$(date -u +%F)" \
    "$(git rev-parse --short HEAD)" "$(nproc)" "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
}
