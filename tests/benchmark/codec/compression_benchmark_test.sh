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
expect_error "--train_job: expected teacher or digits, got 'vgg16'" \
  "${benchmark}" --train --train_job=digits,vgg16
expect_error "--train_steps: expected a whole number above 0, got '1.5'" \
  "${benchmark}" --train --train_steps=1.5
expect_error "--seeds: expected a whole number above 0, got '0'" "${benchmark}" --train --seeds=0
expect_error '--seeds: matters with --train only' "${benchmark}" --seeds=3
expect_error '--fragments: matters with --local_steps only' "${benchmark}" --fragments=2
expect_error "--local_steps: expected a whole number above 1, got '1'" "${benchmark}" --local_steps=1
[[ "$("${benchmark}" --help)" == *--codec=C* ]]

"${folder}/compression_chart.py" >"${TEST_TMPDIR}/chart.svg" <<END
{"codec": "int8", "gbit": 0.1, "step_s": 1, "float32_step_s": 4}
{"codec": "int8", "gbit": 1, "step_s": 1, "float32_step_s": 1}
END
grep --fixed-strings 'polyline class="int8" points="52.0,44.0 544.0,212.0"' "${TEST_TMPDIR}/chart.svg"
expect_error 'expected lines of compression_benchmark.sh' "${folder}/compression_chart.py" </dev/null

end_without_namespaces "${benchmark}"
before="$(left_namespaces)"
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

# 20 steps send one exchange of int8.
"${benchmark}" --programs="${TEST_SRCDIR}/capstan" --model=resnet50 --scale=64 --gbit=0.25 --seconds=1 \
  --codec=int8 --local_steps=19 --fragments=2 --fragment_sync_delay=3 >"${TEST_TMPDIR}/output"
cat "${TEST_TMPDIR}/output"
grep --extended-regexp "\"step_s\": ${number}, .*\"bytes_ratio\": [67][0-9]" "${TEST_TMPDIR}/output"

# Links are measured, and auto finds that int8 pays: the first 12 of 44 steps are float32.
"${benchmark}" --programs="${TEST_SRCDIR}/capstan" --model=resnet50 --scale=8 --gbit=0.25 \
  --seconds=1 --codec=auto >"${TEST_TMPDIR}/output" 2>"${TEST_TMPDIR}/log"
cat "${TEST_TMPDIR}"/{output,log}
grep --extended-regexp '"codec": "auto", .*"bytes_ratio": (1\.[5-9]|2)' "${TEST_TMPDIR}/output"
grep --extended-regexp 'links: 0\.[0-9]+ Gbit/s both ways, .*credit [0-9]+[KM]iB' "${TEST_TMPDIR}/log"
grep --extended-regexp 'auto codecs: int8 from step 1[0-9] on for .*, because a step of 0' \
  "${TEST_TMPDIR}/log"

# A training adds its figures.
"${benchmark}" --programs="${TEST_SRCDIR}/capstan" --model=resnet50 --scale=64 --gbit=0.25 \
  --seconds=1 --codec=int8 --train --train_job=digits --train_steps=800 --seeds=1 \
  >"${TEST_TMPDIR}/output"
cat "${TEST_TMPDIR}/output"
line="\"step_s\": ${number}, .*\"job\": \"digits\", \"train_steps\": 800, \"seeds\": 1"
for figure in accuracy float32_accuracy seconds_to_target float32_seconds_to_target; do
  line+=", \"${figure}\": ${number}"
done
grep --extended-regexp "${line}}" "${TEST_TMPDIR}/output"
expect_nothing_left "${before}"
