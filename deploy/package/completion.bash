# shellcheck shell=bash
# Bash completion of capstan and the other programs. All words come from their --help.

# _capstan_flags COMMAND...: prints the flags in its help, as in --job=FILE, --trace, --[no]dgc.
_capstan_flags() { "$@" --help 2>/dev/null | sed -nE 's/^  (--[^ ]+)$/\1/p'; }

# _capstan_names HEADING PREFIX: prints the names in the block under the heading of capstan's help.
_capstan_names() { "${words[0]}" --help 2>/dev/null | sed -nE "/^$1/,/^\$/s/^  $2([a-z_]+) .*/\1/p"; }

# Completes a flag's name in ${word} by the flags given as lines.
_capstan_flag() {
  local flag names=()
  while read -r flag; do
    case "${flag}" in
      --\[no\]*) names+=("--${flag#*]} " "--no${flag#*]} ") ;;
      *=*) names+=("${flag%%=*}=") ;;
      *) names+=("${flag} ") ;;
    esac
  done <<<"$1"
  compopt -o nospace
  local IFS=$'\n'
  mapfile -t COMPREPLY < <(compgen -W "${names[*]}" -- "${word}")
}

# Completes the value behind the = of ${word}: one of --name=a|b, or a file.
_capstan_value() {
  local value="${word#*=}" usage
  usage="$(sed -n "s/^${word%%=*}=//p" <<<"$1")"
  case "${usage}" in
    *\|*) mapfile -t COMPREPLY < <(compgen -W "${usage//|/ }" -- "${value}") ;;
    FILE*) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "${value}") ;;
    DIR*) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -d -- "${value}") ;;
  esac
}

_capstan() {
  local line="${COMP_LINE:0:COMP_POINT}" words word help flags
  read -r -a words <<<"${line}"
  word="${line##* }"  # where ${words[-1]} may be the word before
  COMPREPLY=()
  [[ -n "${word}" ]] || words+=("")
  help=("${words[0]}")
  if [[ "${words[0]##*/}" == capstan ]]; then
    if [[ ${#words[@]} -eq 2 || "${words[1]}" == help ]]; then
      ((${#words[@]} <= 3)) || return 0
      local names
      names="$(_capstan_names Usage: 'capstan ')"
      [[ ${#words[@]} -eq 2 ]] || names+=" $(_capstan_names Topics '')"
      [[ ${#words[@]} -eq 3 ]] || names+=" --help --version"
      mapfile -t COMPREPLY < <(compgen -W "${names}" -- "${word}" | sort --unique)
      return 0
    fi
    help+=("${words[1]}")
  fi
  flags="$(_capstan_flags "${help[@]}")"
  case "${word}" in
    --*=*) _capstan_value "${flags}" ;;
    -*) _capstan_flag "${flags}" ;;
    *) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "${word}") ;;
  esac
}

complete -F _capstan capstan capstan_coordinator capstan_server capstan_worker
