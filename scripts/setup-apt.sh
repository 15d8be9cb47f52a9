#!/usr/bin/env bash
# Installs missing Debian packages. It needs root only if some are missing.
#
#   setup-apt.sh GROUP…      with the groups build, test, speech, firefox, network, peers, cluster
#                            and brain, listed below
source "$(dirname "$0")/common.sh"

# To build and run the server.
build=(
    g++                      # libstdc++ for the simdjson shim, and the linker
    libcurl4-openssl-dev     # Server/UpstreamHTTP: requests to model servers
    libhiredis-dev           # Codec: the protocol of Redis
    libopus-dev              # Codec: Opus
    libpq-dev                # Records: PostgreSQL
    libsimdjson-dev          # CSimdjson: the JSON parser
    libspeexdsp-dev          # Codec: the resampler
    libsqlite3-dev           # Records: SQLite
    libssl-dev               # Server, parley: TLS
    libyaml-dev              # parley: the configuration file
    flite1-dev               # Agents: text to speech
    openssl                  # the certificate of `make run TLS=1`, and tests of TLS
    pkg-config               # tells SwiftPM where these libraries are
    python3-venv             # runs the one-off conversion of the speech models
    zlib1g-dev               # Codec: permessage-deflate
)

# To run the tests as well.
test=(
    alsa-utils               # recordings of a human voice
    asterisk-core-sounds-en-wav  # recordings of spoken digits
    asterisk-core-sounds-fr-wav  # the same of French sentences
    chromium                 # loads the web page
    curl                     # fetches /metrics
    esbuild                  # bundles parley.js
    haproxy                  # stands in front of the server, and speaks the PROXY protocol
    node-ws                  # a web page's client outside a browser, with its Node
    opus-tools               # opusenc: speech as services send it, Opus in Ogg; opusdec: recordings
    pocketsphinx-testdata    # recordings of human speech, with their texts
    postgresql               # keeps records of conversations
    prometheus               # promtool, the judge of /metrics
    redis-server             # keeps sessions of several servers
    rollup                   # bundles parley.js, too
    shellcheck               # lints these scripts
    sox                      # turns those recordings into WAV files
)

# What people said in other languages, and other sounds of a room, for `make turn-table` and `make
# room-table` as well.
speech=(
    asterisk-core-sounds-es-wav  # Spanish
    asterisk-core-sounds-fr-wav  # French
    asterisk-core-sounds-it-wav  # Italian
    asterisk-core-sounds-ru-wav  # Russian
    asterisk-moh-opsound-wav     # music
    bucklespring-data            # a keyboard
)

# For the long browser tests as well.
firefox=(
    firefox-esr              # loads the web page, too
    pulseaudio               # a loudspeaker without a device: Firefox plays nothing without one
)

# For networks with delay and loss between two namespaces, beside those of the tests.
network=(
    iproute2                 # makes the namespaces and the devices
)

# The programs around the nodes of scripts/cluster.sh.
cluster=(
    curl                     # asks whether a node is ready
    haproxy                  # distributes the clients
    iproute2                 # network namespaces, in which a node can be cut off
    openssl                  # makes a key
    prometheus               # records the metrics of all nodes
    redis-server             # the store that the nodes share, and redis-cli
)

# To build llama-cpp-python; its other tools come from PyPI.
brain=(
    g++                      # the compiler
    python3-dev              # Python's headers
    python3-venv             # a virtual environment of its own
)

# For the echo benchmark and the claims.
peers=(
    gcc                      # the peers in C
    haproxy                  # the peers of handshakes over TLS: HAProxy
    libssl-dev               # the C WebSocket echo: SHA-1
    nginx                    # and nginx
    node-ws                  # the peer on Node; its Node is from PyPI
    pocketsphinx-testdata    # what a session says that keeps the recogniser busy
    python3-venv             # the other peers' virtual environment
    util-linux               # taskset, setpriv
    valgrind                 # counts instructions
    wrk                      # puts load on HTTP
)

packages=()
for group in "$@"; do
    case $group in
        build) packages+=("${build[@]}") ;;
        test) packages+=("${test[@]}") ;;
        speech) packages+=("${speech[@]}") ;;
        firefox) packages+=("${firefox[@]}") ;;
        network) packages+=("${network[@]}") ;;
        peers) packages+=("${peers[@]}") ;;
        cluster) packages+=("${cluster[@]}") ;;
        brain) packages+=("${brain[@]}") ;;
        *) fail "setup-apt.sh: no group is called '$group'" ;;
    esac
done

is_installed() {
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

command -v apt-get >/dev/null ||
    fail "this is no Debian-like system: install the equivalents of ${packages[*]} by hand," \
        "then use \`swift build\`"

missing=()
for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
    command -v sudo >/dev/null ||
        fail "not root, and no sudo: run \`apt-get install ${missing[*]}\` as root, then this again"
    as_root=(sudo)
    # Asked here, on the terminal: inside run_logged the question would go to a log.
    sudo -v ||
        fail "sudo was refused: run \`apt-get install ${missing[*]}\` as root, then this again"
fi

cannot_install() {
    local log=${setup_logs#"$root"/}/apt.log
    if failed_on_network apt; then
        fail "Debian's packages cannot be reached: check the network and run the same command" \
            "again (missing: ${missing[*]}). apt's words are in $log"
    fi
    fail "apt could not install ${missing[*]}; see $log"
}

say "installing Debian packages: ${missing[*]}"
# A shorter time limit: by default apt waits two minutes for each address that does not answer.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q
    -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20)
# Outdated lists may be sufficient, so a failed update only counts if the installation fails too.
run_logged apt-update "${apt[@]}" update || true
run_logged apt "${apt[@]}" install -y --no-install-recommends "${missing[@]}" || {
    cat "$setup_logs/apt-update.log" >>"$setup_logs/apt.log"
    cannot_install
}

# These packages start a server of the whole machine, which nothing here asks.
if [[ -d /run/systemd/system ]]; then
    for service in haproxy nginx postgresql prometheus redis-server; do
        [[ " ${missing[*]} " != *" $service "* ]] ||
            run_logged systemctl "${as_root[@]}" systemctl disable --now "$service" || true
    done
fi
