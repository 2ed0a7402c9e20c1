# Stands in for compiling and packaging. A line CONFIG_FAKE_...=y makes it go wrong in that way.
set -e
has() { grep -q "^CONFIG_FAKE_$1=y" "$O/.config"; }

echo '  CC      init/main.o'
echo '  CC      kernel/fork.o'
touch "$O/main.o"
if has ERROR; then
	echo 'kernel/fork.c: In function '"'copy_process'"':'
	echo "kernel/fork.c:99:2: error: 'x' undeclared (first use in this function)"
	echo '  CC      kernel/exit.o'
	echo 'make[3]: *** [scripts/Makefile.build:229: kernel/fork.o] Error 1'
	exit 2
fi
if has KILLED; then
	echo 'gcc: fatal error: Killed signal terminated program cc1'
	exit 2
fi
if has FILLS && [ "$(df -Pm "$O" | awk 'NR == 2 { print $2 }')" -lt 1000 ]; then
	# Only a small file system, which is there to be filled.
	dd if=/dev/zero "of=$O/fill" bs=1048576
fi
if has SLOW; then
	# A compiler that would go on for long after make is gone.
	sh -c 'sleep 613' &
	setsid sleep 614 &
	wait
fi
hours=$(sed -n 's/^CONFIG_FAKE_HOURS=//p' "$O/.config")
if [ -n "$hours" ]; then
	sh -c "sleep 61$hours" &
	setsid sleep "62$hours" &
	wait
fi
if has GATE; then
	until [ -e "$O/open" ]; do sleep 0.02; done
fi
if has KEY; then
	mkdir -p "$O/certs"
	echo key >"$O/certs/signing_key.pem"
fi

image=$O/image
rm -rf "$image"
mkdir -p "$image/DEBIAN" "$image/boot" "$image/lib/modules/$RELEASE/kernel/lib"
cp "$O/.config" "$image/boot/config-$RELEASE"
if has SWAPPED; then
	sed -i 's/^CONFIG_TINY=y/CONFIG_TINY=m/' "$image/boot/config-$RELEASE"
fi
kernel=$image/boot/vmlinuz-$RELEASE
at() { printf "$2" | dd "of=$kernel" bs=1 "seek=$1" conv=notrunc 2>/dev/null; }
if has BULK; then
	dd if=/dev/urandom "of=$image/boot/bulk" bs=1024 count=512 2>/dev/null
fi
host=forge
if has HOST; then host=builder17; fi
dd if=/dev/zero "of=$kernel" bs=1024 count=8 2>/dev/null
at 514 HdrS
at 526 '\000\001'
at 768 "$RELEASE (builder@$host) #$KBUILD_BUILD_VERSION SMP\000"
printf 'module~Module signature appended~\n' >"$image/lib/modules/$RELEASE/kernel/lib/signed.ko"
printf 'module' >"$image/lib/modules/$RELEASE/kernel/lib/plain.ko"

# What two builds make differently, by the one thing that is never the same: the number of jobs.
jobs=$(printf '%s' "$MAKEFLAGS" | sed -n 's/.*-j\([0-9][0-9]*\).*/\1/p')
jobs=${jobs:-1}
planted=usr/share/planted
mkdir -p "$image/$planted"
differs() { has "DIFFERS_$1"; }
time=0
where=build
if differs TIME; then time=$jobs; fi
if differs PATH; then where=build$jobs; fi
made=$(date -u -d "@$((SOURCE_DATE_EPOCH + time))" '+%a, %d %b %Y %H:%M:%S +0000')
echo "made $made in /$where/obj" >"$image/$planted/notes"
if differs KEY; then
	printf '%s\n' '-----BEGIN CERTIFICATE-----' "$jobs" >"$image/$planted/certificate"
	# A module, its signature, and what says how long that is.
	zeros='\000\000\000\000\000\000\000\000'
	printf "modulesig$jobs$zeros\\000\\000\\000\\004~Module signature appended~\\n" \
		>"$image/lib/modules/$RELEASE/kernel/lib/signed.ko"
fi
if differs ORDER; then
	printf 'a.ko\nb.ko\n' | sort $([ $((jobs % 2)) = 0 ] || echo -r) >"$image/$planted/modules.order"
fi
if differs UNKNOWN; then
	printf "\\00$jobs\\001" >"$image/$planted/unknown"
fi
if differs BTF; then
	echo 'int x;' | gcc -c -x c - -o "$O/x.o"
	if [ $((jobs % 2)) = 0 ]; then echo ab; else echo ba; fi >"$O/btf"
	objcopy --add-section ".BTF=$O/btf" "$O/x.o" "$image/$planted/btf.ko"
fi
if differs ID; then
	echo 'int x;' | gcc -shared -nostdlib -x c - "-Wl,--build-id=0x0$jobs" -o "$image/$planted/id.so"
fi
if differs SURROUNDINGS; then
	# What is different on purpose, and what may not reach a build.
	id -u >"$image/$planted/user"
	/usr/bin/date -u +%s >"$image/$planted/clock"
	umask >"$image/$planted/umask"
	env | grep -v -e FAKETIME -e FAKE_STAT -e LD_PRELOAD -e MAKEFLAGS -e MFLAGS | LC_ALL=C sort >"$image/$planted/environment"
fi

package() {
	level=
	if differs THREADS && [ "$1" = "linux-headers-$RELEASE" ]; then level=-z$jobs; fi
	cat >"$2/DEBIAN/control" <<-EOF
	Package: $1
	Source: $KDEB_SOURCENAME
	Version: $KDEB_PKGVERSION
	Architecture: amd64
	Maintainer: $DEBFULLNAME <$DEBEMAIL>
	Description: a package that stands in for a kernel's
	EOF
	dpkg-deb --root-owner-group "-Z$KDEB_COMPRESS" $level -b "$2" "$O/../$1_${KDEB_PKGVERSION}_amd64.deb" >/dev/null
}
package "linux-image-$RELEASE" "$image"
other() {
	rm -rf "$O/other"
	mkdir -p "$O/other/DEBIAN"
	if differs HEADERS; then
		mkdir -p "$O/other/usr/src"
		echo "made $made" >"$O/other/usr/src/notes"
	fi
	package "$1" "$O/other"
}
other linux-libc-dev
# As in mkdebian: no headers without modules, nor where the profile leaves them out.
case " $DEB_BUILD_PROFILES " in
*" pkg.$KDEB_SOURCENAME.nokernelheaders "*) ;;
*) if grep -q '^CONFIG_MODULES=y' "$O/.config"; then other "linux-headers-$RELEASE"; fi ;;
esac
if has EXTRA; then cp "$O/../linux-libc-dev_${KDEB_PKGVERSION}_amd64.deb" "$O/../surprise.deb"; fi
date -R >"$O/changelog-date"
