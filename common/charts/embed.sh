#!/usr/bin/env bash
# Prints a C++ header with each file as a string constant.
# Usage: embed.sh NAME=FILE...
set -euo pipefail

echo 'namespace capstan {'
for argument in "$@"; do
  file="${argument#*=}"
  [[ -r "${file}" ]] || { echo "embed: cannot read ${file}; deploy/setup.sh installs it" >&2 && exit 1; }
  printf 'constexpr char %s[] = {' "${argument%%=*}"
  # Signed bytes: on x86-64 a char is signed.
  od --address-radix=n --output-duplicates --format=d1 --width=32 "${file}" |
    sed -E 's/ +(-?[0-9]+)/\1,/g'
  echo '0};'
done
echo '}  // namespace capstan'
