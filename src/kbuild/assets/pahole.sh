#!/bin/sh
# Stands in for `pahole` inside a build. With -j, pahole 1.22 to 1.26 orders BTF types by the luck
# of its threads, and kernel.org's `scripts/Makefile.btf` passes it.
for word do
	shift
	case $word in
	-j*|--jobs|--jobs=*) ;;
	*) set -- "$@" "$word" ;;
	esac
done
exec /usr/bin/pahole "$@"
