# promkairos with the embedded store under /data.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs ./
COPY proto proto
COPY src src
COPY crates crates
COPY bench bench
COPY tests/sim tests/sim
COPY xtask xtask
COPY README.md README.md
# What --version says of it: docker build --build-arg BUILD_COMMIT=$(git rev-parse --short=12 HEAD)
ARG BUILD_COMMIT=
RUN cargo build --release --locked --bin promkairos

FROM debian:bookworm-slim
RUN useradd --system --uid 9201 promkairos && mkdir /data && chown promkairos /data
COPY --from=build /src/target/release/promkairos /usr/local/bin/promkairos
COPY LICENSE /usr/share/doc/promkairos/LICENSE
USER promkairos
VOLUME /data
EXPOSE 9201
# Not in a CMD: arguments of `docker run` would take its place.
ENV PROMKAIROS_LISTEN=0.0.0.0:9201 PROMKAIROS_DATA_DIR=/data
# It asks where PROMKAIROS_LISTEN says. Where the port speaks TLS, --health-cmd of `docker run` says so:
# `promkairos health --server https://NAME:9201 --server-ca FILE`, NAME being one of the certificate's.
HEALTHCHECK --start-period=60s CMD ["promkairos", "health"]
ENTRYPOINT ["promkairos"]
