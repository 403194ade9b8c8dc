#!/bin/sh
# Runs a sub-command, or the server with options, which win over these.
case "${1-}" in
"" | -*) exec basalt --bind '* -::*' --dir /data "$@" ;;
*) exec basalt "$@" ;;
esac
