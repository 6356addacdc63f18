#!/usr/bin/env bash
# Checks the model of the lock exhaustively: safety, liveness, and that the bugs planted by -D are found. It needs spin and a
# C compiler, installs nothing, and takes one to two minutes; a search that takes five, or 4 GB, fails. The last line is
# "N passed, N failed".
set -euo pipefail
model=$(cd "$(dirname "$0")" && pwd)/lock.pml

command -v spin >/dev/null || { echo "check.sh: spin is missing (Debian: apt-get install spin)" >&2; exit 2; }
cc=$(command -v "${CC:-cc}" || command -v gcc || command -v clang) ||
  { echo "check.sh: a C compiler is missing (Debian: apt-get install gcc libc6-dev)" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# check NAME EXPECTED SPIN-FLAGS CC-FLAGS PAN-FLAGS; EXPECTED is "holds" or what must be in the error that is found.
check() {
  local name=$1 expected=$2 began=$SECONDS dir out verdict states
  local -a spinFlags ccFlags panFlags
  read -ra spinFlags <<<"$3"
  read -ra ccFlags <<<"$4"
  read -ra panFlags <<<"$5"
  dir=$(mktemp -d "$work/XXXX")
  cp "$model" "$dir/lock.pml"
  if ! out=$(cd "$dir" && spin -a "${spinFlags[@]}" lock.pml 2>&1 &&
    "$cc" -O2 -w -DMEMLIM=4000 -DCOLLAPSE "${ccFlags[@]}" -o pan pan.c 2>&1 &&
    timeout 300 ./pan -w24 "${panFlags[@]}" 2>&1); then
    verdict="it did not run"
  elif grep -qE 'Search not completed|max search depth too small|out of memory|memory limit' <<<"$out" && [[ $expected == holds ]]; then
    verdict="the search was not exhaustive"
  elif [[ $expected == holds ]]; then
    if grep -q 'errors: 0$' <<<"$out" && grep -q 'states, stored' <<<"$out"; then verdict=ok; else verdict="it does not hold"; fi
  elif grep -qF "$expected" <<<"$out" && grep -q 'errors: 1$' <<<"$out"; then
    verdict=ok
  else
    verdict="the planted bug was not found"
  fi
  states=$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' <<<"$out" | tail -1)
  if [[ $verdict == ok ]]; then
    passed=$((passed + 1))
    printf 'ok    %-42s %9s states %4d s\n' "$name" "$states" $((SECONDS - began))
  else
    failed=$((failed + 1))
    printf 'FAIL  %-42s %s\n%s\n' "$name" "$verdict" "$out"
    if compgen -G "$dir/*.trail" >/dev/null; then
      (cd "$dir" && spin -t -p -g "${spinFlags[@]}" lock.pml 2>&1 | tail -120) || true
    fi
  fi
}

safety="-DSAFETY -DNOFAIR"
check "safety, 3 clients"                          holds "-DLOCKS=1" "$safety" "-m1000000"
check "liveness, 2 clients"                        holds "-DLIVE" "-DNFAIR=3" "-a -f -m1000000"
check "found: a release without the owner check"   "assertion violated" "-DLOCKS=1 -DHOLDERS_ALONE -DBUG_RELEASE" "$safety" "-m1000000"
check "found: a late grant without the fence rule" "assertion violated" "-DLOCKS=1 -DHOLDERS_ALONE -DBUG_GRANT" "$safety" "-m1000000"
check "found: a cleanup of a token still in use"   "assertion violated" "-DLOCKS=1 -DHOLDERS_ALONE -DBUG_CLEANUP" "$safety" "-m1000000"

echo "$passed passed, $failed failed"
((failed == 0))
