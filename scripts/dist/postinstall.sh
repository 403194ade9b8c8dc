#!/bin/sh
# Starts the server, or starts it again after an upgrade.
set -e
if [ "$1" != configure ] || [ ! -d /run/systemd/system ]; then
	exit 0
fi
systemctl daemon-reload
if [ -z "$2" ]; then
	systemctl enable --now basalt.service
else
	systemctl try-restart basalt.service basalt-backup.service
fi
