# Sourced by other scripts.
#
#   heed_help ARGUMENT...                  prints the comment at the top of the script for -h or --help, from the folder
#                                          of the script's first cd
#   refuse_flag ARGUMENT                   ends the script if the argument looks like a flag
#   install_missing PROGRAM:PACKAGE...     installs Debian packages whose programs are missing, and names them. PROGRAM is
#                                          a command, or a file with its full path. Without apt or root it names the
#                                          missing packages and fails.

heed_help() {
  [[ ${1-} == -h || ${1-} == --help ]] || return 0
  (cd "$OLDPWD" && sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0")
  exit
}

refuse_flag() {
  [[ ${1-} == -* ]] || return 0
  echo "${0##*/}: no flag $1 (see --help)" >&2
  exit 2
}

install_missing() {
  local entry program missing=() root=()
  for entry in "$@"; do
    program=${entry%%:*}
    [[ $program == /* && -e $program ]] && continue
    PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || missing+=("${entry##*:}")
  done
  ((${#missing[@]})) || return 0
  ((EUID == 0)) || root=(sudo)
  if ! command -v apt-get >/dev/null || { ((EUID)) && ! command -v sudo >/dev/null; }; then
    printf '%s: missing: %s (Debian names; install them with your package manager)\n' "${0##*/}" "${missing[*]}" >&2
    return 1
  fi
  printf '%s: installing %s\n' "${0##*/}" "${missing[*]}" >&2
  "${root[@]}" apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# build_tools debug|release [FLAG...]: builds the executable that contains all tools, and makes links to it beside it.
build_tools() {
  local profile=$1
  [[ $profile == debug ]] || set -- "$@" --release
  cargo build --quiet "${@:2}"
  "target/$profile/tarpipe" link --force "target/$profile"
}

# Build dependencies apart from Rust and a C compiler.
build_packages=(cmake:cmake nasm:nasm) # libjpeg-turbo
