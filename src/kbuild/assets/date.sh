#!/bin/sh
# Stands in for `date` inside a build. `scripts/package/mkdebian` writes `$(date -R)` into the
# changelog, whatever SOURCE_DATE_EPOCH says; every other question goes to the real program.
mail=
for word do
	case $word in
	-R|--rfc-email|--rfc-2822|-uR|-Ru) mail=yes ;;
	-u|--utc|--universal) ;;
	*) exec /usr/bin/date "$@" ;;
	esac
done
if [ -n "$mail" ] && [ -n "${SOURCE_DATE_EPOCH+set}" ]; then
	case $SOURCE_DATE_EPOCH in
	''|*[!0-9]*)
		echo "date: SOURCE_DATE_EPOCH is '$SOURCE_DATE_EPOCH': expected seconds since 1970" >&2
		exit 1
		;;
	esac
	exec /usr/bin/date -u -R -d "@$SOURCE_DATE_EPOCH"
fi
exec /usr/bin/date "$@"
