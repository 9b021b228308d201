#!/bin/sh
# Measures what a task costs besides its command: 1,000 commands that do nothing, and a pipeline of three stages
# (500, then 499, then 1), with Tenure, GNU parallel and, if a Python with the package `hyperqueue` is given, HyperQueue.
#
#   examples/compare/overhead.sh target/release/tenure [python-with-hyperqueue]
set -eu
tenure=$(realpath "$1") python=${2:-} here=$(realpath "$(dirname "$0")") slots=2
dir=$(mktemp -d) && cd "$dir"
TENURE_BROKER=127.0.0.1:$((20000 + $$ % 20000))
export TENURE_BROKER
"$tenure" serve --data-dir data --native "$TENURE_BROKER" --xmessage off --resp off --mdp off --pingpong off \
    --grpc off --http off >serve.log 2>&1 &
broker=$!
"$tenure" work --slots "$slots" --quiet --connect-timeout 30s >work.log 2>&1 &
worker=$!
trap 'kill -9 $worker $broker; rm -rf "$dir"' EXIT
"$tenure" submit --connect-timeout 60s --wait -- true >/dev/null 2>&1

timed() { # NAME TASKS COMMAND...
    name=$1 tasks=$2
    shift 2
    begin=$(date +%s%N)
    "$@" >out.log 2>err.log || { cat err.log; exit 1; }
    echo "$name $begin $(date +%s%N) $tasks" |
        awk '{ s = ($3 - $2) / 1e9; printf "%-28s %7.2f s %7.2f ms a task\n", $1, s, s * 1000 / $4 }'
}

tenure_pipeline() {
    one=$("$tenure" submit --array 1-500 -- sleep 0)
    two=$("$tenure" submit --array 1-499 --after "$one" -- sleep 0)
    "$tenure" submit --wait --after "$two" -- sleep 0
}

# -n0: the numbers count the commands and are not their arguments.
parallel_pipeline() {
    seq 500 | parallel -n0 -j "$slots" sleep 0
    seq 499 | parallel -n0 -j "$slots" sleep 0
    sleep 0
}

timed parallel 1000 sh -c "seq 1000 | parallel -n0 -j $slots sleep 0"
timed tenure 1000 "$tenure" submit --wait --array 1-1000 -- sleep 0
timed parallel,three-stages 1000 parallel_pipeline
timed tenure,three-stages 1000 tenure_pipeline
if [ -n "$python" ]; then
    "$python" "$here/hyperqueue_overhead.py" "$slots" 2>/dev/null | grep ' a task$'
fi
