#!/bin/sh
# Stops the server before its program goes. Data and settings stay; purging removes the settings.
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	systemctl disable --now basalt.service basalt-backup.service
fi
