#!/usr/bin/env bash
# Wrong flags are refused. As root, the benchmark also runs, with fewer bytes for each codec, and
# leaves nothing behind. Without root, the report says so.
set -euo pipefail

folder="${TEST_SRCDIR}/capstan/tests/benchmark"
source "${folder}/schedule/network_test.sh"
# Users call the link in this folder.
benchmark="${folder}/compression_benchmark.sh"

expect_error "--gbit: expected numbers above 0, got 'x'" "${benchmark}" --gbit=1,x
expect_error "--seconds: expected a number above 0, got '0'" "${benchmark}" --seconds=0
expect_error "--model: expected vgg16, resnet50, bert_base" "${benchmark}" --model=vgg17
expect_error "there is no flag --fast" "${benchmark}" --fast
"${benchmark}" --help | grep --quiet -- '--codec=C'

end_without_namespaces "${benchmark}"
before="$(ip netns list)"
"${benchmark}" --programs="${TEST_SRCDIR}/capstan" --model=resnet50 --scale=64 --gbit=0.25 --seconds=1 \
  --codec=int8,topk:0.01 >"${TEST_TMPDIR}/output"
cat "${TEST_TMPDIR}/output"
number='[0-9.]*[1-9][0-9.]*'
# The first pull is of all values, and few steps follow.
for codec in int8:3 'topk:0.01:([5-9]|[1-9][0-9])'; do
  line="\"codec\": \"${codec%:*}\", .*\"step_s\": ${number}, \"float32_step_s\": ${number}, "
  line+="\"bytes_ratio\": ${codec##*:}"
  grep --extended-regexp "${line}" "${TEST_TMPDIR}/output"
done
[[ "$(ip netns list)" == "${before}" ]] || { echo "left behind: $(ip netns list)" && exit 1; }
