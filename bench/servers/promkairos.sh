# shellcheck shell=bash
# promkairos with the embedded store, or over Cassandra with the flags for that.
shown_promkairos=promkairos

# start_promkairos [FLAG ...]
start_promkairos() {
  address=
  serve promkairos /-/ready "$programs/promkairos" --listen 127.0.0.1:0 --data-dir "$work/promkairos" "$@"
}

# What is acknowledged can be found and is on disk.
settle_promkairos() { :; }
outlast_promkairos() { :; }

# Its end moves everything from the log into part files.
drain_promkairos() {
  stop_server
  record_disk "$(bytes "$work/promkairos/embedded/parts")" "$1"
}
