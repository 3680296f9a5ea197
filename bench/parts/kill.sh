# shellcheck shell=bash
# How soon a server is ready after kill -9 with everything in its log, and what it still has. A server that
# takes longer to write gets fewer scrapes; the time for 1 M samples can be compared all the same.

part_kill() {
  round=1
  if [ "$mode" = quick ]; then
    killed promkairos 200000 15
    killed victoria_metrics 200000 10
    killed prometheus 200000 2
  else
    killed promkairos 1000000 120
    killed victoria_metrics 1000000 60
    killed prometheus 1000000 15
  fi
}

# killed SERVER SERIES SCRAPES
killed() {
  local server=$1 series scrapes=$3 shown=shown_$1 samples
  series=$(scaled "$2")
  samples=$((series * scrapes))
  "start_$server"
  measure "${!shown}" "$(short "$series") series in the log, killed"
  "$load" send "${subject[@]}" --address "$address" --pid "$pid" --series "$series" --scrapes "$scrapes" \
    --only "peak memory" --only sent
  kill_server
  "start_$server"
  record "ready after kill -9" "$ready" s
  record "ready after kill -9, for 1 M samples" "$(calculate "$ready / $samples * 1e9")" ms
  "$load" stored "${subject[@]}" --address "$address" --scrapes "$scrapes" --expected "$samples"
  stop_server
  rm -rf "${work:?}/$server"
}
