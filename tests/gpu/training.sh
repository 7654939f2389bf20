# shellcheck shell=bash disable=SC2154
# Part of tests/gpu_suite.sh: the stage of training with real servers, on the GPU and on the CPU.

# Trains; the results are NAME.json, the log NAME.log. Arguments: name, flags of `capstan run`.
train() {
  local name="$1"
  shift
  limited 60 "${name}.log" "${bundle}/bin/capstan" run --run_dir="${out}/${name}" \
    --summary_json="${out}/${name}.json" "$@"
}

# The value of a field of the summary NAME.json.
value() { sed -nE "s/^ *\"$2\": \"?([^\",]*)\"?,?$/\1/p" "${out}/$1.json"; }

calculate() { awk "BEGIN { print ($1) }"; }

# is_as_good NAME POINTS SHARE: whether the GPU's results, in NAME-cuda.json, are as good as the
# CPU's. The accuracy may be lower by POINTS. The losses may differ by less than SHARE ("any").
is_as_good() {
  local accuracy loss=1
  accuracy="100 * $(value "$1-cuda" test_accuracy) >= 100 * $(value "$1-cpu" test_accuracy) - $2"
  [[ "$3" == any ]] ||
    loss="($(value "$1-cuda" train_loss) / $(value "$1-cpu" train_loss) - 1) ^ 2 < $3 ^ 2"
  [[ "$(calculate "${accuracy} && ${loss}")" == 1 ]]
}

# Both results of NAME, in words.
both_results() {
  printf '%.2f %% (CPU: %.2f %%), loss %.4f (%.4f), %.0f samples/s (%.0f)' \
    "$(calculate "100 * $(value "$1-cuda" test_accuracy)")" \
    "$(calculate "100 * $(value "$1-cpu" test_accuracy)")" \
    "$(value "$1-cuda" train_loss)" "$(value "$1-cpu" train_loss)" \
    "$(value "$1-cuda" samples_per_s)" "$(value "$1-cpu" samples_per_s)"
}

# Trains on the GPU and on the CPU. Arguments: name, points and share as of is_as_good, flags of
# `capstan run`.
compare() {
  local name="$1" points="$2" share="$3" device exit_code=0 result=ok
  shift 3
  for device in cuda cpu; do
    train "${name}-${device}" --device="${device}" "$@" || exit_code=$?
    ((exit_code != 0)) || continue
    failure_row "${name}" "${exit_code}" "on ${device}: $(error_line "${name}-${device}.log")"
    return
  done
  is_as_good "${name}" "${points}" "${share}" || result=FAILED
  row "${result}" "${name}" "$(both_results "${name}")"
}

# A second run on the GPU ends with the parameters of the first, bit by bit.
compare_bits() {
  local name="$1" first second exit_code=0 result=ok
  shift
  train "${name}-again" --device=cuda "$@" || exit_code=$?
  if ((exit_code != 0)); then
    failure_row "${name} again" "${exit_code}" "$(error_line "${name}-again.log")"
    return
  fi
  first="$(value "${name}-cuda" parameters_xxh3)"
  second="$(value "${name}-again" parameters_xxh3)"
  [[ -n "${first}" && "${first}" == "${second}" ]] || result=FAILED
  row "${result}" "${name} again" "parameters' XXH3 ${first:-none} and ${second}"
}

# The transports of the programs; nothing where there is no choice.
transports() {
  "${bundle}/bin/capstan" run --help | sed -nE 's/^ *--transport=([a-z|]+)$/\1/p' | tr '|' '\n' |
    grep -v auto || true
}

stage_training() {
  local digits=("--job=${bundle}/jobs/digits.textproto") transport
  # shellcheck disable=SC2054
  local wide=("--job=${bundle}/jobs/synthetic.textproto" --field=data.synthetic.features=512
    --field=data.synthetic.samples=8000 --hidden=2048,2048 --batch_size=128 --steps=30 --learning_rate=0.2)
  # In BSP with float32 only the order of additions differs. The first steps differ little. Later the
  # order decides the sign of a sum before some ReLU, and the losses differ by a per cent or two. SSP
  # and async differ from run to run: only their accuracy is compared.
  compare digits-bsp-begin 0.1 0.001 "${digits[@]}" --epochs=2
  compare digits-bsp 0.6 0.05 "${digits[@]}"
  compare_bits digits-bsp "${digits[@]}"
  compare digits-bsp-tf32 2 0.2 "${digits[@]}" --precision=tf32
  compare digits-bsp-bfloat16 2 0.5 "${digits[@]}" --precision=bfloat16
  compare digits-ssp 2 any "--job=${bundle}/jobs/digits_ssp.textproto"
  compare digits-async 2 any "--job=${bundle}/jobs/digits_async.textproto"
  compare wide-bsp 0.6 0.02 "${wide[@]}"
  compare_bits wide-bsp "${wide[@]}"
  for transport in $(transports); do
    compare "digits-bsp-${transport}" 0.6 0.05 "${digits[@]}" --transport="${transport}"
  done
}
