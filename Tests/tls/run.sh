#!/usr/bin/env bash
# Tests the server's TLS from outside, with the `openssl` tool as client: protocols, ciphers,
# groups, ALPN, resumption, renegotiation, compression, stapling, client certificates, and a reload
# during an open connection. It makes its certificates in a temporary folder.
#
#   run.sh      PARLEY_BINARY: the server, .build/release/parley by default
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/../../scripts/common.sh"

"$root/scripts/setup-apt.sh" build
binary=${PARLEY_BINARY:-$root/.build/release/parley}
[[ -x $binary ]] || fail "$binary is missing: run \`make build\` first"

# Time limit in seconds for what would otherwise wait for ever. No test depends on how much earlier
# an event comes.
hang_guard=120
folder=$(mktemp -d)
server=
passed=0
failed=0

stop_server() {
    [[ $server ]] || return 0
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
}
trap 'stop_server; rm -rf "$folder"' EXIT

# check WORDS…: counts a test by the status of the previous command, which $? still has.
check() {
    local status=$?
    if ((status == 0)); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s\n' "$*"
        tail -n 5 "$folder/client.log" | sed 's/^/    /'
        printf "    server's log:\n"
        tail -n 5 "$folder/server.log" | sed 's/^/        /'
        printf '    again: make test-tls\n'
    fi
}

# ---- Certificates ------------------------------------------------------------------------

# authority NAME: makes an authority in NAME.pem and NAME.key.
authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 2 \
        -keyout "$folder/$1.key" -out "$folder/$1.pem" -subj "/CN=$1" 2>/dev/null
}

# issue NAME AUTHORITY ALGORITHM…: makes a certificate for localhost in NAME.pem and NAME.key.
issue() {
    local name=$1 issuer=$2
    shift 2
    openssl req -newkey "$@" -noenc -keyout "$folder/$name.key" -out "$folder/$name.csr" \
        -subj "/CN=$name" 2>/dev/null
    openssl x509 -req -in "$folder/$name.csr" -CA "$folder/$issuer.pem" \
        -CAkey "$folder/$issuer.key" -CAcreateserial -days 2 -out "$folder/$name.pem" \
        -extfile <(echo 'subjectAltName=DNS:localhost') 2>/dev/null
}

# staple NAME AUTHORITY: makes NAME.der, the OCSP response in which AUTHORITY calls NAME good.
staple() {
    local serial
    serial=$(openssl x509 -in "$folder/$1.pem" -noout -serial)
    printf 'V\t491231235959Z\t\t%s\tunknown\t/CN=%s\n' "${serial#serial=}" "$1" >"$folder/index"
    openssl ocsp -index "$folder/index" -CA "$folder/$2.pem" -rsigner "$folder/$2.pem" \
        -rkey "$folder/$2.key" -issuer "$folder/$2.pem" -cert "$folder/$1.pem" -ndays 1 \
        -respout "$folder/$1.der" >/dev/null 2>&1
}

authority ours
authority foreign
ec=(ec -pkeyopt ec_paramgen_curve:prime256v1)
issue ecdsa ours "${ec[@]}"
issue next ours "${ec[@]}"
issue rsa ours rsa:2048
issue client ours "${ec[@]}"
issue stranger foreign "${ec[@]}"
staple ecdsa ours

# ---- The server --------------------------------------------------------------------------

# start_server CERTIFICATE OPTIONS…: starts a server on a free port and sets $port.
start_server() {
    stop_server
    cp "$folder/$1.pem" "$folder/cert.pem"
    cp "$folder/$1.key" "$folder/key.pem"
    shift
    # Emptied before the server starts: the loop may read the log before the redirection below has
    # emptied it.
    : >"$folder/server.log"
    "$binary" serve --port 0 --tls-cert "$folder/cert.pem" --tls-key "$folder/key.pem" \
        --log-level debug --header-timeout-ms 600000 "$@" >"$folder/server.log" 2>&1 &
    server=$!
    local deadline=$((SECONDS + hang_guard))
    while ((SECONDS < deadline)); do
        if grep -q '/metrics' "$folder/server.log"; then
            port=$(sed -n 's|.*https://127.0.0.1:\([0-9]*\)/metrics|\1|p' "$folder/server.log")
            return
        fi
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    fail "the server did not start: $(tail -n 1 "$folder/server.log")"
}

# client OPTIONS…: opens a connection and sends one request; true if it was answered.
client() {
    printf 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' |
        timeout $hang_guard openssl s_client -connect "127.0.0.1:$port" -servername localhost \
            -CAfile "$folder/ours.pem" -ign_eof "$@" >"$folder/client.log" 2>&1 || true
    grep -q '^HTTP/1.1 200' "$folder/client.log"
}

# await_line PATTERN FILE: waits until the file has a matching line.
await_line() {
    local deadline=$((SECONDS + hang_guard))
    until grep -q "$1" "$2" || ((SECONDS >= deadline)); do sleep 0.1; done
}

said() {
    grep -qE "$1" "$folder/client.log"
}

refused() {
    ! client "$@"
}

# ---- Protocols ---------------------------------------------------------------------------

start_server ecdsa --tls-ocsp "$folder/ecdsa.der"
# From here on, a command that fails is a failed test.
set +e

client -tls1_3 && said 'Verify return code: 0 \(ok\)'
check "TLS 1.3 is spoken, with a certificate that holds"
client -tls1_2 && said 'Verify return code: 0 \(ok\)'
check "TLS 1.2 is spoken, with a certificate that holds"
for protocol in tls1 tls1_1; do
    # Security level 0 makes the tool itself accept such a connection.
    refused "-$protocol" -cipher 'ALL:@SECLEVEL=0' && said 'alert protocol version'
    check "$protocol is refused with protocol_version"
done
if openssl s_client -help 2>&1 | grep -q -- '-ssl3 '; then
    refused -ssl3
    check "ssl3 is refused"
else
    # The tool no longer supports this version: a hand-made hello, which must get an alert (21) and
    # no answer (22).
    hello='\x16\x03\x00\x00\x2f\x01\x00\x00\x2b\x03\x00%032d\x00\x00\x04\x00\x0a\x00\x05\x01\x00'
    # shellcheck disable=SC2059  # The format is the message.
    printf "$hello" 0 |
        timeout $hang_guard bash -c "exec 3<>/dev/tcp/127.0.0.1/$port; cat >&3; cat <&3" \
            >"$folder/client.log" || true
    [[ $(head -c 1 "$folder/client.log" | od -An -tu1) -eq 21 ]]
    check "ssl3 is refused"
fi

# ---- Ciphers -----------------------------------------------------------------------------

try_ciphers() {
    local kind=$1 cipher
    for cipher in AES128-GCM-SHA256 AES256-GCM-SHA384 CHACHA20-POLY1305; do
        client -tls1_2 -cipher "ECDHE-$kind-$cipher" && said "Cipher is ECDHE-$kind-$cipher"
        check "ECDHE-$kind-$cipher is accepted"
    done
    for cipher in NULL EXPORT RC4 3DES CBC:-AESGCM:-CHACHA20 kRSA kDHE aNULL PSK SHA1 SHA256 \
        CAMELLIA ARIA AESCCM; do
        # The tool cannot offer ciphers that its build does not have.
        openssl ciphers -tls1_2 "$cipher:!AESGCM:!CHACHA20:@SECLEVEL=0" >/dev/null 2>&1 || continue
        # Without a key to share, the tool would not offer PSK.
        refused -tls1_2 -cipher "$cipher:!AESGCM:!CHACHA20:@SECLEVEL=0" -psk 0123456789abcdef &&
            said 'alert handshake failure'
        check "the ciphers of $cipher are refused"
    done
}
try_ciphers ECDSA
for suite in TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256; do
    client -tls1_3 -ciphersuites "$suite" && said "Cipher is $suite"
    check "$suite is accepted"
done
refused -tls1_3 -ciphersuites TLS_AES_128_CCM_8_SHA256 && said 'alert handshake failure'
check "TLS_AES_128_CCM_8_SHA256 is refused"

# ---- Groups, ALPN, features that must be off ---------------------------------------------

for group in X25519 prime256v1 secp384r1; do
    client -groups "$group" && said "Server Temp Key: (X25519|ECDH, $group)"
    check "the group $group is accepted"
done
for group in secp521r1 X448 ffdhe2048; do
    refused -tls1_3 -groups "$group" && said 'alert handshake failure'
    check "the group $group is refused"
done

client -alpn h2,http/1.1 && said 'ALPN protocol: http/1.1'
check "http/1.1 is chosen"
refused -alpn h2 && said 'no application protocol'
check "a client that wants only h2 is told"

client -tls1_2 && said '^Compression: NONE' && said 'Secure Renegotiation IS supported'
check "there is no compression"

# A line "R" makes the tool renegotiate. Its input stays open until it has printed the outcome.
mkfifo "$folder/renegotiation"
timeout $hang_guard openssl s_client -connect "127.0.0.1:$port" -tls1_2 <"$folder/renegotiation" \
    >"$folder/client.log" 2>&1 &
renegotiating=$!
exec 5>"$folder/renegotiation"
await_line 'Verify return code' "$folder/client.log"
echo R >&5
await_line 'no renegotiation' "$folder/client.log"
exec 5>&-
wait "$renegotiating" || true
said 'RENEGOTIATING' && said 'no renegotiation'
check "renegotiation is refused"

client -status && said 'OCSP Response Status: successful' && said 'Cert Status: good'
check "the OCSP response is stapled"

printf 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n' |
    timeout $hang_guard bash -c "exec 3<>/dev/tcp/127.0.0.1/$port; cat >&3; cat <&3" \
        >"$folder/client.log" || true
said '^HTTP/1.1 400' && said 'https://'
check "plain HTTP is answered with a sentence"

# ---- Resumption --------------------------------------------------------------------------

for version in tls1_2 tls1_3; do
    client "-$version" -sess_out "$folder/$version.session" && said '^New, '
    check "$version begins with a full handshake"
    # Several times, because resumption must work on every shard.
    for _ in 1 2 3 4; do
        client "-$version" -sess_in "$folder/$version.session" && said '^Reused, '
        check "$version resumes with a ticket"
    done
done

# ---- Reload ------------------------------------------------------------------------------

served() {
    # -no_ticket: only full handshakes transfer the certificate.
    client -no_ticket && said "^ *0 s:.*CN ?= ?$1"
}

mkfifo "$folder/pipe"
timeout $hang_guard openssl s_client -connect "127.0.0.1:$port" -ign_eof <"$folder/pipe" \
    >"$folder/open.log" 2>&1 &
open_client=$!
exec 4>"$folder/pipe"
await_line 'Verify return code' "$folder/open.log"
cp "$folder/next.pem" "$folder/cert.pem"
kill -HUP "$server"
await_line 'not reloaded' "$folder/server.log"
grep -q 'not reloaded.*is not the key of the certificate' "$folder/server.log"
check "a reload that cannot work says why"
served ecdsa
check "and changes nothing"
cp "$folder/next.key" "$folder/key.pem"
# The old OCSP response is not about the new certificate.
staple next ours && cp "$folder/next.der" "$folder/ecdsa.der"
kill -HUP "$server"
await_line 'files reloaded' "$folder/server.log"
served next
check "a reload serves the new certificate"
printf 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&4
exec 4>&-
wait "$open_client" || true
cp "$folder/open.log" "$folder/client.log"
said '^HTTP/1.1 200' && said '^ *0 s:.*CN ?= ?ecdsa'
check "and leaves an open connection alone"

# ---- RSA, and client certificates --------------------------------------------------------

start_server rsa
try_ciphers RSA
client -tls1_3
check "TLS 1.3 works with an RSA certificate"

own=(-cert "$folder/client.pem" -key "$folder/client.key")
strange=(-cert "$folder/stranger.pem" -key "$folder/stranger.key")
for mode in required optional; do
    start_server ecdsa --tls-client-ca "$folder/ours.pem" --tls-client-auth "$mode"
    for version in tls1_2 tls1_3; do
        client "-$version" "${own[@]}"
        check "$mode: a client with a certificate is served ($version)"
        refused "-$version" "${strange[@]}" && said 'alert unknown ca'
        check "$mode: a client with a foreign certificate is refused ($version)"
        if [[ $mode == required ]]; then
            refused "-$version" && said 'alert (certificate required|handshake failure)'
        else
            client "-$version"
        fi
        check "$mode: a client without a certificate ($version)"
    done
done
stop_server
grep -q 'stopped' "$folder/server.log"
check "the server stops in good order"

printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
