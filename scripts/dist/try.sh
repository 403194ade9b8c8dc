#!/usr/bin/env bash
# Tries Debian packages in a clean root, under systemd and without network: installs OLD.deb, writes data of every type,
# upgrades to NEW.deb, downgrades, hands the data to Kvrocks and back, removes and purges. Needs root and apt-get.
#
# usage: scripts/dist/try.sh OLD.deb NEW.deb [KVROCKS]
#
# KVROCKS is a program of Kvrocks 2.10; without it that step is left out. SUITE in the environment is the Debian for
# which the packages were built (bookworm). TRY_ROOT names a clean root of debootstrap to copy instead of making one.
set -euo pipefail
old=$(realpath "${1:?usage: scripts/dist/try.sh OLD.deb NEW.deb [KVROCKS]}") new=$(realpath "${2:?no NEW.deb}")
kvrocks=${3:+$(realpath "$3")}
cd "$(dirname "$0")/../.."

for tool in debootstrap systemd-nspawn; do
	command -v $tool >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap systemd-container >/dev/null
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
if [ -n "${TRY_ROOT:-}" ]; then
	cp -a "$TRY_ROOT" "$root"
else
	# What the packages depend on, and what the steps below need.
	debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,redis-tools,procps,libsnappy1v5,liblz4-1,libbz2-1.0,zlib1g,libzstd1,libstdc++6 \
		"${SUITE:-bookworm}" "$root" >"$work/debootstrap.log" || { tail -n 5 "$work/debootstrap.log"; exit 1; }
fi
cp "$old" "$root/root/old.deb"
cp "$new" "$root/root/new.deb"
cp internal/fixture/testdata/kvrocks-2.10/commands.txt "$root/root/"
# Without the replies that hold times since the last use.
grep -avE "^(XINFO CONSUMERS|XPENDING .* - \+|OBJECT)" internal/fixture/testdata/kvrocks-2.10/reads.txt >"$root/root/reads.txt"
[ -z "$kvrocks" ] || install -m 755 "$kvrocks" "$root/usr/local/bin/kvrocks"

cat >"$root/root/steps.sh" <<'STEPS'
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
say() { printf '%s\n' "$*"; }
reads() { redis-cli -p 6666 --no-auth-warning </root/reads.txt >"/root/$1" 2>&1; }
same() {
	reads now
	diff -a /root/first /root/now && say "ok: $1: $(grep -ac . /root/now) lines of replies are the same; $(basalt version | tr '\n' ' ')"
}
checked() {
	systemctl stop basalt
	basalt check /var/lib/basalt | tail -n 1
}

dpkg -i /root/old.deb >/dev/null
systemctl is-active --quiet basalt && systemctl is-enabled --quiet basalt
say "ok: installed, started and enabled; $(ps -o user= -p "$(systemctl show -p MainPID --value basalt)")"
sed -i 's/^requirepass = .*/requirepass = "sample-admin"/' /etc/basalt/kvrocks.toml
systemctl restart basalt
redis-cli -p 6666 --no-auth-warning </root/commands.txt >/root/written 2>&1
reads first
say "ok: $(grep -c . /root/commands.txt) commands, errors: $(grep -ac "^ERR" /root/written || true)"

dpkg --force-confold -i /root/new.deb >/dev/null
systemctl is-active --quiet basalt
same upgraded
grep -q sample-admin /etc/basalt/kvrocks.toml
checked
dpkg --force-confold --force-downgrade -i /root/old.deb >/dev/null
systemctl start basalt
same downgraded
checked

# serves waits until the server at a port answers.
serves() {
	for _ in $(seq 100); do
		redis-cli -p "$1" -a sample-admin --no-auth-warning PING 2>/dev/null | grep -q PONG && return
		sleep 0.2
	done
	systemctl status --no-pager --lines=20 basalt
	return 1
}

if [ -x /usr/local/bin/kvrocks ]; then
	cp -a /var/lib/basalt /root/copy
	printf '%s\n' 'bind 127.0.0.1' 'port 6666' 'dir /var/lib/basalt' 'requirepass sample-admin' 'log-dir stdout' \
		'namespace.ns1 ns1-token' 'pidfile /var/lib/basalt/kvrocks.pid' >/etc/kvrocks.conf
	chmod 644 /etc/kvrocks.conf
	runuser -u basalt -- kvrocks -c /etc/kvrocks.conf >/root/kvrocks.log 2>&1 &
	basalt --dir /root/copy --port 6667 --requirepass sample-admin >/root/copy.log 2>&1 &
	serves 6666
	serves 6667
	# Their replies differ in the form of numbers and errors, the keys and values must not.
	compared=$(basalt migrate --compare-only --from redis://:sample-admin@127.0.0.1:6666 \
		--to redis://:sample-admin@127.0.0.1:6667)
	say "ok: Kvrocks has the directory: ${compared%%$'\n'*}"
	redis-cli -p 6666 -a sample-admin --no-auth-warning SET of:kvrocks 1
	kill %1 %2
	wait %1 %2 || true
	dpkg --force-confold -i /root/new.deb >/dev/null
	systemctl start basalt
	redis-cli -p 6666 -a sample-admin --no-auth-warning GET of:kvrocks
	redis-cli -p 6666 -a sample-admin --no-auth-warning DEL of:kvrocks
	same "back from Kvrocks"
	checked
fi

dpkg --force-confold -i /root/new.deb >/dev/null
systemctl start basalt
systemd-analyze verify --man=no /lib/systemd/system/basalt.service /lib/systemd/system/basalt-backup.service
for unit in basalt basalt-backup; do systemd-analyze security --no-pager $unit | tail -n 1; done
printf '%s\n' SERVER=127.0.0.1:6666 REPOSITORY=/var/backups/basalt REDISCLI_AUTH=sample-admin >/etc/basalt/backup.env
systemctl start basalt-backup
for _ in $(seq 100); do
	basalt backup list /var/backups/basalt 2>/dev/null | grep -q 127.0.0.1:6666 && break
	sleep 0.2
done
basalt backup verify /var/backups/basalt
systemctl is-active --quiet basalt-backup
systemctl stop basalt-backup
say "ok: backed up by basalt-backup.service"
systemctl reload basalt
kill -9 "$(systemctl show -p MainPID --value basalt)"
serves 6666
same "killed and started again"
journalctl -u basalt --no-pager -o cat | tail -n 12
dpkg -r basalt >/dev/null
[ ! -e /usr/bin/basalt ] && [ -e /var/lib/basalt/db/CURRENT ] && [ -e /etc/basalt/kvrocks.toml ]
dpkg -P basalt >/dev/null
[ -e /var/lib/basalt/db/CURRENT ] && [ ! -e /etc/basalt/kvrocks.toml ]
say "ok: removed and purged, the data is there"
say "ALL STEPS HELD"
STEPS
cat >"$root/etc/systemd/system/steps.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/bash /root/steps.sh
ExecStopPost=/usr/bin/touch /root/done
StandardOutput=file:/root/log
StandardError=inherit
[Install]
WantedBy=default.target
UNIT
mkdir -p "$root/etc/systemd/system/default.target.wants"
ln -sf ../steps.service "$root/etc/systemd/system/default.target.wants/steps.service"

systemd-nspawn -q -D "$root" --register=no --keep-unit --private-network --boot >"$work/boot.log" 2>&1 </dev/null &
machine=$!
for _ in $(seq 600); do
	[ ! -e "$root/root/done" ] && kill -0 $machine 2>/dev/null || break
	sleep 1
done
kill $machine 2>/dev/null && wait $machine || true
cat "$root/root/log"
grep -q '^ALL STEPS HELD$' "$root/root/log"
