#!/usr/bin/env bash
# A program in C with nothing but the header and the library: it is built as C11, trains in every
# mode, and fails with a message.
set -euo pipefail

root="${TEST_SRCDIR}/capstan"
installed="${TEST_TMPDIR}/installed"
mkdir "${installed}"
cp "${root}/worker/client_api/capstan.h" "${root}/worker/client_api/libcapstan.so" "${installed}"
cd "${TEST_TMPDIR}"

for program in linear_regression wrong_calls wrong_state_calls; do
  gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -O2 -I"${installed}" -o "${program}" \
    "${root}/tests/client_api/${program}.c" -L"${installed}" -Wl,-rpath,"${installed}" -lcapstan -lm
done

fail() {
  echo "client_api_test: $1" >&2
  exit 1
}

lines="$(wc --lines <"${root}/tests/client_api/linear_regression.c")"
[[ "${lines}" -lt 100 ]] || fail "expected linear_regression.c in less than 100 lines, got ${lines}"

exported="$(nm --dynamic --defined-only "${installed}/libcapstan.so" | awk '{ print $3 }' | sort)"
declared="$(grep --only-matching '[ *]capstan_[a-z_]*(' "${installed}/capstan.h" |
  tr --delete ' (*' | sort --unique)"
[[ "${exported}" == "${declared}" ]] ||
  fail "expected the exports of capstan.h alone: $(diff <(echo "${exported}") <(echo "${declared}"))"

# run PROGRAM FLAGS
run() {
  "${root}/deploy/cli/capstan" run --worker_command="${PWD}/$1" --num_servers=2 --run_dir=run \
    --summary_json=summary.json "${@:2}"
}

for mode in --consistency=bsp "--consistency=ssp --staleness=2" --consistency=async; do
  # shellcheck disable=SC2086  # two flags
  run linear_regression --num_workers=3 ${mode}
  grep --quiet '"test_accuracy": 1.0' summary.json || fail "no accuracy of 1 with ${mode}"
done
run linear_regression --num_workers=2 --transport=auto --push_codec=int8 --field=codec.min_bytes=0
grep --quiet '"test_accuracy": 1.0' summary.json || fail "no accuracy of 1 with int8"

run wrong_calls --num_workers=1
run wrong_state_calls --num_workers=1 --consistency=bsp

if CAPSTAN_COORDINATOR=localhost:1 timeout 60 ./linear_regression 2>message; then
  fail "trained without a coordinator"
fi
grep --quiet '^capstan_connect: .*localhost:1' message || fail "got $(cat message)"
if ./linear_regression 2>message; then fail "trained without a job"; fi
grep --quiet 'coordinator: expected HOST:PORT' message || fail "got $(cat message)"
