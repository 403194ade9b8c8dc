#!/bin/sh
# Starts the server, or starts it again after an upgrade.
set -e
if [ "$1" != configure ] || [ ! -d /run/systemd/system ]; then
	exit 0
fi
systemctl daemon-reload
# The package is installed even if the server does not start, for example because its port is in use.
if [ -z "$2" ]; then
	systemctl enable basalt.service
	systemctl start basalt.service || echo "basalt.service has not started: see journalctl -u basalt" >&2
else
	systemctl try-restart basalt.service basalt-backup.service ||
		echo "a service has not started again: see journalctl -u basalt -u basalt-backup" >&2
fi
