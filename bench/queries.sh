# shellcheck shell=bash
# The queries, encoded for a URL.

# Of the fleet 22 metrics, 8,800 series.
names='bench_subsystem_0000%5B0-9%5D_.%2B%7Cbench_subsystem_0001%5B0-9%5D_.%2B%7Cbench_subsystem_0002%5B01%5D_.%2B'
fleet="%7B__name__%3D~%22$names%22%7D"
everything='%7B__name__%3D~%22bench_subsystem_.%2B%22%7D'

# sum_rate_path SELECTOR: sum by (cluster) (rate(SELECTOR[1m])), without its range.
sum_rate_path() { echo "/api/v1/query_range?query=sum%20by%20(cluster)%20(rate($1%5B1m%5D))"; }

# range MINUTES END: the minutes before END, seconds since 1970, in steps of 15 s.
range() { echo "start=$(($2 - $1 * 60))&end=$2&step=15"; }
