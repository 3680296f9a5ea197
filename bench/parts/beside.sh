# shellcheck shell=bash
# Taking samples beside wide queries: ten sum by(rate) a second over four hours of 8,800 series, each over another
# range. The hours were written before, and the samples that come meanwhile are of those series and nine times as many.

part_beside() {
  for round in $(seq "$rounds"); do
    in_order "10 queries/s of 4 h" beside_one promkairos victoria_metrics
  done
}

# beside_one SERVER
beside_one() {
  local shown=shown_$1 few many next before=960 alone=60 during=40
  few=$(scaled 20000) many=$(scaled 200000) next=$((1700000000000 + before * 15000))
  "start_$1"
  echo "$SECONDS s: ${!shown}, 4 h of $(short "$few") series" >&2
  "$load" send --address "$address" --series "$few" --scrapes "$before" > /dev/null
  measure "${!shown}" "$(short "$many") series, 4 h of $(short "$few") before"
  "$load" send "${subject[@]}" --address "$address" --pid "$pid" --series "$many" --first --scrapes "$alone" \
    --start "$next"
  measure "${!shown}" "the same and 10 queries/s of 4 h"
  "$load" send "${subject[@]}" --address "$address" --pid "$pid" --series "$many" --scrapes "$during" \
    --start $((next + alone * 15000)) --undisturbed "$(value_of ingest)" --queries-per-second 10 \
    --query "$(sum_rate_path "$fleet")" --query-minutes 240
  "settle_$1"
  "$load" stored "${subject[@]}" --address "$address" --scrapes $((before + alone + during)) \
    --expected $((few * before + many * (alone + during)))
  stop_server
  rm -rf "${work:?}/$1"
}
