#!/usr/bin/env bash
# Makes a self-signed certificate for `make run TLS=1` in .tls/, unless a valid one exists. It is
# for localhost and for this host's own names and addresses. A browser elsewhere in the network can
# then trust it, and gives the page access to the microphone.
source "$(dirname "$0")/common.sh"

"$root/scripts/setup-apt.sh" build
folder=$root/.tls
days=90

names=(DNS:localhost IP:127.0.0.1 IP:::1)
for name in $(hostname 2>/dev/null) $(hostname --fqdn 2>/dev/null); do
    [[ " ${names[*]} " == *" DNS:$name "* ]] || names+=("DNS:$name")
done
for address in $(hostname --all-ip-addresses 2>/dev/null); do
    # Link-local addresses (fe80::) mean nothing without the name of the link.
    [[ $address == fe80:* ]] || names+=("IP:$address")
done
alternatives=$(IFS=,; echo "${names[*]}")

# Valid for at least one more day, for a server that keeps running.
if [[ -f $folder/key.pem && $(cat "$folder/names" 2>/dev/null) == "$alternatives" ]] &&
    openssl x509 -checkend 86400 -noout -in "$folder/cert.pem" >/dev/null 2>&1; then
    exit 0
fi

mkdir -p "$folder"
(
    umask 077
    run_logged tls-certificate openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 \
        -noenc -keyout "$folder/key.pem" -out "$folder/cert.pem" -days "$days" \
        -subj '/CN=Parley (self-signed)' -addext "subjectAltName=$alternatives" \
        -addext extendedKeyUsage=serverAuth
) || fail "openssl could not make a certificate; see .build/setup/tls-certificate.log"
echo "$alternatives" >"$folder/names"
say "made a self-signed certificate for ${names[*]#*:} in .tls/"
