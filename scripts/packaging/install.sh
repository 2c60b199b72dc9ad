#!/bin/sh
# Installs tarpipe from the folder of this script. Needs no root, unless PREFIX does.
#
#   ./install.sh [--force] [PREFIX]      default: ~/.local
#   ./install.sh --uninstall [PREFIX]    removes what an installation put there
#
# Files of others are never replaced, except with --force. An older tarpipe in PREFIX is replaced.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
action=install force=
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;;
    --force) force=1 ;;
    --uninstall) action=uninstall ;;
    -*) echo "install.sh: unknown flag $1 (see --help)" >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
[ $# -le 1 ] || { echo "install.sh: more than one PREFIX (see --help)" >&2; exit 2; }
prefix=${1:-$HOME/.local}
list=$prefix/share/tarpipe/installed # one path below PREFIX per line

# Removes the files of an installation, then the folders that this leaves empty.
remove() {
  files=$(cat "$list")
  printf '%s\n' "$files" | while IFS= read -r file; do
    rm -f "$prefix/$file"
  done
  printf '%s\n' "$files" | sed 's|/[^/]*$||' | sort -ru | while IFS= read -r folder; do
    (cd "$prefix" && rmdir -p "$folder" 2>/dev/null) || true
  done
}

if [ $action = uninstall ]; then
  [ -f "$list" ] || { echo "install.sh: $prefix: no tarpipe is installed there" >&2; exit 1; }
  remove
  echo "removed tarpipe from $prefix"
  exit
fi

cd "$here"
files=$(find bin lib share \( -type f -o -type l \) | sort)
for file in $files; do
  [ -e "$prefix/$file" ] || [ -L "$prefix/$file" ] || continue
  if [ -z "$force" ] && ! grep -qxF "$file" "$list" 2>/dev/null; then
    echo "install.sh: $prefix/$file: exists and is not tarpipe's; use --force to replace it, or another PREFIX" >&2
    exit 1
  fi
done
mkdir -p "$prefix" || exit 1
if [ -f "$list" ]; then
  remove
fi
files=$(find bin lib share \( -type f -o -type l \) | sort)
for file in $files; do
  mkdir -p "$prefix/${file%/*}"
  rm -f "$prefix/$file"
  cp -P "$file" "$prefix/$file"
done
mkdir -p "${list%/*}"
cp "$here/install.sh" "${list%/*}/install.sh"
printf '%s\n' $files share/tarpipe/install.sh share/tarpipe/installed > "$list"

echo "installed $("$prefix/bin/tarpipe" --version) in $prefix:"
echo "  programs in $prefix/bin"
case :$PATH: in *":$prefix/bin:"*) ;; *) echo "    not on PATH yet: export PATH=\"$prefix/bin:\$PATH\"" ;; esac
echo "  Python package in $prefix/lib/tarpipe/python (export PYTHONPATH=\"$prefix/lib/tarpipe/python\")"
echo "  manual in $prefix/share/man (if man does not find it: export MANPATH=\"$prefix/share/man:\")"
echo "  completions for bash, fish and zsh (zsh: fpath=($prefix/share/zsh/site-functions \$fpath))"
echo "To remove it: $prefix/share/tarpipe/install.sh --uninstall $prefix"
