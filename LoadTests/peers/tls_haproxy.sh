#!/bin/sh
# HAProxy as a TLS server: one thread, TLS 1.3, tickets; every request is answered with 200, and the
# connection closed. The folder has cert.pem and key.pem.
#
#   tls_haproxy.sh PORT FOLDER
port=$1 folder=$(cd "$2" && pwd) || exit 1
cat "$folder/cert.pem" "$folder/key.pem" >"$folder/haproxy.pem"
cat >"$folder/haproxy.cfg" <<HAPROXY
global
    nbthread 1
    maxconn 8192
    ssl-default-bind-options ssl-min-ver TLSv1.3
defaults
    mode http
    option httpclose
    timeout client 30s
    timeout server 30s
    timeout connect 5s
frontend tls
    bind 127.0.0.1:$port ssl crt $folder/haproxy.pem backlog 4096
    http-request return status 200 content-type text/plain string ok
HAPROXY
exec haproxy -db -q -f "$folder/haproxy.cfg"
