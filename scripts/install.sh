#!/bin/sh
# install.sh [--uninstall] [PREFIX]
#
# Puts millstream @VERSION@ below PREFIX, /usr/local by default, or takes it away again. Nothing else is changed. It needs glibc
# @GLIBC@ or later and, for 'millstream bench' alone, libgcc_s.
set -eu

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

action=install
if [ "${1:-}" = --uninstall ]; then
    action=uninstall
    shift
fi
case ${1:-} in
    -*) fail "unknown option '$1'; usage: install.sh [--uninstall] [PREFIX]" ;;
esac
prefix=${1:-/usr/local}
case $prefix in
    /*) ;;
    *) fail "'$prefix' is no absolute path" ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
# What belongs to it, in this order: bin, lib, share, include.
cd "$here"
files=$(find bin lib share include ! -type d)

# Directories that were not there before, in the order in which they were made.
made=$prefix/lib/millstream/made

if [ "$action" = uninstall ]; then
    directories=$(tac "$made" 2>/dev/null || true)
    rm -f "$made"
    echo "$files" | while IFS= read -r file; do
        rm -f "$prefix/$file"
    done
    # One that holds files of others stays.
    echo "$directories" | while IFS= read -r directory; do
        rmdir "$directory" 2>/dev/null || true
    done
    echo "millstream is no longer below $prefix"
    exit 0
fi

make_directory() {
    if [ ! -d "$1" ]; then
        make_directory "$(dirname "$1")"
        mkdir "$1"
        echo "$1" >>"$list"
    fi
}

"$here/bin/millstream" --version >/dev/null 2>&1 || fail "this system cannot run it: its glibc may be older than @GLIBC@, or its processor another one"
umask 022
list=$(mktemp)
trap 'rm -f "$list"' EXIT
# What an earlier version has made is still its own.
cat "$made" >"$list" 2>/dev/null || true
make_directory "$prefix" 2>/dev/null && [ -w "$prefix" ] || fail "cannot write to '$prefix': be root, or name another place: install.sh ~/.local"
echo "$files" | while IFS= read -r file; do
    make_directory "$(dirname "$prefix/$file")"
    # A program that runs keeps the file that it has.
    rm -f "$prefix/$file"
    cp -P "$file" "$prefix/$file"
    # However it was unpacked.
    [ -L "$prefix/$file" ] || chmod u=rwX,go=rX "$prefix/$file"
done
cp "$list" "$made"
chmod 644 "$made"
sed "s|^prefix=.*|prefix=$prefix|" lib/pkgconfig/millstream.pc >"$prefix/lib/pkgconfig/millstream.pc"
echo "installed $("$prefix/bin/millstream" --version) below $prefix"
case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) echo "$prefix/bin is not in PATH" ;;
esac
