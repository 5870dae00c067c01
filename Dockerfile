# httpjet as a container: one static binary, no shell, not root.
#   docker build -t httpjet .
#   docker run -v $PWD/site:/srv/httpjet -p 8080:8080 httpjet
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -pgo=packaging/httpjet.pgo -ldflags "-s -w -X httpjet/server.Version=${VERSION}" -o /out/httpjet ./cmd/httpjet \
 && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /out/mock ./demo/mock \
 && mkdir -p /out/srv/httpjet /out/tmp && chmod 1777 /out/tmp

# The applications and the client of compose.yaml.
FROM scratch AS mock
COPY --from=build /out/mock /mock
USER 65532:65532
ENTRYPOINT ["/mock"]

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /usr/share/zoneinfo /usr/share/zoneinfo
COPY --from=build --chown=65532:65532 /out/tmp /tmp
COPY --from=build --chown=65532:65532 /out/srv/httpjet /srv/httpjet
COPY --from=build /out/httpjet /usr/bin/httpjet
USER 65532:65532
WORKDIR /srv/httpjet
EXPOSE 8080 8443 8443/udp
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/httpjet", "--root", "/srv/httpjet"]
CMD ["serve"]
