# docker build -t basalt .
# Everything comes from the registries of Docker, Debian and Go, and RocksDB's source from GitHub. RocksDB is built
# without assertions, in about 20 minutes of CPU time. --build-arg ROCKSDB=debian takes Debian's package, which has
# assertions: for a quick try.
FROM golang:1.26-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
	librocksdb-dev libsnappy-dev liblz4-dev libzstd-dev libbz2-dev zlib1g-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
ARG ROCKSDB=source
COPY third_party/rocksdb/build.sh third_party/rocksdb/
RUN if [ "$ROCKSDB" = source ]; then mkdir -p engine/rocks/lib build && third_party/rocksdb/build.sh; fi
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN . scripts/env.sh && go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /basalt . && \
	scripts/check-static.sh /basalt

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
	ca-certificates libstdc++6 libsnappy1v5 liblz4-1 libzstd1 libbz2-1.0 zlib1g && rm -rf /var/lib/apt/lists/* && \
	useradd --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin basalt && install -d -o basalt -m 0750 /data
COPY --from=build /basalt /usr/bin/basalt
COPY LICENSE third_party/README.md /usr/share/doc/basalt/
USER 10001
VOLUME /data
EXPOSE 6666
COPY --chmod=755 scripts/dist/entrypoint.sh /usr/bin/basalt-entrypoint
ENTRYPOINT ["basalt-entrypoint"]
