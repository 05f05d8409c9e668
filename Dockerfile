# syntax=docker/dockerfile:1
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
# The build context has no .git, so pass the version: --build-arg VERSION=$(git describe --tags --always)
ARG VERSION=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    make build VERSION="$VERSION"

# The binary is static and needs no base image. The bash tool needs a shell and the usual commands, and most of its calls expect git and
# certificates.
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 65532 toold \
    && useradd --uid 65532 --gid 65532 --home-dir /workspace --no-create-home --shell /usr/sbin/nologin toold \
    && install -d -o 65532 -g 65532 -m 0700 /var/lib/toold \
    && install -d -o 65532 -g 65532 /workspace
COPY --from=build /src/bin/toold /src/bin/toold-sandbox /usr/local/bin/
USER 65532:65532
ENV TOOLD_DATA=/var/lib/toold TOOLD_WORKSPACE=/workspace
WORKDIR /workspace
VOLUME ["/var/lib/toold", "/workspace"]
# Run it with an init process (docker run --init, init: true): PID 1 must reap the orphaned processes of calls.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 CMD ["toold", "health"]
ENTRYPOINT ["toold"]
CMD ["serve"]
