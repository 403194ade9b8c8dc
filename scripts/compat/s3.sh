#!/usr/bin/env bash
# Runs the tests of backups in S3 against a real S3 server, the Versity S3
# Gateway, which is built from its Go module (scripts/compat/s3/go.mod) and keeps
# objects as files. It checks signatures and takes uploads of several parts.
#
# usage: scripts/compat/s3.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/env.sh

work=$(mktemp -d)
pid=
cleanup() {
	[ -z "$pid" ] || { kill "$pid" && wait "$pid"; } 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT

(cd scripts/compat/s3 && GOFLAGS= go build -o "$work/versitygw" github.com/versity/versitygw/cmd/versitygw)
mkdir -p "$work/data/bucket" "$work/meta"
export AWS_ACCESS_KEY_ID=tester AWS_SECRET_ACCESS_KEY=secret-of-the-tester AWS_REGION=us-east-1
for _ in $(seq 20); do # another process may take the port that was free
	port=$((20000 + RANDOM % 10000))
	"$work/versitygw" --port "127.0.0.1:$port" --access "$AWS_ACCESS_KEY_ID" --secret "$AWS_SECRET_ACCESS_KEY" \
		posix --sidecar "$work/meta" "$work/data" >"$work/log" 2>&1 &
	pid=$!
	for _ in $(seq 100); do
		kill -0 "$pid" 2>/dev/null || break
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break 2
		sleep 0.1
	done
	wait "$pid" 2>/dev/null || true
	pid=
done
[ -n "$pid" ] || { cat "$work/log" >&2; echo "s3: the S3 server does not start" >&2; exit 1; }
export AWS_ENDPOINT_URL_S3=http://127.0.0.1:$port BASALT_TEST_S3=s3://bucket
go test -count=1 -run 'TestStores|TestS3|TestParts' ./internal/backup
echo "s3: backups work with the Versity S3 Gateway"
