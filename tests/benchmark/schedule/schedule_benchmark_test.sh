#!/usr/bin/env bash
# The benchmark has the right points, wrong flags are refused, and the chart shows the figures. As
# root, the benchmarks also run and leave nothing behind. Without root, the report says so.
set -euo pipefail

folder="${TEST_SRCDIR}/capstan/tests/benchmark"
source "${folder}/schedule/network_test.sh"
# Users call the links in this folder.
benchmark="${folder}/schedule_benchmark.sh"

expect_error "--gbit: expected a number above 0, got '0'" "${benchmark}" --gbit=0
expect_error "--scale: expected a whole number above 0, got 'x'" "${benchmark}" --scale=x
expect_error "--ratio: expected numbers above 0, got '0.0'" "${benchmark}" --ratio=1,0.0
expect_error "--schedules: expected tensor_fifo, slice_fifo or priority, got 'fifo'" \
  "${benchmark}" --schedules=fifo
expect_error "--model: expected vgg16, resnet50, bert_base" "${benchmark}" --model=vgg17
expect_error "there is no flag --fast" "${benchmark}" --fast
[[ "$("${benchmark}" --help)" == *--ratio=X* ]]

# 1000, 500 and, scaled below 1, 1 elements: 6004 bytes take 60.04 us at 0.8 Gbit/s.
cat >"${TEST_TMPDIR}/net.csv" <<END
layer,tensor,elements,million_macs
0,a,2001,1
1,b,1000,1
1,c,1,0
END
"${benchmark}" --plan --model="${TEST_TMPDIR}/net.csv" --scale=2 --gbit=0.8 --ratio=0.5,2 \
  >"${TEST_TMPDIR}/plan"
diff "${TEST_TMPDIR}/plan" - <<END
{"model": "net", "scale": 2, "gbit": 0.8, "ratio": 0.5, "compute_s": 0.000120, "lower_bound_s": 0.000120}
{"model": "net", "scale": 2, "gbit": 0.8, "ratio": 2, "compute_s": 0.000030, "lower_bound_s": 0.000060}
END
[[ "$("${benchmark}" --plan | wc -l)" == 5 ]]

# From 1 to 2.5 over the bound on an axis of 212 pixels from y = 256 on, and 324 pixels from x = 44.
"${folder}/schedule_chart.py" >"${TEST_TMPDIR}/chart.svg" <<END
{"model": "net", "scale": 2, "gbit": 1, "ratio": 2, "lower_bound_s": 2, "tensor_fifo_s": 4, "slice_fifo_s": 3, "priority_s": 2}
{"model": "net", "scale": 2, "gbit": 1, "ratio": 0.5, "lower_bound_s": 2, "tensor_fifo_s": 5, "slice_fifo_s": 3.5, "priority_s": 2}
END
for line in 'tensor_fifo" points="44.0,44.0 368.0,114.7"' \
  'slice_fifo" points="44.0,150.0 368.0,185.3"' 'priority" points="44.0,256.0 368.0,256.0"'; do
  grep --fixed-strings "polyline class=\"${line}" "${TEST_TMPDIR}/chart.svg"
done
expect_error 'expected lines of schedule_benchmark.sh' "${folder}/schedule_chart.py" </dev/null

# A failed process is noticed while another one goes on.
(
  source "${folder}/schedule/shaped_cluster.sh"
  sleep 1000 &
  cluster_pids+=($!)
  true &
  cluster_pids+=($!)
  false &
  cluster_pids+=($!)
  if cluster_wait; then echo 'expected an error of the process that failed' && exit 1; fi
  cluster_kill
)

end_without_namespaces "${benchmark}"
before="$(left_namespaces)"
for shell in "${benchmark}" "${folder}/preemption_benchmark.sh"; do
  expect_error 'bazel build' "${shell}" --programs="${TEST_TMPDIR}"
done
printf 'layer,tensor,elements,million_macs\n0,a,8,1\n0,b,8\n' >"${TEST_TMPDIR}/malformed.csv"
expect_error 'malformed.csv, line 3: expected 4 fields' timeout 60 "${benchmark}" --gbit=0.25 \
  --programs="${TEST_SRCDIR}/capstan" --model="${TEST_TMPDIR}/malformed.csv" --ratio=1
# Slow links: a busy machine can fill them.
"${benchmark}" --programs="${TEST_SRCDIR}/capstan" --model=resnet50 --scale=64 --ratio=1 --gbit=0.25 \
  --job_flags='--slice_bytes=65536 --field=scheduler.credit_bytes=65536' >"${TEST_TMPDIR}/output"
number='[0-9.]*[1-9][0-9.]*'
for key in lower_bound tensor_fifo slice_fifo priority; do
  grep --extended-regexp "\"${key}_s\": ${number}" "${TEST_TMPDIR}/output"
done
"${folder}/preemption_benchmark.sh" --programs="${TEST_SRCDIR}/capstan" --tries=3 --gbit=0.25 \
  --slice_bytes=65536 --credit_bytes=65536 >"${TEST_TMPDIR}/output"
grep '"schedule":"slice_fifo"' "${TEST_TMPDIR}/output"
grep '"schedule":"priority"' "${TEST_TMPDIR}/output"
expect_nothing_left "${before}"
