# docker build -t basalt .
# Everything comes from the registries of Docker, Debian and Go.
FROM golang:1.26-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
	librocksdb-dev libsnappy-dev liblz4-dev libzstd-dev libbz2-dev zlib1g-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /basalt . && \
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
