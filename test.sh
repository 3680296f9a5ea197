#!/usr/bin/env bash
# Every check of the project, with its real peers. usage: ./test.sh [long]
# Peers are kept in .peers/ (or $PROMKAIROS_PEERS) and fetched once. `long` runs more rounds and seeds.
set -euo pipefail
cd "$(dirname "$0")"
case ${1:-} in
  # Random tests see the same cases each time: what fails is then of the change, and `long` looks for more.
  "") export PROPTEST_RNG_SEED=1 PROMKAIROS_TEST_SEED=${PROMKAIROS_TEST_SEED:-1} ;;
  long) export PROMKAIROS_TEST_LONG=1 PROPTEST_CASES=4096 PROPTEST_MAX_GLOBAL_REJECTS=65536 ;;
  *) echo "usage: ./test.sh [long]" >&2; exit 2 ;;
esac

times=
# step NAME: what begins now.
step() {
  printf '\n== %s (%s s)\n' "$*" "$SECONDS"
  times+="$SECONDS $*"$'\n'
}

# join JOB LOG WHY: waits for the job in the background whose id the variable JOB has, clears the variable, and prints
# the log. Exits with WHY if the job failed.
join() {
  local -n job=$1
  local status=0
  wait "$job" || status=$?
  job=
  cat "$2"
  if [ "$status" != 0 ]; then
    echo "$3" >&2
    exit 1
  fi
}

step packages
tests/peers/fetch.sh packages
peers=${PROMKAIROS_PEERS:-$PWD/.peers}
mkdir -p "$peers"
run=$(mktemp -d "$(cd "$peers" && pwd)/run.XXXXXX")
fetching=
finish() {
  status=$?
  trap - EXIT
  if [ -n "$fetching" ]; then kill "$fetching" 2>/dev/null || true; fi
  if [ -n "${units:-}" ]; then
    kill -- "-$units" 2>/dev/null || true
    cat "$run/units.log"
  fi
  if [ "$status" != 0 ] && [ -f "$run/log" ]; then
    echo "what the shared Cassandra warned of last:"
    grep -E '^(WARN|ERROR)' "$run/log" | grep -v BatchStatement | tail -n 20 | cut -c 1-300 || true
  fi
  # Tests end the KairosDBs and Cassandras that they start; these are left over from an interrupted run, or are just
  # being ended and removed.
  for kairosdb in "$run"/kairosdb.*; do
    if [ -d "$kairosdb" ]; then tests/peers/kairosdb.sh down "$kairosdb"; fi
  done
  for cassandra in "$run"/cassandra.*; do
    if [ -d "$cassandra" ]; then tests/peers/cassandra.sh down "$cassandra"; fi
  done
  tests/peers/cassandra.sh down "$run"
  if [ -n "${secure:-}" ]; then kill "$secure" 2>/dev/null || true; fi
  tests/peers/cassandra.sh down "$run/secure"
  rm -rf "$run" || rm -rf "$run"
  exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# Beside the compiler: what is fetched is needed only when the tests begin.
tests/peers/fetch.sh "$peers" > "$run/fetch.log" 2>&1 &
fetching=$!

step format
cargo fmt --all --check
step lints
cargo clippy --workspace --all-targets -- -D warnings
# Fails where its Cargo.lock is behind; compiles nothing.
cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml > /dev/null
step docs
RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --document-private-items
step build
cargo test --workspace --no-run

step peers
join fetching "$run/fetch.log" "the peers could not be fetched"
# tests/peers/functions.sh has the options of a Java that runs for minutes.
export PEER_LIFE=short
# A test has a keyspace of its own, and these two are never started again: their schema need not be on disk.
shared=-Dcassandra.test.flush_local_schema_changes=false
# One with login and TLS starts beside the one that all tests share.
CASSANDRA_OPTIONS=$shared CASSANDRA_HEAP=512m \
  tests/peers/cassandra.sh up-secure "$peers/cassandra" "$run/secure" &
secure=$!
CASSANDRA_OPTIONS=$shared tests/peers/cassandra.sh up "$peers/cassandra" "$run"
wait "$secure"
secure=

step tests
# A failed test says where and why. The stacks of many would hide that in a log.
export RUST_BACKTRACE=0
# They wait for their peers more than they compute.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) + 1))}
# Unit tests run beside the integration tests, which leave a part of the processors idle: at the lowest priority, so that
# they take that part alone. They are a group of processes, so that what cargo has started ends with it.
set -m
{
  RUST_TEST_THREADS=1 nice -n 19 cargo test --workspace --lib --bins --benches --test histories --test quarantine
  RUST_TEST_THREADS=1 nice -n 19 cargo test --workspace --doc
} > "$run/units.log" 2>&1 &
units=$!
set +m
tests/peers/with.sh "$peers" "$run" cargo test --workspace --test it
step units
join units "$run/units.log" "unit tests failed"
step "all good"
awk 'NR > 1 { printf "%6d s %s\n", $1 - begun, name } { begun = $1; name = $2 }' < <(printf '%s' "$times")
