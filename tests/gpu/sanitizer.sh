# shellcheck shell=bash disable=SC2154
# Part of tests/gpu_suite.sh: the stage of unit tests under compute-sanitizer.

# The tests for the tool $1, the smallest first. Only kernels can race in shared memory.
tests_for() {
  local tool="$1" smallest="${bundle}/tests/kernels-cuda-arrays_test" test
  echo "${smallest}"
  for test in "${bundle}"/tests/kernels-cuda-*_test; do
    [[ "${test}" == "${smallest}" ]] || echo "${test}"
  done
  [[ "${tool}" == memcheck ]] || return 0
  compgen -G "${bundle}/tests/worker-engine-*_test" || true
}

# sanitize SANITIZER TOOL SECONDS END: runs the GPU's unit tests, each for so long at most, under a
# tool of compute-sanitizer until time is up. If the tool prints no summary for the first test, it
# does not work here.
sanitize() {
  local sanitizer="$1" tool="$2" seconds="$3" end="$4" clean=0 slow=0 bad=0 is_first=1
  local test name log exit_code summary
  while read -r test; do
    name="${test##*/}"
    log="${tool}-${name}.log"
    exit_code=0
    ((SECONDS < end)) || { slow=$((slow + 1)) && continue; }
    limited "${seconds}" "${log}" "${sanitizer}" --tool "${tool}" --error-exitcode=86 --report-api-errors=no \
      "${test}" || exit_code=$?
    summary="$(grep -oE '[A-Z]* ?SUMMARY.*' "${out}/${log}" | tail -n 1 || true)"
    if ((exit_code == 124 || exit_code == 137)); then
      slow=$((slow + 1))
    elif [[ -z "${summary}" ]] && ((is_first)); then
      row "not run" "${tool}" "it does not work here: $(error_line "${log}")"
      return
    elif [[ -z "${summary}" ]] || ((exit_code != 0)); then
      bad=$((bad + 1))
      row FAILED "${tool} ${name}" \
        "exit code ${exit_code}, ${summary:-no summary: $(error_line "${log}")}"
    else
      clean=$((clean + 1))
    fi
    is_first=0
  done < <(tests_for "${tool}")
  ((bad > 0 || clean == 0)) ||
    row ok "${tool}" "${clean} test programs clean, ${slow} left out for time"
  ((clean > 0 || bad > 0)) || row "not run" "${tool}" "all of ${slow} test programs took too long"
}

stage_sanitizer() {
  local sanitizer
  sanitizer="$(command -v compute-sanitizer || compgen -G '/usr/local/cuda*/bin/compute-sanitizer' |
    head -n 1 || true)"
  if [[ -z "${sanitizer}" ]]; then
    row "not run" "memcheck, racecheck" "there is no compute-sanitizer on PATH or in CUDA's bin"
    return
  fi
  sanitize "${sanitizer}" memcheck 20 $((SECONDS + limits[sanitizer] / 2))
  sanitize "${sanitizer}" racecheck 45 "${stage_end}"
}
