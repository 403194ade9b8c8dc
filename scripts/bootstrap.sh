#!/usr/bin/env bash
# Installs what building basalt needs and this machine lacks; with --test also
# what its tests need, with --lint also what `make lint` needs, with --arm64 also
# what `make arm64-check` needs, with --suite also what Redis's own test suite
# needs (docs/compat/redis-suite.md). Checks first and does nothing when nothing is
# missing, so every make target may run it.
#
# usage: scripts/bootstrap.sh [--test] [--lint] [--arm64] [--suite]
#
# Exits 1 with a message when it cannot provide something.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly go_needed=1.26
readonly rocksdb_needed=7.8 # the series that is built from source, and that go.mod's grocksdb fits
readonly staticcheck_version=v0.7.0

say() { printf 'bootstrap: %s\n' "$*" >&2; }
die() {
	say "$*"
	exit 1
}

with_test=false
with_lint=false
with_arm64=false
with_suite=false
for arg in "$@"; do
	case $arg in
	--test) with_test=true ;;
	--lint) with_lint=true ;;
	--arm64) with_arm64=true ;;
	--suite) with_suite=true ;;
	*) die "unknown argument $arg (known: --test, --lint, --arm64, --suite)" ;;
	esac
done

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "needs root to run: $*"
	fi
}

apt_updated=false
apt_update() {
	$apt_updated && return
	say "reading the package lists"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 update ||
		say "apt-get update failed; going on with the lists that are there"
	apt_updated=true
}

apt_install() { # package...
	apt_update
	say "installing $*"
	as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends -o Acquire::Retries=3 "$@" >/dev/null
}

# missing_packages prints those of its arguments that dpkg does not have installed.
missing_packages() {
	local have package
	have=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
	for package in "$@"; do
		grep -qx "$package installed" <<<"$have" || printf '%s\n' "$package"
	done
}

# rocksdb_version prints the major.minor.patch of the headers that the C++
# compiler finds, or nothing.
rocksdb_version() {
	command -v g++ >/dev/null || return 0
	# shellcheck disable=SC2086 # the flags are a list
	printf '#include <rocksdb/version.h>\n' |
		g++ ${CGO_CXXFLAGS-} -E -dM -x c++ - 2>/dev/null |
		awk '/define ROCKSDB_(MAJOR|MINOR|PATCH) / { v[$2] = $3 }
			END { if ("ROCKSDB_MAJOR" in v) print v["ROCKSDB_MAJOR"] "." v["ROCKSDB_MINOR"] "." v["ROCKSDB_PATCH"] }' ||
		true # no such header
}

# fits sets grocksdb to the version that fits a RocksDB, with its checksum and that of its go.mod: none for go.mod's own.
fits() { # version
	grocksdb=()
	case $1 in
	"$rocksdb_needed".*) ;;
	8.9.*) # Ubuntu 24.04
		grocksdb=(v1.8.10 6FAhBThErRfJaevGOZISYvkG7RD4gfzeq452X4r8pes= xZCIb5Muw+nhbDK4Y5UJuOrin5MceOuiXkVUR7vp4WY=)
		;;
	9.10.*) # Debian 13
		grocksdb=(v1.9.8 vOIKv9/+HKiqJAElJIEYv3ZLcihRxyP7Suu/Mu8Dxjs= C3CNe9UYc9hlEM2pC82AqiGS3LRW537u9LFV4wIZuHk=)
		;;
	*) return 1 ;;
	esac
}

# choose_modules writes build/rocksdb/go.mod, which scripts/env.sh lets Go use instead of go.mod, for a RocksDB that
# another grocksdb fits; it is go.mod with that version.
choose_modules() {
	local module=github.com/linxGnu/grocksdb dir=build/rocksdb
	if [ ${#grocksdb[@]} = 0 ]; then
		rm -rf "$dir"
		return
	fi
	mkdir -p "$dir"
	sed "s|$module v[0-9.]*|$module ${grocksdb[0]}|" go.mod >"$dir/go.mod.new"
	grep -v "^$module " go.sum >"$dir/go.sum"
	printf '%s\n' "$module ${grocksdb[0]} h1:${grocksdb[1]}" "$module ${grocksdb[0]}/go.mod h1:${grocksdb[2]}" >>"$dir/go.sum"
	mv "$dir/go.mod.new" "$dir/go.mod"
}

# rocksdb_links reports whether a program links against librocksdb.a the way
# engine/rocks does, in about a tenth of a second. The program refers to no
# symbol, so only the libraries' presence is checked.
rocksdb_links() {
	printf 'int main() { return 0; }\n' |
		g++ -x c++ - -o /dev/null -Lengine/rocks/lib -lrocksdb >/dev/null 2>&1
}

readonly compilers=(g++ make)
readonly codecs=(libsnappy-dev liblz4-dev libzstd-dev libbz2-dev zlib1g-dev)

if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
	mapfile -t missing < <(missing_packages "${compilers[@]}" "${codecs[@]}" ca-certificates)
	[ ${#missing[@]} = 0 ] || apt_install "${missing[@]}"
	have_apt=true
else
	have_apt=false
	for tool in "${compilers[@]}"; do
		command -v "$tool" >/dev/null ||
			die "$tool is missing, and so is apt-get to install it with; needed are ${compilers[*]}, RocksDB $rocksdb_needed and the development files of snappy, lz4, zstd, bzip2 and zlib"
	done
fi

if ! command -v go >/dev/null && [ -x /usr/local/go/bin/go ]; then
	PATH=$PATH:/usr/local/go/bin
fi
command -v go >/dev/null || die "Go $go_needed or later is needed and no 'go' is on PATH; see https://go.dev/doc/install"
go_found=$(go env GOVERSION 2>/dev/null | sed -E 's/^go//; s/[^0-9.].*//')
if [ "$(printf '%s\n' "$go_needed" "${go_found:-0}" | sort -V | head -n 1)" != "$go_needed" ]; then
	die "Go $go_needed or later is needed, $(go version 2>/dev/null || echo 'an older one') was found; see https://go.dev/doc/install"
fi

# RocksDB: a source build made earlier, else the system's, else the
# distribution's package, else a source build.
# shellcheck source=scripts/env.sh
. scripts/env.sh
found=$(rocksdb_version)
if [ -z "$found" ] && $have_apt; then
	apt_update
	candidate=$(apt-cache policy librocksdb-dev | sed -n 's/^ *Candidate: *//p')
	if fits "$candidate"; then
		apt_install librocksdb-dev
		found=$(rocksdb_version)
	else
		found=${candidate%-*}
		[ "$found" != "(none)" ] || found=
	fi
fi
if ! fits "$found" || ! rocksdb_links; then
	if fits "$found"; then
		say "RocksDB $found was found but its static library (librocksdb.a) was not; building RocksDB from source"
	else
		say "RocksDB $rocksdb_needed is needed, ${found:-no RocksDB} was found; building RocksDB from source"
	fi
	third_party/rocksdb/build.sh
	# shellcheck source=scripts/env.sh
	. scripts/env.sh
	rocksdb_links || die "a program does not link with the RocksDB that was built in third_party/rocksdb/build"
	fits "$rocksdb_needed.0"
fi
choose_modules

if $have_apt && ! command -v ldb >/dev/null; then
	apt_install rocksdb-tools
fi

# install_redis installs redis-server for the tests, which start their own: the
# service that the package would start (and start again at every boot) stays off.
install_redis() {
	local policy=/usr/sbin/policy-rc.d
	if [ ! -e $policy ]; then
		printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
		as_root chmod 755 $policy
		trap "as_root rm -f $policy" EXIT
	fi
	apt_install redis-server redis-tools
	if [ -d /run/systemd/system ]; then
		as_root systemctl disable --now redis-server >/dev/null 2>&1 || true
	fi
}

if $with_test && ! { command -v redis-server && command -v redis-cli && command -v redis-benchmark; } >/dev/null; then
	$have_apt || die "redis-server, redis-cli and redis-benchmark are needed by the tests, and apt-get to install them with is missing"
	install_redis
fi

if $with_test && ! command -v openssl >/dev/null; then # whose encrypted keys and names of ciphers are compared
	$have_apt || die "openssl is needed by the tests, and apt-get to install it with is missing"
	apt_install openssl
fi

# arm64_root unpacks the distribution's arm64 packages of RocksDB, the compression libraries and all that they need into
# build/arm64/root, for the cross compiler and for qemu. They cannot be installed: librocksdb-dev is not "Multi-Arch:
# same", so that of arm64 would replace this machine's. apt works on files of its own, which need no root; with an empty
# list of installed packages it downloads everything, the C library too.
arm64_root() {
	local dir=$PWD/build/arm64 deb
	local options=(-qq -o Acquire::Retries=3 -o APT::Architecture=arm64 -o APT::Architectures::=arm64
		-o Dir::State="$dir/apt" -o Dir::State::status="$dir/apt/status" -o Dir::Cache="$dir/apt/cache"
		-o APT::Sandbox::User=)
	[ ! -d "$dir/root" ] || return 0
	say "unpacking RocksDB and its libraries for arm64 in build/arm64/root"
	rm -rf "$dir/apt" "$dir/new"
	mkdir -p "$dir/new" "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial"
	: >"$dir/apt/status"
	apt-get "${options[@]}" update
	apt-get "${options[@]}" install -y --download-only --no-install-recommends librocksdb-dev "${codecs[@]}" >/dev/null
	for deb in "$dir"/apt/cache/archives/*.deb; do
		dpkg-deb -x "$deb" "$dir/new"
	done
	mv "$dir/new" "$dir/root"
	rm -rf "$dir/apt"
}

if $with_arm64; then
	$have_apt || die "apt-get is needed to install what building for arm64 needs"
	mapfile -t missing < <(missing_packages g++-aarch64-linux-gnu qemu-user-static)
	[ ${#missing[@]} = 0 ] || apt_install "${missing[@]}"
	arm64_root
fi

if $with_suite && ! command -v tclsh >/dev/null; then
	$have_apt || die "tclsh is needed by Redis's test suite, and apt-get to install it with is missing"
	apt_install tcl
fi

if $with_lint; then
	# The file beside the program says which version it is and which Go built it:
	# staticcheck cannot check code for a newer Go than its own.
	stamp="$staticcheck_version $(go env GOVERSION)"
	if [ ! -x build/tools/staticcheck ] || [ "$(cat build/tools/staticcheck.version 2>/dev/null)" != "$stamp" ]; then
		say "installing staticcheck $staticcheck_version"
		mkdir -p build/tools
		GOFLAGS= GOBIN=$PWD/build/tools go install "honnef.co/go/tools/cmd/staticcheck@$staticcheck_version"
		printf '%s\n' "$stamp" >build/tools/staticcheck.version
	fi
fi
