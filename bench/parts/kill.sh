# shellcheck shell=bash
# How soon a server is ready after kill -9 with everything in its log, and what it still has. A server that
# takes longer to write gets fewer scrapes; the time for 1 M samples can be compared all the same.

part_kill() {
  local series name
  local -A scrapes
  round=1
  if [ "$mode" = quick ]; then
    series=200000 scrapes=([promkairos]=15 [victoria_metrics]=10 [prometheus]=2)
  else
    series=1000000 scrapes=([promkairos]=120 [victoria_metrics]=60 [prometheus]=15)
  fi
  series=$(scaled $series)
  name="$(short "$series") series in the log, killed"
  in_order "$name" killed promkairos victoria_metrics prometheus
}

# killed SERVER: of part_kill.
killed() {
  local server=$1 scrapes=${scrapes[$1]} shown=shown_$1 samples
  samples=$((series * scrapes))
  "start_$server"
  measure "${!shown}" "$name"
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
