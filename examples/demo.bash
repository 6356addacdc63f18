# What the four demo.sh have in common; each sources this file. They need Docker with Compose, curl and bash, and take what
# is to be passed on to `up`: --build is the default, --no-build takes the images as they are.
set -euo pipefail
cd "$(dirname "$0")"

COMPOSE_PROJECT_NAME=redispatterns-$(basename "$PWD")
export COMPOSE_PROJECT_NAME
if docker compose version >/dev/null 2>&1; then
  compose() { docker compose "$@"; }
else
  compose() { docker-compose "$@"; }
fi

up_flags=("${@:---build}")
scratch=$(mktemp -d)
finish() {
  local status=$?
  if ((status)); then
    printf '\nFAILED. What the containers say:\n' >&2
    compose logs --no-color >&2 || true
  fi
  compose down -v >/dev/null 2>&1 || true
  rm -rf "$scratch"
  exit $status
}
trap finish EXIT

# up starts everything, on nothing that an earlier run left.
up() {
  compose down -v >/dev/null 2>&1 || true
  printf 'Starting %s …\n' "$COMPOSE_PROJECT_NAME"
  compose up -d "${up_flags[@]}" >"$scratch/up" 2>&1 || { cat "$scratch/up" >&2; return 1; }
  compose ps -q redis >"$scratch/redis"
}

bold='' plain=''
[[ -t 1 ]] && bold=$'\033[1m' plain=$'\033[0m'
step() { printf '\n%s── %s%s\n' "$bold" "$*" "$plain"; }

# typed prints words as one would type them.
typed() {
  local word line=
  for word in "$@"; do
    [[ $word =~ ^[A-Za-z0-9_./:=@%,?+-]+$ ]] || word="'$word'"
    line+=" $word"
  done
  printf '%s\n' "${line# }"
}

# http is curl: it shows the call and the answer, and leaves them in $status, $body and $retry_after.
http() {
  printf '\n$ curl %s\n' "$(typed "$@")"
  status=$(curl -s --max-time 30 -o "$scratch/body" -D "$scratch/header" -w '%{http_code}' "$@") || status=none
  body=$(cat "$scratch/body" 2>/dev/null || true)
  retry_after=$(sed -n 's/^retry-after: \([0-9]*\).*/\1/Ip' "$scratch/header" 2>/dev/null || true)
  rm -f "$scratch/body" "$scratch/header"
  printf '%s  %s\n' "$status" "$body"
}

# redis is redis-cli: it shows the command and the answer, and leaves that in $reply.
redis() {
  printf '\n$ redis-cli %s\n' "$(typed "$@")"
  reply=$(ask "$@")
  printf '%s\n' "$reply"
}

# ask sends a command to Redis, in its container.
ask() { docker exec "$(<"$scratch/redis")" redis-cli "$@"; }

# field is the value of a field of the JSON object in $body.
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" <<<"$body"; }

fail() { printf '\n✗ %s\n' "$*" >&2; exit 1; }

# holds says what must be true, and ends the demonstration where the test after it does not succeed.
holds() {
  local what=$1
  shift
  "$@" || fail "it does not hold that $what"
  printf '✓ %s\n' "$what"
}

is() { [[ $1 == "$2" ]] || { printf 'got %s, want %s\n' "$1" "$2" >&2; return 1; }; }
matches() { [[ $1 =~ $2 ]] || { printf '%s does not match %s\n' "$1" "$2" >&2; return 1; }; }
between() { (($2 <= $1 && $1 <= $3)) || { printf '%s is not from %s to %s\n' "$1" "$2" "$3" >&2; return 1; }; }

# eventually waits until a command succeeds, for a minute at the most.
eventually() {
  local what=$1 until=$((SECONDS + 60))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < until)) || fail "in a minute it did not come about that $what"
    sleep 0.2
  done
}

answers() { curl -s --max-time 5 -o "$scratch/ignored" "$1/health"; }
