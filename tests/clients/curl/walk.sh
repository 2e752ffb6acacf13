#!/usr/bin/env bash
# The walk with curl: `walk.sh URL NAME --http1.1|--http2|--http2-prior-knowledge`. A private CA is named by CURL_CA_BUNDLE.
set -euo pipefail
url=$1 name=$2 how=$3
events=/event-types/$name/events messages=/topics/$name/messages leases=/topics/$name/leases
work=$(mktemp -d)
pushing=
trap 'kill $pushing 2> /dev/null || true; rm -rf "$work"' EXIT

# METHOD PATH [OPTION …]: sets status and version; the body is in $work/body, the headers in $work/head.
call() {
  local method=$1 path=$2
  shift 2
  : > "$work/body"
  read -r status version < <(curl -sS "$how" -X "$method" --max-time 60 -D "$work/head" -o "$work/body" \
    -w '%{http_code} %{http_version}\n' "$url$path" "$@")
}

# STEP [SEEN …], each of them a piece of JSON.
told() {
  local step=$1 IFS=,
  shift
  echo "{\"step\": \"$step\", \"status\": $status, \"protocol\": \"HTTP/$version\", \"seen\": [$*]}"
}

# PATTERN [FILE]: what it matches, a line each, or nothing.
found() { grep -oE "$1" "${2:-$work/body}" || true; }
# FIELD: its values in the body, as they are written there; in results no other fields have such names.
field() { found "\"$1\": ?(\"[^\"]*\"|[0-9]+)" "${2:-$work/body}" | sed -E "s/^\"$1\": ?//"; }
header() { sed -nE "s/^$1: (.*[^\r])\r*$/\1/Ip" "$work/head"; }
# The leases of an answer or a stream, sorted, as `"id" version`; then as claims with MORE in each.
held() { found '"id":"\w+","(status":"\w+",")?version":[0-9]+' "$1" | sed -E 's/^"id":("\w+").*:/\1 /' | sort; }
claims() {
  sed -E "s/(.*) (.*)/{\"id\": \1, \"version\": \2$1}/" | paste -sd, | sed 's/.*/{"consumer_id": "walker", "leases": [&]}/'
}
message() { echo "{\"id\": \"$1\", \"after_ms\": 0, \"body\": {\"for\": \"$1\"}}"; }

call POST /event-types -d "{\"name\": \"$name\", \"owning_application\": \"walk\", \"category\": \"undefined\"}"
told "create event type"
call POST "$events" -d '[{"n": 1}, {"n": 2}, {"n": 3}]'
told "publish"
call GET "$events?stream_limit=3&batch_limit=3&stream_timeout=30" -N \
  -H 'X-Nakadi-Cursors: [{"partition": "0", "offset": "BEGIN"}]'
told "read events" $(field n)

call POST /subscriptions -d "{\"owning_application\": \"walk\", \"event_types\": [\"$name\"], \"read_from\": \"begin\"}"
told "subscribe" $(found '"event_types":\["[^"]+"' | cut -d'[' -f2)
subscription=/subscriptions/$(field id | tr -d '"')
call GET "$subscription/events?batch_limit=3&stream_limit=3" -N
told "read subscription" $(field n)
cursor=$(found '"cursor":\{[^}]*\}' | head -1 | cut -d: -f2-)
# The stream has ended; who read it may still commit.
call POST "$subscription/cursors" -H "X-Nakadi-StreamId: $(header X-Nakadi-StreamId)" -d "{\"items\": [$cursor]}"
told "commit"
call GET "$subscription/cursors"
same=false
[ "$(field offset)" != "$(field offset - <<< "$cursor")" ] || same=true
told "committed" $same

call PUT "/topics/$name" -d '{"bucket_count": 8}'
told "create topic" $(field name)
call POST "$messages" -H 'X-Producer-Group: walk' -d "{\"messages\": [$(message m1), $(message m2), $(message m3)]}"
told "schedule" $(field status)
: > "$work/leases"
for _ in {1..30}; do
  count=$(held "$work/leases" | wc -l)
  [ "$count" -lt 3 ] || break
  call POST "$leases" -d "{\"consumer_id\": \"walker\", \"limit\": $((3 - count)), \"wait_ms\": 2000}"
  cat "$work/body" >> "$work/leases"
done
told "lease" $(held "$work/leases" | cut -d' ' -f1)
call POST "$leases/extend" -d "$(held "$work/leases" | claims ', "after_ms": 60000')"
told "extend" $(field status)
call POST "$leases/delete" -d "$(held "$work/body" | head -2 | claims '')"
told "delete" $(field status)

pushed() { # COUNT: wait until so many leases have come
  for _ in {1..600}; do
    [ "$(held "$work/pushed" | wc -l)" -lt "$1" ] || return 0
    sleep 0.1
  done
  return 1
}
: > "$work/pushed"
curl -sSN "$how" -D "$work/pushed-head" "$url$leases?consumer_id=walker" > "$work/pushed" &
pushing=$!
pushed 1
call POST "$messages" -H 'X-Producer-Group: walk' -d "{\"messages\": [$(message m4)]}"
told "schedule while streaming" $(field status)
pushed 2
read -r version status < <(sed -nE 's/^HTTP\/([0-9.]+) ([0-9]+).*$/\1 \2/p' "$work/pushed-head" | tail -1)
told "push" $(held "$work/pushed" | cut -d' ' -f1)
call POST "$leases/delete" -d "$(held "$work/pushed" | claims '')"
told "delete what was pushed" $(field status)
kill $pushing

problem() { told "$1" "\"$(header Content-Type)\"" $(field status) $(field code); }
call POST "$events" -d '{"n": 1}'
problem "not an array"
call GET "/event-types/$name-no"
problem "no such event type"
call PATCH "$messages/m1" -H 'X-Producer-Group: walk' -d '{"after_ms": "soon"}'
problem "no instant"

# The same connection for all of them: curl opens one at the first address. Only 7.88 breaks an HTTP/2 connection that it knew
# of before when it uses it again (curl/curl#10634), whatever the server.
targets=()
for _ in {1..20}; do targets+=(-o /dev/null "$url$events"); done
at_once=20
[[ $how != --http2-prior-knowledge || $(curl --version) != "curl 7.88."* ]] || at_once=1
for ((sent = 0; sent < 20; sent += at_once)); do
  curl -sS "$how" -w '%{http_code} %{http_version}\n' -d '[{"n": 1}]' "${targets[@]:0:at_once*3}"
done | sort -u > "$work/statuses"
statuses=$(cut -d' ' -f1 "$work/statuses")
call GET /health
told "keep alive" $statuses
for n in {0..7}; do printf '{"n": %d, "filling": "%0500000d"}' "$n" 0; done | sed 's/}{/},{/g; s/.*/[&]/' > "$work/large"
call POST "$events" --data-binary "@$work/large"
told "large body" $(found '"detail":"[^"]*"' | sed 's/^"detail"://; s/ /-/g')
# Of standard input nobody knows the length.
echo "{\"messages\": [$(message c1)]}" > "$work/message"
call POST "$messages" -H 'X-Producer-Group: walk' -T - < "$work/message"
told "body in chunks" $(field status)
