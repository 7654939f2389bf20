# shellcheck shell=bash disable=SC2154
# Part of tests/gpu_suite.sh: runs commands within a stage's time, and notes their results.

# Adds a line to the table: result (ok, FAILED or "not run"), name, detail.
row() {
  [[ "$1" != FAILED ]] || failed=$((failed + 1))
  rows+=("$(printf '%-9s  %-7s  %-42s  %s' "${stage}" "$1" "$2" "$3")")
  echo "${rows[-1]}"
}

# Runs the command for at most $1 seconds, and not beyond the stage's end. Its output goes to the log
# $2. Exit code 124: it took too long. 137: it took too long, and had to be killed.
limited() {
  local seconds="$1" log="${out}/$2" left=$((stage_end - SECONDS))
  shift 2
  : >"${log}"
  ((left < seconds)) && seconds="${left}"
  ((seconds > 0)) || return 124
  timeout --kill-after=5 "${seconds}" "$@" </dev/null &>"${log}"
}

# The first line of the log $1 with a word of an error, or its last line.
error_line() {
  grep -m 1 -iE 'error|fail|expected|cannot' "${out}/$1" || tail -n 1 "${out}/$1"
}

# The row of a command that failed: its name in the table, its exit code, and the detail. A time-out
# says nothing about what is right.
failure_row() {
  case "$2" in
    124 | 137) row "not run" "$1" "not done in its time, or in what was left of the stage's" ;;
    *) row FAILED "$1" "$3" ;;
  esac
}

# Runs the program and shows its output; false: it failed. Arguments: its name in the table, log,
# most seconds, command.
show() {
  local what="$1" log="$2" seconds="$3" exit_code=0
  shift 3
  limited "${seconds}" "${log}" "$@" || exit_code=$?
  cat "${out}/${log}"
  if ((exit_code == 0)); then
    row ok "${what}" "see above"
  else
    failure_row "${what}" "${exit_code}" "exit code ${exit_code}: $(error_line "${log}")"
    return 1
  fi
}
