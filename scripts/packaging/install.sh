#!/bin/sh
# Installs tarpipe from the folder of this script. Needs no root, unless PREFIX does.
#
#   ./install.sh [--force] [PREFIX]      default: ~/.local
#   ./install.sh --uninstall [PREFIX]    removes what an installation put there
#
# Files of others are never replaced, except with --force. An older tarpipe in PREFIX is replaced. Where img2dataset,
# video2dataset or any2dataset is there already, it stays, and ours is run by `tarpipe img2dataset` alone.
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
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
list=$prefix/share/tarpipe/installed # one path below PREFIX per line

# Removes the files of an installation and what Python has compiled from them, then the folders that this leaves empty.
remove() {
  installed=$(cat "$list")
  printf '%s\n' "$installed" | while IFS= read -r file; do
    rm -f "$prefix/$file"
  done
  [ ! -d "$prefix/lib/tarpipe" ] || find "$prefix/lib/tarpipe" -name __pycache__ -type d -prune -exec rm -rf {} +
  printf '%s\n' "$installed" | sed 's|/[^/]*$||' | sort -ru | while IFS= read -r folder; do
    (cd "$prefix" && rmdir -p "$folder" 2>/dev/null) || true
  done
}

# Whether there is a file that no installation of ours put there.
is_foreign() {
  { [ -e "$prefix/$1" ] || [ -L "$prefix/$1" ]; } && ! grep -qxF "$1" "$list" 2>/dev/null
}

if [ $action = uninstall ]; then
  [ -f "$list" ] || { echo "install.sh: $prefix: no tarpipe is installed there" >&2; exit 1; }
  remove
  echo "removed tarpipe from $prefix"
  exit
fi

cd "$here"
files= left=
for file in $(find bin lib share \( -type f -o -type l \) | sort); do
  if [ -z "$force" ] && is_foreign "$file"; then
    case $file in
      bin/*2dataset) left="$left ${file#bin/}"; continue ;;
    esac
    echo "install.sh: $prefix/$file: exists and is not tarpipe's; use --force to replace it, or another PREFIX" >&2
    exit 1
  fi
  files="$files $file"
done
mkdir -p "$prefix" || exit 1
if [ -f "$list" ]; then
  remove
fi
# The list first: an installation that is cut short can be removed, or done again.
mkdir -p "${list%/*}"
printf '%s\n' $files share/tarpipe/install.sh share/tarpipe/installed > "$list"
cp install.sh "${list%/*}/install.sh"
for file in $files; do
  mkdir -p "$prefix/${file%/*}"
  rm -f "$prefix/$file"
  cp -P "$file" "$prefix/$file"
done

echo "installed $("$prefix/bin/tarpipe" --version) in $prefix:"
echo "  programs in $prefix/bin"
case :$PATH: in *":$prefix/bin:"*) ;; *) echo "    not on PATH yet: export PATH=\"$prefix/bin:\$PATH\"" ;; esac
echo "  Python package in $prefix/lib/tarpipe/python (export PYTHONPATH=\"$prefix/lib/tarpipe/python\")"
echo "  manual in $prefix/share/man (if man does not find it: export MANPATH=\"$prefix/share/man:\")"
echo "  completions for bash, fish and zsh (zsh: fpath=($prefix/share/zsh/site-functions \$fpath))"
for name in $left; do
  echo "  $prefix/bin/$name is not tarpipe's and stays; tarpipe $name runs ours"
done
echo "To remove it: $prefix/share/tarpipe/install.sh --uninstall $prefix"
