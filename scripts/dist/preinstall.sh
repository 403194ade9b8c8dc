#!/bin/sh
# Makes the user that the server runs as.
set -e
if ! getent group basalt >/dev/null; then
	groupadd --system basalt
fi
if ! getent passwd basalt >/dev/null; then
	useradd --system --gid basalt --home-dir /var/lib/basalt --no-create-home --shell /usr/sbin/nologin basalt
fi
