#!/bin/sh
# nginx as a TLS server: one process, TLS 1.3, tickets; every request is answered with 200, and the
# connection closed. The folder has cert.pem and key.pem.
#
#   tls_nginx.sh PORT FOLDER
port=$1 folder=$(cd "$2" && pwd) || exit 1
cat >"$folder/nginx.conf" <<NGINX
daemon off;
master_process off;
pid $folder/nginx.pid;
error_log stderr error;
events { worker_connections 8192; }
http {
    access_log off;
    client_body_temp_path $folder/nginx-body;
    proxy_temp_path $folder/nginx-proxy;
    fastcgi_temp_path $folder/nginx-fastcgi;
    uwsgi_temp_path $folder/nginx-uwsgi;
    scgi_temp_path $folder/nginx-scgi;
    keepalive_timeout 0;
    server {
        listen 127.0.0.1:$port ssl backlog=4096;
        ssl_certificate $folder/cert.pem;
        ssl_certificate_key $folder/key.pem;
        ssl_protocols TLSv1.3;
        ssl_session_cache off;
        ssl_session_tickets on;
        location / { return 200 "ok"; }
    }
}
NGINX
exec nginx -c "$folder/nginx.conf" -e stderr
