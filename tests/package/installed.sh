#!/usr/bin/env bash
# In a new Debian: installs /tmp/capstan.deb, uses it as a user without rights, and removes it.
set -euo pipefail

export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
apt_get=(apt-get --quiet --quiet --yes --no-install-recommends -o Dpkg::Use-Pty=0)
home=/home/user

fail() {
  echo "$1" >&2
  exit 1
}

contains() { [[ "$1" == *"$2"* ]] || fail "expected \"$2\" in: ${1:0:2000}"; }

# as_user SCRIPT: runs it as a user who may write in one folder only.
as_user() {
  setpriv --reuid=1000 --regid=1000 --clear-groups env HOME="${home}" TERM=dumb \
    bash -c "cd '${home}' && $1"
}

apt_installs_it() {
  "${apt_get[@]}" update
  "${apt_get[@]}" install /tmp/capstan.deb bash-completion man-db >/tmp/install.log 2>&1 ||
    { cat /tmp/install.log && fail "expected apt to install the package"; }
  install -d -o 1000 -g 1000 "${home}"
  contains "$(dpkg --status capstan)" "Status: install ok installed"
  dpkg --verify capstan
}

programs_say_their_version() {
  local program
  for program in capstan capstan_evaluate capstan_coordinator capstan_server capstan_worker; do
    contains "$(as_user "${program} --version")" "${program} $(dpkg-query -f '${Version}' -W capstan)"
  done
}

every_program_and_command_has_a_manual_page() {
  local page text count=0
  for page in capstan capstan_evaluate capstan_coordinator capstan_server capstan_worker \
    $(capstan --help | sed -nE 's/^  capstan ([a-z]+) .*/capstan-\1/p' | grep --invert-match help); do
    text="$(as_user "MANWIDTH=100 man --warnings ${page} 2>&1" | tr --squeeze-repeats ' ')" || fail "no page ${page}: ${text}"
    contains "${text}" "${page} - "
    [[ "${text}" != *warning* ]] || fail "expected no warnings: ${text}"
    count=$((count + 1))
  done
  ((count > 10)) || fail "expected a page for each command, got ${count}"
  contains "$(as_user 'man capstan-run')" "--learning_rate=RATE"
}

# Presses the tab key in an interactive shell, whose answer tells what the line became.
tab_completes() {
  local typed="$1" answer="$2" output
  output="$(as_user "printf '%b' 'source /usr/share/bash-completion/bash_completion\n$1\nexit\n' |
    script --quiet --command 'bash --norc -i' /dev/null 2>&1" || true)"
  [[ "${output}" == *"${answer}"* ]] || fail "expected \"${answer}\" for ${typed}, got: ${output}"
}

the_tab_key_completes() {
  tab_completes 'capstan stat\t' 'capstan status: expected RUN_DIR or --coordinator=HOST:PORT, got none'
  tab_completes 'capstan help flag\t' 'FLAG FILES'
  tab_completes 'capstan run --consistency=as\t--allow_o\t--jobb' 'unknown flag "--jobb"'
  tab_completes 'capstan_server --coord\tx --rpc_\t' '--rpc_deadline_seconds: expected what'
  tab_completes 'capstan keys --out=/usr/share/caps\t --days=0' '/usr/share/capstan/ --days=0'
}

it_trains() {
  local output accuracy
  output="$(as_user 'capstan run --job=/usr/share/capstan/jobs/digits.textproto --num_servers=1 \
    --num_workers=2 --run_dir=digits')" || fail "training failed: ${output}"
  echo "${output}"
  accuracy="$(sed -nE 's/^ *test accuracy +([0-9]+)\.[0-9]+ %$/\1/p' <<<"${output}")"
  ((accuracy >= 95 && accuracy <= 100)) || fail "expected an accuracy of 95 % or more: ${output}"
}

jobs_find_their_data() {
  local output
  output="$(as_user 'capstan run --job=/usr/share/capstan/jobs/agaricus.textproto --epochs=1')" ||
    fail "training failed: ${output}"
  contains "${output}" "test accuracy"
}

# The user's runs are not the package's.
files_named_after_it() {
  find / -xdev -iname '*capstan*' -not -path '/tmp/*' -not -path "${home}/*"
}

nothing_is_left_of_it() {
  local left
  (($(files_named_after_it | wc -l) > 20)) || fail "expected files of the package: $(files_named_after_it)"
  "${apt_get[@]}" remove capstan >/dev/null
  dpkg --purge capstan  # has no more to do, as there are no settings
  ! dpkg --status capstan 2>/dev/null || fail "expected no package capstan"
  left="$(files_named_after_it)"
  [[ -z "${left}" ]] || fail "expected nothing of the package, got ${left}"
}

for check in apt_installs_it programs_say_their_version every_program_and_command_has_a_manual_page \
  the_tab_key_completes it_trains jobs_find_their_data nothing_is_left_of_it; do
  echo "== ${check}"
  "${check}"
done
