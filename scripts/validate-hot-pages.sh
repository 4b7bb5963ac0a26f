#!/bin/sh
# Validates hot pages against a running Redis: that activity ends, that pages are
# promoted, that windows are bounded, that no more pages are tracked than may be, and
# that a cleanup drops what is over.
#
#   scripts/validate-hot-pages.sh [redis://127.0.0.1:6379]
#
# It looks at the keys with redis-cli and does everything else with the command line of
# $TIDEGATE (or `tidegate`, or the one that was built here). Its keys are in a namespace
# of its own: it can be run beside live traffic. It takes some seconds, since Redis's
# clock decides. Exit codes: 0 all valid, 1 something is not, 2 it could not be run.
set -u

url=${1:-redis://127.0.0.1:6379}
root=$(cd "$(dirname "$0")/.." && pwd)
namespace="validate-$$"

cannot() { echo "validate-hot-pages: $1" >&2; exit 2; }

if [ -z "${TIDEGATE:-}" ]; then
  TIDEGATE=$(command -v tidegate) || TIDEGATE=$root/target/release/tidegate
fi
[ -x "$TIDEGATE" ] || cannot "no $TIDEGATE: cargo build --release makes one, or set TIDEGATE"
command -v redis-cli >/dev/null || cannot "no redis-cli: apt install redis-tools"

redis() { redis-cli -u "$url" --no-auth-warning "$@" 2>/dev/null; }
[ "$(redis PING)" = PONG ] || cannot "no Redis at that address"

# hot COMMAND ...: small bounds, so that they are soon met.
hot() {
  "$TIDEGATE" hot "$@" --store "$url" \
    --set store.namespace="$namespace" --set store.deadline=10s --set store.connect_timeout=5s \
    --set hot.main.hot_threshold=2 --set hot.main.window_duration=15m \
    --set hot.main.max_members_per_page=5 --set hot.main.max_tracked=10 \
    --set hot.brief.hot_threshold=2 --set hot.brief.window_duration=1s
}
key() { echo "$namespace:$1"; }

bad=0
is() { # is WHAT ACTUAL EXPECTED
  if [ "$2" = "$3" ]; then echo "  ok    $1"; else echo "  WRONG $1: $2, not $3"; bad=1; fi
}
between() { # between WHAT ACTUAL LEAST MOST
  if [ "$2" -ge "$3" ] && [ "$2" -le "$4" ]; then echo "  ok    $1"
  else echo "  WRONG $1: $2, not $3 to $4"; bad=1; fi
}
outcome() { sed -n 's/.*"outcome":"\([a-z_]*\)".*/\1/p'; }
number() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }
record() { hot record "$1" --id "$2" --editor "${3:-alice}" --json | outcome; }

echo "activity"
is "a first edit is remembered" "$(record Once 1)" remembered
is "in one small key" "$(redis TYPE "$(key activity:Once)")" string
first=$(redis PTTL "$(key activity:Once)")
between "that ends ten minutes after it (and 10 s)" "$first" 1 610000
is "the same edit again is a duplicate" "$(record Once 1)" duplicate
between "and does not prolong it" "$(redis PTTL "$(key activity:Once)")" 1 "$first"
is "a page edited once is not hot" "$(redis EXISTS "$(key hot:window:Once)")" 0

echo "promotion"
record Popular 1 >/dev/null
is "the second edit promotes" "$(record Popular 2 bob)" promoted
is "with both edits in the window" "$(redis ZCARD "$(key hot:window:Popular)")" 2
is "and in the metadata" "$(redis HGET "$(key hot:meta:Popular)" edit_count)" 2
is "the activity is over" "$(redis EXISTS "$(key activity:Popular)")" 0
is "two editors are known" "$(hot stats Popular --json | number unique_editors)" 2

echo "window"
for id in 3 4 5 6 7 8; do record Popular "$id" >/dev/null; done
is "never above max_members_per_page" "$(redis ZCARD "$(key hot:window:Popular)")" 5
is "the newest are kept" "$(redis ZRANGE "$(key hot:window:Popular)" 0 -1 | tr '\n' ' ')" "4 5 6 7 8 "
is "all were counted" "$(redis HGET "$(key hot:meta:Popular)" edit_count)" 8
is "an edit counts once" "$(record Popular 8)" duplicate
is "one from before the window is too late" "$(hot record Popular --id 0 --at 2015-09-12T00:00:00Z --json | outcome)" too_late
for family in window meta editors; do
  between "hot:$family: ends with the window (and 10 min)" "$(redis PTTL "$(key hot:$family:Popular)")" 900000 1500000
done

echo "memory bounds"
for page in $(seq 1 200); do
  for id in 1 2; do echo "{\"time\":0,\"page\":\"P$page\",\"id\":\"$id\"}"; done
done | hot replay - --id-field id --rate 1000000 --json >/dev/null || bad=1
is "of 201 pages that would be hot max_tracked are" "$(redis ZCARD "$(key hot:rank)")" 10
is "and as many are listed" "$(hot list --json | number count)" 10
is "the next is rejected" "$(record Late 1 >/dev/null; record Late 2)" rejected

echo "cleanup"
for id in 1 2; do hot record Brief --id "$id" --space brief >/dev/null; done
brief="spaces:brief:hot"
is "a page of another space is apart" "$(redis EXISTS "$(key hot:window:Brief)") $(redis ZCARD "$(key $brief:rank)")" "0 1"
expired=0 tries=0
while [ "$expired" = 0 ] && [ $tries -lt 200 ]; do
  expired=$(hot cleanup --space brief --json | number expired) tries=$((tries + 1))
done
is "drops it once its window is empty" "$expired" 1
is "with its keys" "$(redis EXISTS "$(key $brief:window:Brief)" "$(key $brief:meta:Brief)" "$(key $brief:editors:Brief)")" 0
is "and its place" "$(redis ZCARD "$(key $brief:rank)")" 0

echo "everything ends"
without=0 seen=0
for name in state activities due rank events; do
  for space in "" spaces:brief:; do
    ttl=$(redis PTTL "$(key "${space}hot:$name")") seen=$((seen + 1))
    [ "$ttl" = -1 ] && without=$((without + 1))
  done
done
is "no index without a TTL ($seen looked at)" "$without" 0

# The keys that are known by name go at once, the others end by themselves.
pages="Popular $(seq -f P%g 1 200)"
for page in Once Late Brief $pages; do
  for family in activity: hot:window: hot:meta: hot:editors:; do echo "UNLINK $(key "$family$page")"; done
done | redis >/dev/null
for name in state activities due rank events; do
  redis UNLINK "$(key hot:$name)" "$(key "spaces:brief:hot:$name")" >/dev/null
done
redis UNLINK "$(key tidegate:marker)" >/dev/null

[ $bad = 0 ] || exit 1
echo "all valid"
